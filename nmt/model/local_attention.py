"""Local attention (Luong et al. 2015, section 3.2): a score, normalized within a window of the source.

Shapes: B sentences, S source positions, Q queries of each sentence, H width of a query, D window.
"""

from abc import abstractmethod

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.model.attention import ScoredAttention, WeightedMean
from nmt.model.records import Memory


class LocalAttention(WeightedMean):
    """Softmax of a score over the source positions from p_i - D to p_i + D (Luong et al. 2015, section 3.2).

    A subclass computes p_i, the center; both ends are included.

    Args:
        scored: whose energies are normalized within the window.
        window: D.
    """

    def __init__(self, scored: ScoredAttention, window: int) -> None:
        super().__init__()
        self.scored, self.window = scored, window

    def prepare(self, memory: Memory) -> Memory:
        """Add what the score needs."""
        return self.scored.prepare(memory)

    @abstractmethod
    def centers(self, queries: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        """p_i, from 0 to the end of the sentence: queries (B, Q, H), positions (Q,), lengths (B,) -> (B, Q)."""

    def weights(self, queries: Tensor, positions: Tensor, memory: Memory) -> Tensor:
        """alpha_ij, zero outside the window: (B, Q, H) -> (B, Q, S)."""
        centers = self.centers(queries, positions, memory.source_mask.sum(1))
        places = torch.arange(memory.source_mask.size(1), device=centers.device)
        return self.windowed(self.scored.energies(queries, memory), places - centers.unsqueeze(-1))

    def windowed(self, energies: Tensor, distance: Tensor) -> Tensor:
        """Normalize within the window: energies and j - p_i, (B, Q, S) each -> (B, Q, S)."""
        return energies.masked_fill(distance.abs() > self.window, -torch.inf).softmax(-1)


class MonotonicLocalAttention(LocalAttention):
    """local-m: p_i = i; behind the end of the source, its last position."""

    def centers(self, queries: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        """(B, Q, H), (Q,), (B,) -> (B, Q)."""
        return torch.minimum(positions.unsqueeze(0), lengths.unsqueeze(1) - 1)


class PredictiveLocalAttention(LocalAttention):
    """local-p: p_i = S sigmoid(v·tanh(W s_i)); the weights times a Gaussian around p_i of deviation D / 2 (eq. 9, 10).

    The product does not sum to one; it is divided by its sum unless ``normalize`` is False, as in the paper.
    """

    def __init__(self, scored: ScoredAttention, options: schema.PredictiveScope, state: int) -> None:
        super().__init__(scored, options.window)
        hidden = options.hidden or state
        self.hidden = nn.Linear(state, hidden, bias=False)  # W_p
        self.center = nn.Linear(hidden, 1, bias=False)  # v_p
        self.normalize = options.normalize

    def centers(self, queries: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        """(B, Q, H), (Q,), (B,) -> (B, Q)."""
        share = torch.sigmoid(self.center(torch.tanh(self.hidden(queries)))).squeeze(-1)
        return lengths.unsqueeze(1) * share.to(torch.promote_types(share.dtype, torch.float32))

    def windowed(self, energies: Tensor, distance: Tensor) -> Tensor:
        """Normalize within the window, weaken the far positions: (B, Q, S), (B, Q, S) -> (B, Q, S)."""
        weights = super().windowed(energies, distance)
        weights = weights * torch.exp(-2 * (distance / self.window) ** 2)  # 2 sigma^2 = D^2 / 2
        return weights / weights.sum(-1, keepdim=True) if self.normalize else weights
