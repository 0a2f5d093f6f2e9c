"""The interface of a decoder, and what the recurrent ones share: their layers, their first state, how they attend.

Shapes: B sentences, T target positions, R = B * Q rows (Q hypotheses of each sentence, neighbours), E embedding,
H hidden, W state of a layer, G gates of a layer, C context, O readout, S source positions.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from nmt.model.attention import Attention
from nmt.model.cells import Cell
from nmt.model.dropout import Dropout
from nmt.model.records import Memory, State


class Decoder(nn.Module):
    """Reads the memory and embedded target tokens; writes what the output layer reads, the readout."""

    attends: bool
    """Whether steps return attention weights."""
    readout_width: int
    """O."""

    def with_positions(self, embedded: Tensor, first: int) -> Tensor:
        """Place embeddings at the positions from ``first`` on, before their dropout: (R, T, E) -> (R, T, E).

        A recurrent decoder need not.
        """
        return embedded

    @abstractmethod
    def start(self, memory: Memory, bridge: Tensor) -> State:
        """Make the state before the first target token, one row a sentence.

        ``bridge`` (B, ...) is the encoder's.
        """

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


# --- readouts ---------------------------------------------------------------------------------------------------------


class Tanh(nn.Module):
    """(..., O) -> (..., O), as Luong et al. 2015, eq. 5."""

    units: ClassVar[int] = 1
    """Units that each number of a readout is made of."""

    def forward(self, units: Tensor) -> Tensor:
        """tanh of each unit."""
        return torch.tanh(units)


class Maxout(nn.Module):
    """(..., 2O) -> (..., O), the larger of each pair of units (Goodfellow et al. 2013; Bahdanau et al. 2015, A.2.2)."""

    units: ClassVar[int] = 2
    """Units that each number of a readout is made of."""

    def forward(self, units: Tensor) -> Tensor:
        """The larger unit of each pair."""
        larger: Tensor = units.unflatten(-1, (-1, 2)).max(-1).values
        return larger


Readout = Tanh | Maxout

# --- recurrent decoders -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecurrentState(State):
    """A recurrent decoder between two steps."""

    hidden: Tensor
    """State of the first layer, (R, W); of a GRU, s_i."""
    attentional: Tensor | None = None
    """The last readout, (R, O), where the next step is fed it: Luong's h~_i."""
    upper: tuple[Tensor, ...] = ()
    """States of the layers above the first, each (R, W)."""
    kept: tuple[Tensor | None, ...] = ()
    """What the input of each layer above the first is multiplied by at every position, (R, H), where dropout drops the
    same units at all of them (Gal & Ghahramani 2016)."""


@dataclass(frozen=True)
class Sizes:
    """The widths that a recurrent decoder is made for."""

    embedding: int
    """E."""
    context: int
    """C; 0: the decoder reads no context."""
    bridge: int
    """Width of the encoder's bridge."""
    readout: int
    """O."""


class Layer(nn.Module):
    """A layer above the first: reads the output of the layer below it, and nothing else."""

    def __init__(self, cell: Cell, bridge: int, dropout: Dropout, *, residual: bool) -> None:
        super().__init__()
        self.initial = nn.Linear(bridge, cell.width * cell.hidden)
        self.input_gates = cell.of_input(cell.hidden)
        self.cell = cell
        self.residual = residual
        self.dropout = dropout

    def forward(self, below: Tensor, state: Tensor, kept: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Take one step: below (R, H), state (R, W) -> output (R, H), state (R, W)."""
        state = self.cell(self.input_gates(self.dropped(below, kept)), state)
        return self.add(below, state), state

    def unroll(self, below: Tensor, state: Tensor, kept: Tensor | None = None) -> Tensor:
        """Take all steps: below (B, T, H), state (B, W) -> outputs (B, T, H)."""
        return self.add(below, self.cell.unroll(self.input_gates(self.dropped(below, kept)), state))

    def dropped(self, below: Tensor, kept: Tensor | None) -> Tensor:
        """Apply dropout to one step (R, H) or to all (B, T, H); ``kept`` (R, H) or None, of the decoder's state."""
        if kept is None:
            return cast(Tensor, self.dropout(below))
        return below * (kept if below.dim() == 2 else kept.unsqueeze(1)).to(below.dtype)

    def add(self, below: Tensor, state: Tensor) -> Tensor:
        """Read the layer's output, with its residual connection if it has one: (..., H), (..., W) -> (..., H)."""
        output = self.cell.output(state)
        return output + below if self.residual else output


class Unread(nn.Module):
    """What a layer makes of a context that has no units: zero."""

    def forward(self, context: Tensor) -> Tensor:
        """(..., 0) -> a zero that is broadcast."""
        return context.new_zeros(())


def of_context(context: int, units: int) -> nn.Module:
    """Return a layer without bias that reads the context."""
    return nn.Linear(context, units, bias=False) if context else Unread()


class RecurrentDecoder(Decoder):
    """Recurrent layers with attention.

    Args:
        attention: reads the memory.
        cell: of the first layer.
        sizes: the widths.
        upper: the layers above the first.
        readout: the nonlinearity before the output layer.
        input_feeding: the first layer also reads the readout of the step before (Luong et al. 2015, section 3.3).
    """

    def __init__(
        self,
        attention: Attention,
        cell: Cell,
        sizes: Sizes,
        upper: Sequence[Layer],
        readout: Readout,
        *,
        input_feeding: bool,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attends = attention.attends
        self.readout_width = sizes.readout
        self.nonlinearity = readout
        self.initial = nn.Linear(sizes.bridge, cell.width * cell.hidden)  # W_s
        self.embedding_gates = cell.of_input(sizes.embedding)
        self.cell = cell
        self.upper = nn.ModuleList(upper)
        self.feeding_gates = None
        if input_feeding:
            self.feeding_gates = nn.Linear(sizes.readout, cell.gates * cell.hidden, bias=False)

    @property
    def above(self) -> list[Layer]:
        """The layers above the first."""
        return cast(list[Layer], list(self.upper))

    def start(self, memory: Memory, bridge: Tensor) -> RecurrentState:
        """s_0 = tanh(W_s backward_1) (Bahdanau et al. 2015, A.2.2), in each layer; what is fed to step 0 is zero."""
        state = RecurrentState(self.attention.prepare(memory), 0, 1, torch.tanh(self.initial(bridge)))
        return replace(
            state,
            attentional=None if self.feeding_gates is None else bridge.new_zeros(state.rows, self.readout_width),
            upper=tuple(torch.tanh(layer.initial(bridge)) for layer in self.above),
            kept=tuple(layer.dropout.mask(bridge.new_ones(state.rows, layer.cell.hidden)) for layer in self.above),
        )

    def attend(self, state: RecurrentState, query: Tensor) -> tuple[Tensor, Tensor | None]:
        """Read the memory: one query of each row (R, H) -> contexts (R, C), weights (R, S) or None."""
        positions = torch.full((state.width,), state.position, device=query.device)
        context, weights = self.attention(query.unflatten(0, (-1, state.width)), positions, state.memory)
        return context.flatten(0, 1), None if weights is None else weights.flatten(0, 1)

    def fed(self, embedding_gates: Tensor, state: RecurrentState) -> Tensor:
        """Add what is fed from the step before to the gates (R, G)."""
        if self.feeding_gates is None:
            return embedding_gates
        return embedding_gates + cast(Tensor, self.feeding_gates(state.attentional))

    def climb(self, hidden: Tensor, before: RecurrentState) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Take one step of the layers above the first.

        hidden (R, W), the first layer's; the state before -> output of the last (R, H), their states after the step.
        """
        output, upper = self.cell.output(hidden), []
        for layer, state, kept in zip(self.above, before.upper, before.kept, strict=True):
            output, after = layer(output, state, kept)
            upper.append(after)
        return output, tuple(upper)

    def climb_at_once(self, states: Tensor, start: RecurrentState) -> Tensor:
        """Take all steps of the layers above the first: states (B, T, W) of the first -> outputs (B, T, H)."""
        outputs = self.cell.output(states)
        for layer, state, kept in zip(self.above, start.upper, start.kept, strict=True):
            outputs = layer.unroll(outputs, state, kept)
        return outputs

    def after(
        self,
        state: RecurrentState,
        hidden: Tensor,
        upper: tuple[Tensor, ...],
        weights: Tensor | None,
        readout: Tensor | None = None,
    ) -> RecurrentState:
        """Return the state after a step: of the layers, and of the readout where it is fed."""
        fed = None if self.feeding_gates is None else readout
        return state.advanced(hidden=hidden, upper=upper, attentional=fed)
