"""Bahdanau's decoder: attend, update, read out.

Shapes: B sentences, T target positions, R rows, E embedding, H hidden, C context, O readout, S source positions.
"""

import torch
from torch import Tensor, nn

from nmt.model.attention import Attention
from nmt.model.decoders.base import stacked
from nmt.model.decoders.recurrent import RecurrentDecoder, RecurrentState
from nmt.model.records import State


class BahdanauDecoder(RecurrentDecoder):
    """Attend, update, read out (Bahdanau et al. 2015, A.2.2).

    The readout takes s_i where the paper's formula prints s_{i-1}, so that it sees the update.
    """

    def __init__(
        self, attention: Attention, embedding: int, context: int, bridge: int, hidden: int, readout: int
    ) -> None:
        super().__init__(attention, embedding, bridge, hidden)
        self.readout_width = readout
        self.context_gates = nn.Linear(context, 3 * hidden, bias=False)  # C, C_z, C_r
        self.state_readout = nn.Linear(hidden, 2 * readout)  # U_o
        self.embedding_readout = nn.Linear(embedding, 2 * readout, bias=False)  # V_o
        self.context_readout = nn.Linear(context, 2 * readout, bias=False)  # C_o

    def advance(self, embedding_gates: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, Tensor | None]:
        """c_i from s_{i-1}, then s_i: gates (R, 3H) -> contexts (R, C), states (R, H), weights (R, S) or None."""
        context, weights = self.attend(state, state.hidden)
        hidden = self.update(embedding_gates + self.context_gates(context), state.hidden)
        return context, hidden, weights

    def readout(self, embedded: Tensor, context: Tensor, hidden: Tensor) -> Tensor:
        """t_i = maxout(U_o s_i + V_o E y_{i-1} + C_o c_i): pairs of units, the larger of each."""
        units = self.state_readout(hidden) + self.embedding_readout(embedded) + self.context_readout(context)
        larger: Tensor = units.unflatten(-1, (-1, 2)).max(-1).values
        return larger

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """One position: (R, E) -> readout (R, O), state, weights."""
        assert isinstance(state, RecurrentState)
        context, hidden, weights = self.advance(self.embedding_gates(embedded), state)
        return self.readout(embedded, context, hidden), state.advanced(hidden=hidden), weights

    def unroll(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """Walk the recurrence alone; gates and readouts of all positions are single products."""
        assert isinstance(state, RecurrentState)
        contexts, states, alphas = [], [], []
        for gates in self.embedding_gates(embedded).unbind(1):  # (B, 3H)
            context, hidden, weights = self.advance(gates, state)
            state = state.advanced(hidden=hidden)
            contexts.append(context)
            states.append(hidden)
            alphas.append(weights)
        return self.readout(embedded, torch.stack(contexts, 1), torch.stack(states, 1)), stacked(alphas)
