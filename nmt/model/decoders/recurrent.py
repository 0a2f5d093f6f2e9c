"""The shared parts of the recurrent decoders: the gated update, the first state, and how a state reads the memory.

Shapes: B sentences, T target positions, R = B * Q rows (Q hypotheses of each sentence, neighbours), E embedding,
H hidden, C context, S source positions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nmt.model.attention import Attention
from nmt.model.decoders.base import Decoder
from nmt.model.records import Memory, State


@dataclass(frozen=True)
class RecurrentState(State):
    """A recurrent decoder between two steps."""

    hidden: Tensor
    """s_i, (R, H)."""
    attentional: Tensor | None = None
    """Luong's h~_i, (R, O), where the next step is fed it."""


class GatedUpdate(nn.Module):
    """s_i = GRU(s_{i-1}, x_i), its input gates given, so that they can be computed for all steps at once.

    As PyTorch's GRU: r = sigmoid(x_r + U_r s), z = sigmoid(x_z + U_z s), s' = tanh(x_n + r * (U_n s)),
    s_i = (1 - z) * s' + z * s, with x = W [input] and U including their biases.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.recurrent = nn.Linear(hidden, 3 * hidden)

    def unroll(self, input_gates: Tensor, hidden: Tensor) -> Tensor:
        """Take all steps where no input depends on a state: gates (B, T, 3H), s_0 (B, H) -> states (B, T, H)."""
        states = []
        for gates in input_gates.unbind(1):
            hidden = self(gates, hidden)
            states.append(hidden)
        return torch.stack(states, 1)

    def forward(self, input_gates: Tensor, hidden: Tensor) -> Tensor:
        """input_gates (R, 3H), hidden (R, H) -> (R, H)."""
        input_reset, input_update, input_candidate = input_gates.chunk(3, -1)
        hidden_reset, hidden_update, hidden_candidate = self.recurrent(hidden).chunk(3, -1)
        reset = torch.sigmoid(input_reset + hidden_reset)
        update = torch.sigmoid(input_update + hidden_update)
        candidate = torch.tanh(input_candidate + reset * hidden_candidate)
        return torch.lerp(candidate, hidden, update)


class RecurrentDecoder(Decoder):
    """A GRU with attention."""

    def __init__(self, attention: Attention, embedding: int, bridge: int, hidden: int) -> None:
        super().__init__()
        self.attention = attention
        self.attends = attention.attends
        self.initial = nn.Linear(bridge, hidden)  # W_s
        self.embedding_gates = nn.Linear(embedding, 3 * hidden)
        self.update = GatedUpdate(hidden)

    def start(self, memory: Memory, bridge: Tensor) -> RecurrentState:
        """s_0 = tanh(W_s backward_1) (Bahdanau et al. 2015, A.2.2)."""
        return RecurrentState(self.attention.prepare(memory), 0, 1, torch.tanh(self.initial(bridge)))

    def attend(self, state: State, query: Tensor) -> tuple[Tensor, Tensor | None]:
        """Read the memory: one query of each row (R, H) -> contexts (R, C), weights (R, S) or None."""
        positions = torch.full((state.width,), state.position, device=query.device)
        queries = query.reshape(-1, state.width, query.size(-1))
        context, weights = self.attention(queries, positions, state.memory)
        return context.flatten(0, 1), None if weights is None else weights.flatten(0, 1)
