"""Luong's decoder: update, attend, combine.

Shapes: B sentences, T target positions, R rows, E embedding, H hidden, W state, G gates, C context, O readout, S source
positions.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from nmt.model.attention import Attention
from nmt.model.cells import Cell
from nmt.model.decoders.base import Layer, Readout, RecurrentDecoder, RecurrentState, Sizes, stacked
from nmt.model.records import State


class LuongDecoder(RecurrentDecoder):
    """Update, attend, combine: h~_i = tanh(W_c [c_i ; s_i]) (Luong et al. 2015, section 3.1).

    With input feeding (section 3.3) the update also reads h~_{i-1}. With several layers the query is the output of the
    last one.
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
        self.combine = nn.Linear(sizes.context + cell.hidden, readout.units * sizes.readout)  # W_c

    def readout(self, context: Tensor, output: Tensor) -> Tensor:
        """h~_i: contexts (..., C), outputs (..., H) -> (..., O)."""
        return cast(Tensor, self.nonlinearity(self.combine(torch.cat((context, output), -1))))

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """One position: (R, E) -> readout (R, O), state, weights."""
        return self.advance(self.embedding_gates(embedded), state)

    def advance(self, gates: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """One position, from the embedding's part of the gates (R, G)."""
        assert isinstance(state, RecurrentState)
        hidden: Tensor = self.cell(self.fed(gates, state), state.hidden)
        output, upper = self.climb(hidden, state)
        context, weights = self.attend(state, output)
        readout = self.readout(context, output)
        return readout, self.after(state, hidden, upper, weights, readout), weights

    def unroll(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """Compute all states first, then all contexts at once; step by step where the readouts are fed."""
        assert isinstance(state, RecurrentState)
        if self.feeding_gates is None:
            return self.attend_at_once(self.outputs(embedded, state), state)
        readouts, alphas = [], []
        following: State = state
        for gates in self.embedding_gates(embedded).unbind(1):
            readout, following, weights = self.advance(gates, following)
            readouts.append(readout)
            alphas.append(weights)
        return torch.stack(readouts, 1), stacked(alphas)

    def outputs(self, embedded: Tensor, start: RecurrentState) -> Tensor:
        """Compute the outputs of all positions before any context: (B, T, E) -> (B, T, H)."""
        return self.climb_at_once(self.cell.unroll(self.embedding_gates(embedded), start.hidden), start)

    def attend_at_once(self, outputs: Tensor, start: State) -> tuple[Tensor, Tensor | None]:
        """Read the memory for all target positions: outputs (B, T, H) -> readouts (B, T, O), weights or None."""
        positions = torch.arange(outputs.size(1), device=outputs.device)
        contexts, weights = self.attention(outputs, positions, start.memory)
        return self.readout(contexts, outputs), weights
