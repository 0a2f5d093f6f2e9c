"""Bahdanau's decoder: attend, update, read out.

Shapes: B sentences, T target positions, R rows, E embedding, H hidden, W state, G gates, C context, O readout, S source
positions.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nmt.model.attention import Attention
from nmt.model.cells import Cell
from nmt.model.decoders.base import Layer, Readout, RecurrentDecoder, RecurrentState, Sizes, of_context, stacked
from nmt.model.records import State


class BahdanauDecoder(RecurrentDecoder):
    """Attend, update, read out (Bahdanau et al. 2015, A.2.2).

    The readout takes s_i where the paper's formula prints s_{i-1}, so that it sees the update. With several layers the
    query is the first layer's state (Wu et al. 2016, section 3), and the readout takes the last layer's output.
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
        super().__init__(attention, cell, sizes, upper, readout, input_feeding=input_feeding)
        units = readout.units * sizes.readout
        self.context_gates = of_context(sizes.context, cell.gates * cell.hidden)  # C, C_z, C_r
        self.state_readout = nn.Linear(cell.hidden, units)  # U_o
        self.embedding_readout = nn.Linear(sizes.embedding, units, bias=False)  # V_o
        self.context_readout = of_context(sizes.context, units)  # C_o

    def advance(self, embedding_gates: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, Tensor | None]:
        """c_i from s_{i-1}, then s_i: gates (R, G) -> contexts (R, C), states (R, W), weights (R, S) or None."""
        context, weights = self.attend(state, self.cell.output(state.hidden))
        gates = self.fed(embedding_gates, state) + self.context_gates(context)
        return context, self.cell(gates, state.hidden), weights

    def readout(self, embedded: Tensor, context: Tensor, output: Tensor) -> Tensor:
        """t_i = maxout(U_o s_i + V_o E y_{i-1} + C_o c_i)."""
        units = self.state_readout(output) + self.embedding_readout(embedded) + self.context_readout(context)
        readout: Tensor = self.nonlinearity(units)
        return readout

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """One position: (R, E) -> readout (R, O), state, weights."""
        assert isinstance(state, RecurrentState)
        context, hidden, weights = self.advance(self.embedding_gates(embedded), state)
        output, upper = self.climb(hidden, state)
        readout = self.readout(embedded, context, output)
        return readout, self.after(state, hidden, upper, weights, readout), weights

    def unroll(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """Walk the first layer alone; gates, other layers and readouts of all positions come at once.

        With input feeding every step needs the readout before it.
        """
        if self.feeding_gates is not None:
            return super().unroll(embedded, state)
        assert isinstance(state, RecurrentState)
        start, contexts, states, alphas = state, [], [], []
        for gates in self.embedding_gates(embedded).unbind(1):  # (B, G)
            context, hidden, weights = self.advance(gates, state)
            state = self.after(state, hidden, state.upper, weights)
            contexts.append(context)
            states.append(hidden)
            alphas.append(weights)
        outputs = self.climb_at_once(torch.stack(states, 1), start)
        return self.readout(embedded, torch.stack(contexts, 1), outputs), stacked(alphas)
