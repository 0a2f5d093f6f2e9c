"""Decoders: the interface, and the recurrent ones. Bahdanau's attends before its state is updated, Luong's after.

The Transformer's is in transformer.py.

Shapes: B sentences, T target positions, R = B * Q rows (Q hypotheses of each sentence, neighbors), E embedding,
H hidden, W state of a layer, G gates of a layer, C context, O readout, S source positions.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.config.schema import CELLS
from nmt.model.attention import Attention, InitialStateOnly
from nmt.model.cells import Cell
from nmt.model.dropout import Dropout
from nmt.model.encoders import Encoder
from nmt.model.records import Memory, State


class Decoder(nn.Module, ABC):
    """Reads the memory and embedded target tokens; writes what the output layer reads, the readout."""

    attends: bool
    """Whether steps return attention weights."""
    readout_width: int
    """O."""

    def with_positions(self, embedded: Tensor, first: int) -> Tensor:
        """Add positions from ``first`` on, before dropout; a recurrent decoder adds none: (R, T, E) -> (R, T, E)."""
        return embedded

    @abstractmethod
    def start(self, memory: Memory, bridge: Tensor) -> State:
        """Make the state before the first target token, one row a sentence; ``bridge`` (B, ...) is the encoder's."""

    @abstractmethod
    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """Take one target position: (R, E) -> readout (R, O), the next state, weights (R, S) or None."""

    def unroll(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """Take all target positions under teacher forcing: (B, T, E) -> readouts (B, T, O), weights (B, T, S) or None.

        A decoder overrides this where something can be computed for all positions at once.
        """
        readouts, weights = [], []
        for each in embedded.unbind(1):
            readout, state, step_weights = self.step(each, state)
            readouts.append(readout)
            weights.append(step_weights)
        return torch.stack(readouts, 1), stacked(weights)


def stacked(weights: list[Tensor | None]) -> Tensor | None:
    """Stack the weights of T steps: T times (B, S) -> (B, T, S), or None without attention."""
    present = [each for each in weights if each is not None]
    return torch.stack(present, 1) if present else None


# --- recurrent decoders -----------------------------------------------------------------------------------------------


class Maxout(nn.Module):
    """(..., 2O) -> (..., O), the larger of each pair of units (Goodfellow et al. 2013; Bahdanau et al. 2015, A.2.2)."""

    def forward(self, units: Tensor) -> Tensor:
        """The larger unit of each pair."""
        larger: Tensor = torch.maximum(*units.unflatten(-1, (-1, 2)).unbind(-1))
        return larger


class Unread(nn.Module):
    """Stands for a layer that reads a context without units: its output is zero."""

    def forward(self, context: Tensor) -> Tensor:
        """(..., 0) -> a zero that is broadcast."""
        return context.new_zeros(())


class Layer(nn.Module):
    """A layer above the first: reads the output of the layer below it, and nothing else."""

    def __init__(self, options: schema.RecurrentDecoder, bridge: int, dropout: float) -> None:
        super().__init__()
        cell: Cell = CELLS.build(options)
        self.initial = nn.Linear(bridge, cell.width * cell.hidden)
        self.input_gates = cell.of_input(cell.hidden)
        self.cell = cell
        self.residual = options.residual
        self.dropout = Dropout(dropout)

    def forward(self, below: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step: below (R, H), state (R, W) -> output (R, H), state (R, W)."""
        state = self.cell(self.input_gates(self.dropout(below)), state)
        return self.add(below, state), state

    def unroll(self, below: Tensor, state: Tensor) -> Tensor:
        """Take all steps: below (B, T, H), state (B, W) -> outputs (B, T, H)."""
        return self.add(below, self.cell.unroll(self.input_gates(self.dropout(below)), state))

    def add(self, below: Tensor, state: Tensor) -> Tensor:
        """Read the layer's output, with its residual connection if it has one: (..., H), (..., W) -> (..., H)."""
        output = self.cell.output(state)
        return output + below if self.residual else output


@dataclass(frozen=True)
class RecurrentState(State):
    """A recurrent decoder between two steps."""

    hidden: Tensor
    """State of the first layer, (R, W); of a GRU, s_i."""
    attentional: Tensor | None = None
    """Luong's h~_i, (R, O), with input feeding."""
    upper: tuple[Tensor, ...] = ()
    """States of the layers above the first, each (R, W)."""


class RecurrentDecoder(Decoder):
    """Recurrent layers with attention."""

    def __init__(
        self, options: schema.RecurrentDecoder, config: schema.Model, encoder: Encoder, attention: Attention
    ) -> None:
        super().__init__()
        self.attention, self.attends = attention, attention.attends
        self.context_width = 0 if isinstance(attention, InitialStateOnly) else encoder.width  # C
        self.readout_width = options.readout_width(config.embeddings.size)
        activation = options.readout_activation or ("tanh" if config.attention.after_update else "maxout")
        self.nonlinearity = Maxout() if activation == "maxout" else nn.Tanh()
        self.readout_units = (2 if activation == "maxout" else 1) * self.readout_width
        cell: Cell = CELLS.build(options)
        bridge = encoder.bridge_width
        self.initial = nn.Linear(bridge, cell.width * cell.hidden)  # W_s
        self.embedding_gates = cell.of_input(config.embeddings.size)  # of a GRU: W_r, W_z, W
        self.cell = cell
        self.upper = nn.ModuleList(Layer(options, bridge, config.dropout.annotation) for _ in range(options.layers - 1))

    @property
    def above(self) -> list[Layer]:
        """The layers above the first."""
        return cast(list[Layer], list(self.upper))

    def start(self, memory: Memory, bridge: Tensor) -> RecurrentState:
        """s_0 = tanh(W_s backward_1) (Bahdanau et al. 2015, A.2.2), in each layer."""
        initials = [self.initial, *(layer.initial for layer in self.above)]
        hidden, *upper = (torch.tanh(initial(bridge)) for initial in initials)
        return RecurrentState(self.attention.prepare(memory), 0, 1, hidden, upper=tuple(upper))

    def read(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Read the memory: (B, Q, H) -> contexts (B, Q, C), weights (B, Q, S) or None."""
        return cast(tuple[Tensor, Tensor | None], self.attention(queries, positions, memory))

    def attend(self, state: RecurrentState, query: Tensor) -> tuple[Tensor, Tensor | None]:
        """Read the memory: one query of each row (R, H) -> contexts (R, C), weights (R, S) or None."""
        positions = torch.full((state.hypotheses,), state.position, device=query.device)
        context, weights = self.read(query.unflatten(0, (-1, state.hypotheses)), positions, state.memory)
        return context.flatten(0, 1), None if weights is None else weights.flatten(0, 1)

    def upper_layers(self, hidden: Tensor, before: RecurrentState) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Take one step of the layers above the first.

        hidden (R, W), the first layer's; the state before -> output of the last (R, H), their states after the step.
        """
        output, upper = self.cell.output(hidden), []
        for layer, state in zip(self.above, before.upper, strict=True):
            output, after = layer(output, state)
            upper.append(after)
        return output, tuple(upper)

    def upper_layers_at_once(self, states: Tensor, start: RecurrentState) -> Tensor:
        """Take all steps of the layers above the first: states (B, T, W) of the first -> outputs (B, T, H)."""
        outputs = self.cell.output(states)
        for layer, state in zip(self.above, start.upper, strict=True):
            outputs = layer.unroll(outputs, state)
        return outputs

    def after(self, state: RecurrentState, weights: Tensor | None, **changes: Any) -> RecurrentState:
        """Return the state after a step that had these weights (R, S)."""
        return state.advanced(**changes)


class BahdanauDecoder(RecurrentDecoder):
    """Attend, update, read out (Bahdanau et al. 2015, A.2.2).

    The readout takes s_i where the paper's formula prints s_{i-1}, so that it sees the update. With several layers the
    query is the first layer's state (Wu et al. 2016, section 3), and the readout takes the last layer's output.
    """

    def __init__(
        self, options: schema.RecurrentDecoder, config: schema.Model, encoder: Encoder, attention: Attention
    ) -> None:
        super().__init__(options, config, encoder, attention)
        self.context_gates = self._of_context(self.cell.gates * self.cell.hidden)  # of a GRU: C_r, C_z, C
        self.state_readout = nn.Linear(self.cell.hidden, self.readout_units)  # U_o
        self.embedding_readout = nn.Linear(config.embeddings.size, self.readout_units, bias=False)  # V_o
        self.context_readout = self._of_context(self.readout_units)  # C_o

    def _of_context(self, units: int) -> nn.Module:
        return nn.Linear(self.context_width, units, bias=False) if self.context_width else Unread()

    def attend_and_update(self, embedding_gates: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, Tensor | None]:
        """c_i from s_{i-1}, then s_i: gates (R, G) -> contexts (R, C), states (R, W), weights (R, S) or None."""
        context, weights = self.attend(state, self.cell.output(state.hidden))
        return context, self.cell(embedding_gates + self.context_gates(context), state.hidden), weights

    def readout(self, embedded: Tensor, context: Tensor, output: Tensor) -> Tensor:
        """t_i = maxout(U_o s_i + V_o E y_{i-1} + C_o c_i): (..., E), (..., C), (..., H) -> (..., O)."""
        units = self.state_readout(output) + self.embedding_readout(embedded) + self.context_readout(context)
        return cast(Tensor, self.nonlinearity(units))

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        assert isinstance(state, RecurrentState)
        context, hidden, weights = self.attend_and_update(self.embedding_gates(embedded), state)
        output, upper = self.upper_layers(hidden, state)
        readout = self.readout(embedded, context, output)
        return readout, self.after(state, weights, hidden=hidden, upper=upper), weights

    def unroll(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """Loop over the positions only in the first layer; compute the rest for all positions at once."""
        assert isinstance(state, RecurrentState)
        start, contexts, states, alphas = state, [], [], []
        for gates in self.embedding_gates(embedded).unbind(1):  # (B, G)
            context, hidden, weights = self.attend_and_update(gates, state)
            state = self.after(state, weights, hidden=hidden)
            contexts.append(context)
            states.append(hidden)
            alphas.append(weights)
        outputs = self.upper_layers_at_once(torch.stack(states, 1), start)
        return self.readout(embedded, torch.stack(contexts, 1), outputs), stacked(alphas)


class LuongDecoder(RecurrentDecoder):
    """Update, attend, combine: h~_i = tanh(W_c [c_i ; s_i]) (Luong et al. 2015, section 3, eq. 5).

    With input feeding (section 3.3) the update also reads h~_{i-1}. With several layers the query is the output of the
    last one.
    """

    def __init__(
        self, options: schema.RecurrentDecoder, config: schema.Model, encoder: Encoder, attention: Attention
    ) -> None:
        super().__init__(options, config, encoder, attention)
        hidden = self.cell.hidden
        self.feeding_gates = None
        if config.attention.feeds:
            self.feeding_gates = nn.Linear(self.readout_width, self.cell.gates * hidden, bias=False)
        self.combine = nn.Linear(self.context_width + hidden, self.readout_units)  # W_c

    def start(self, memory: Memory, bridge: Tensor) -> RecurrentState:
        """Make the first states; what is fed to step 0 is zero."""
        fed = None if self.feeding_gates is None else bridge.new_zeros(len(bridge), self.readout_width)
        return replace(super().start(memory, bridge), attentional=fed)

    def readout(self, context: Tensor, output: Tensor) -> Tensor:
        """h~_i: contexts (..., C), outputs (..., H) -> (..., O)."""
        return cast(Tensor, self.nonlinearity(self.combine(torch.cat((context, output), -1))))

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        assert isinstance(state, RecurrentState)
        gates = self.embedding_gates(embedded)
        if self.feeding_gates is not None:
            gates = gates + self.feeding_gates(state.attentional)
        hidden: Tensor = self.cell(gates, state.hidden)
        output, upper = self.upper_layers(hidden, state)
        context, weights = self.attend(state, output)
        readout = self.readout(context, output)
        fed = None if self.feeding_gates is None else readout
        return readout, self.after(state, weights, hidden=hidden, upper=upper, attentional=fed), weights

    def unroll(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """Compute all states first, then all contexts at once; with input feeding, step by step."""
        if self.feeding_gates is not None:
            return super().unroll(embedded, state)
        assert isinstance(state, RecurrentState)
        states = self.cell.unroll(self.embedding_gates(embedded), state.hidden)
        return self.attend_at_once(self.upper_layers_at_once(states, state), state)

    def attend_at_once(self, outputs: Tensor, start: State) -> tuple[Tensor, Tensor | None]:
        """Read the memory for all target positions: outputs (B, T, H) -> readouts (B, T, O), weights or None."""
        positions = torch.arange(outputs.size(1), device=outputs.device)
        contexts, weights = self.read(outputs, positions, start.memory)
        return self.readout(contexts, outputs), weights
