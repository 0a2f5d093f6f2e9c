"""Luong's decoder: update, attend, combine.

Shapes: B sentences, T target positions, R rows, E embedding, H hidden, C context, O readout, S source positions.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from nmt.model.attention import Attention
from nmt.model.decoders.base import stacked
from nmt.model.decoders.recurrent import RecurrentDecoder, RecurrentState
from nmt.model.records import Memory, State


class LuongDecoder(RecurrentDecoder):
    """Update, attend, combine: h~_i = tanh(W_c [c_i ; s_i]) (Luong et al. 2015, section 3.1).

    With input feeding (section 3.3) the update also reads h~_{i-1}.
    """

    def __init__(
        self,
        attention: Attention,
        embedding: int,
        context: int,
        bridge: int,
        hidden: int,
        readout: int,
        *,
        input_feeding: bool,
    ) -> None:
        super().__init__(attention, embedding, bridge, hidden)
        self.readout_width = readout
        self.feeding_gates = nn.Linear(readout, 3 * hidden, bias=False) if input_feeding else None
        self.combine = nn.Linear(context + hidden, readout)  # W_c

    def start(self, memory: Memory, bridge: Tensor) -> RecurrentState:
        """As Bahdanau's; what is fed to the first step is zero."""
        state = super().start(memory, bridge)
        if self.feeding_gates is None:
            return state
        return replace(state, attentional=state.hidden.new_zeros(state.rows, self.readout_width))

    def readout(self, context: Tensor, hidden: Tensor) -> Tensor:
        """h~_i: contexts (..., C), states (..., H) -> (..., O)."""
        return torch.tanh(self.combine(torch.cat((context, hidden), -1)))

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """One position: (R, E) -> readout (R, O), state, weights."""
        return self.advance(self.embedding_gates(embedded), state)

    def advance(self, gates: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """One position, from the embedding's part of the gates (R, 3H)."""
        assert isinstance(state, RecurrentState)
        if self.feeding_gates is not None:
            gates = gates + self.feeding_gates(state.attentional)
        hidden: Tensor = self.update(gates, state.hidden)
        context, weights = self.attend(state, hidden)
        attentional = self.readout(context, hidden)
        fed = None if self.feeding_gates is None else attentional
        return attentional, state.advanced(hidden=hidden, attentional=fed), weights

    def unroll(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """Take the steps one by one with input feeding; without it all states first, then all contexts at once."""
        assert isinstance(state, RecurrentState)
        if self.feeding_gates is None:
            return self.attend_at_once(self.update.unroll(self.embedding_gates(embedded), state.hidden), state)
        readouts, alphas = [], []
        following: State = state
        for gates in self.embedding_gates(embedded).unbind(1):
            readout, following, weights = self.advance(gates, following)
            readouts.append(readout)
            alphas.append(weights)
        return torch.stack(readouts, 1), stacked(alphas)

    def attend_at_once(self, states: Tensor, start: State) -> tuple[Tensor, Tensor | None]:
        """Read the memory for all target positions: states (B, T, H) -> readouts (B, T, O), weights or None."""
        positions = torch.arange(states.size(1), device=states.device)
        contexts, weights = self.attention(states, positions, start.memory)
        return self.readout(contexts, states), weights
