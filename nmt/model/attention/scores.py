"""Scores: how well a query and a key agree, and windows of the source. base.py makes weights and contexts of them.

Shapes: B sentences, S source positions, Q queries of each sentence, H width of a query, C width of an annotation, A
hidden units of a score.
"""

import math
from abc import abstractmethod
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.config import schema
from nmt.model.attention.base import ScoredAttention, WeightedMean
from nmt.model.records import Memory


class AdditiveAttention(ScoredAttention):
    """e_ij = v·tanh(W s_i + U h_j): Bahdanau et al. 2015, A.1.2; Luong et al. 2015, section 3.1 ("concat")."""

    zero = ("energy",)
    small = ("query", "key")

    def __init__(self, state: int, annotation: int, hidden: int, *, bias: bool = True) -> None:
        super().__init__()
        self.query = nn.Linear(state, hidden, bias=False)  # W_a
        self.key = nn.Linear(annotation, hidden, bias=bias)  # U_a
        self.energy = nn.Linear(hidden, 1, bias=False)  # v_a

    def keys(self, annotations: Tensor) -> Tensor:
        """U h_j: (B, S, C) -> (B, S, A)."""
        keys: Tensor = self.key(annotations)
        return keys

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B, Q, H), (B, S, A) -> (B, Q, S)."""
        hidden = torch.tanh(self.query(queries).unsqueeze(2) + keys.unsqueeze(1))  # (B, Q, S, A)
        energies: Tensor = self.energy(hidden)
        return energies.squeeze(-1)


@schema.SCORES.builds(schema.AdditiveScore)
def _additive(options: schema.AdditiveScore, state: int, annotation: int) -> ScoredAttention:
    return AdditiveAttention(state, annotation, options.hidden or state, bias=options.bias)


class DotAttention(ScoredAttention):
    """e_ij = s_i·h_j (Luong et al. 2015, section 3.1); queries and annotations are equally wide."""

    def keys(self, annotations: Tensor) -> Tensor:
        """The annotations themselves."""
        return annotations

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B, Q, C), (B, S, C) -> (B, Q, S)."""
        return queries @ keys.transpose(1, 2)


@schema.SCORES.builds(schema.DotScore)
def _dot(options: schema.DotScore, state: int, annotation: int) -> ScoredAttention:
    return DotAttention()


class ScaledDotAttention(DotAttention):
    """e_ij = s_i·h_j / sqrt(C) (Vaswani et al. 2017, eq. 1)."""

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B, Q, C), (B, S, C) -> (B, Q, S)."""
        return super().score(queries / math.sqrt(queries.size(-1)), keys)


@schema.SCORES.builds(schema.ScaledDotScore)
def _scaled_dot(options: schema.ScaledDotScore, state: int, annotation: int) -> ScoredAttention:
    return ScaledDotAttention()


class GeneralAttention(DotAttention):
    """e_ij = s_i·W h_j (Luong et al. 2015, section 3.1)."""

    small = ("key",)

    def __init__(self, state: int, annotation: int) -> None:
        super().__init__()
        self.key = nn.Linear(annotation, state, bias=False)

    def keys(self, annotations: Tensor) -> Tensor:
        """W h_j: (B, S, C) -> (B, S, H)."""
        keys: Tensor = self.key(annotations)
        return keys


@schema.SCORES.builds(schema.GeneralScore)
def _general(options: schema.GeneralScore, state: int, annotation: int) -> ScoredAttention:
    return GeneralAttention(state, annotation)


class LowRankAttention(DotAttention):
    """e_ij = (W s_i)·(U h_j): the general score with a matrix of rank A (low-rank bilinear, Kim et al. 2017)."""

    def __init__(self, state: int, annotation: int, rank: int) -> None:
        super().__init__()
        self.query = nn.Linear(state, rank, bias=False)
        self.key = nn.Linear(annotation, rank, bias=False)

    def keys(self, annotations: Tensor) -> Tensor:
        """U h_j: (B, S, C) -> (B, S, A)."""
        return cast(Tensor, self.key(annotations))

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B, Q, H), (B, S, A) -> (B, Q, S)."""
        return super().score(self.query(queries), keys)


@schema.SCORES.builds(schema.LowRankScore)
def _low_rank(options: schema.LowRankScore, state: int, annotation: int) -> ScoredAttention:
    return LowRankAttention(state, annotation, options.hidden or state)


class CosineAttention(GeneralAttention):
    """e_ij = beta cos(s_i, W h_j) with a learned beta > 0 (Graves et al. 2014, eq. 5 and 6)."""

    FIRST = 10.0
    """beta before training: cosines lie between -1 and 1, too close for a softmax to tell them apart."""

    def __init__(self, state: int, annotation: int) -> None:
        super().__init__(state, annotation)
        self.log_scale = nn.Parameter(torch.tensor(math.log(self.FIRST)))

    def keys(self, annotations: Tensor) -> Tensor:
        """W h_j of length one: (B, S, C) -> (B, S, H)."""
        return functional.normalize(super().keys(annotations), dim=-1)

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B, Q, H), (B, S, H) -> (B, Q, S)."""
        return self.log_scale.exp() * super().score(functional.normalize(queries, dim=-1), keys)


@schema.SCORES.builds(schema.CosineScore)
def _cosine(options: schema.CosineScore, state: int, annotation: int) -> ScoredAttention:
    return CosineAttention(state, annotation)


class LocationAttention(ScoredAttention):
    """e_ij = (W s_i)_j: the energy of a position depends on the state alone (Luong et al. 2015, section 3.1, eq. 8).

    Words beyond the number of positions get no weight.
    """

    compares = False

    def __init__(self, state: int, positions: int) -> None:
        super().__init__()
        self.position = nn.Linear(state, positions, bias=False)  # W_a

    def keys(self, annotations: Tensor) -> Tensor:
        """Nothing but the number of positions: (B, S, C) -> (B, S, 0)."""
        return annotations[..., :0]

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B, Q, H), (B, S, 0) -> (B, Q, S)."""
        energies: Tensor = self.position(queries)
        lacking = max(0, keys.size(1) - energies.size(-1))
        return functional.pad(energies[..., : keys.size(1)], (0, lacking), value=-torch.inf)


@schema.SCORES.builds(schema.LocationScore)
def _location(options: schema.LocationScore, state: int, annotation: int) -> ScoredAttention:
    return LocationAttention(state, options.positions)


# --- windows ----------------------------------------------------------------------------------------------------------


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
        """As the score."""
        return self.scored.prepare(memory)

    @abstractmethod
    def centers(self, queries: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        """p_i, from 0 to the end of the sentence: queries (B, Q, H), positions (Q,), lengths (B,) -> (B, Q)."""

    def weights(self, queries: Tensor, positions: Tensor, memory: Memory) -> Tensor:
        """alpha_ij, zero outside the window: (B, Q, H) -> (B, Q, S)."""
        distance = self.distance(self.centers(queries, positions, memory.source_mask.sum(1)), memory)
        return self.windowed(self.scored.energies(queries, memory), distance)

    def distance(self, centers: Tensor, memory: Memory) -> Tensor:
        """j - p_i: (B, Q) -> (B, Q, S)."""
        places = torch.arange(memory.source_mask.size(1), device=centers.device)
        return places - centers.unsqueeze(-1)

    def windowed(self, energies: Tensor, distance: Tensor) -> Tensor:
        """Normalize within the window: (B, Q, S), (B, Q, S) -> (B, Q, S)."""
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

    def __init__(self, scored: ScoredAttention, window: int, state: int, hidden: int, *, normalize: bool) -> None:
        super().__init__(scored, window)
        self.hidden = nn.Linear(state, hidden, bias=False)  # W_p
        self.center = nn.Linear(hidden, 1, bias=False)  # v_p
        self.normalize = normalize

    def centers(self, queries: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        """(B, Q, H), (Q,), (B,) -> (B, Q)."""
        share = torch.sigmoid(self.center(torch.tanh(self.hidden(queries)))).squeeze(-1)
        return lengths.unsqueeze(1) * share.to(torch.promote_types(share.dtype, torch.float32))

    def windowed(self, energies: Tensor, distance: Tensor) -> Tensor:
        """Normalize within the window, weaken the far positions: (B, Q, S), (B, Q, S) -> (B, Q, S)."""
        weights = super().windowed(energies, distance)
        gaussian = torch.exp(-2 * (distance / self.window) ** 2)  # 2 sigma^2 = D^2 / 2
        weights = weights * gaussian
        return weights / weights.sum(-1, keepdim=True) if self.normalize else weights
