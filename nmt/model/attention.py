"""Attention: how a decoder reads the annotations. The interface, no attention, the scores of the papers, and windows.

Several heads and the attention of a Transformer are in multi_head.py.

Symbols: s_i is the state that queries the annotations h_j. In Bahdanau et al. 2015 it is the state before the update,
s_{i-1}; Luong et al. 2015 query after it, and write h_t for the state and h_s with a bar for an annotation.

Shapes: B sentences, S source positions, Q queries of each sentence (hypotheses at one target position, or all target
positions of one hypothesis), H width of a query, C width of an annotation and of a context, A width of a key, D window.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.config import schema
from nmt.config.schema import SCORES
from nmt.model.records import Memory


class Attention(nn.Module, ABC):
    """One way to read the memory. "No attention" is one of them, so the baseline shares every other line."""

    attends: ClassVar[bool] = True
    """Whether it returns weights."""

    def prepare(self, memory: Memory) -> Memory:
        """Add what is the same for every query: keys, and values other than the annotations."""
        return replace(memory, keys=self.keys(memory.annotations))

    def keys(self, annotations: Tensor) -> Tensor | None:
        """Compute what queries are compared with: (B, S, C) -> (B, S, A), or None."""
        return None

    @abstractmethod
    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Read the memory for each query.

        Args:
            queries: (B, Q, H).
            positions: the target position of each query, (Q,), from 0.
            memory: prepared.

        Returns:
            Contexts (B, Q, C), and weights (B, Q, S) or None. With several heads, the weights are their mean.
        """


class NoAttention(Attention):
    """The encoder's summary is the context of every step (Cho et al. 2014, section 2.2)."""

    attends = False

    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, None]:
        return memory.summary.unsqueeze(1).expand(-1, queries.size(1), -1), None


class InitialStateOnly(NoAttention):
    """The decoder sees the source only through its first state (Sutskever et al. 2014): contexts have no units."""

    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, None]:
        return queries[..., :0], None


class WeightedMean(Attention):
    """c_i = sum_j alpha_ij v_j; a subclass computes the weights alpha.

    The values v are the annotations, unless the memory has values of its own, as it has for a head.
    """

    compares: ClassVar[bool] = True
    """Whether the weights depend on the annotations, beyond their number."""
    zero: ClassVar[tuple[str, ...]] = ()
    """Layers that ``initialization: bahdanau`` fills with zeros (Bahdanau et al. 2015, appendix B.1: v_a)."""
    small: ClassVar[tuple[str, ...]] = ()
    """Layers that ``initialization: bahdanau`` fills with N(0, 0.001²): W_a and U_a."""

    @abstractmethod
    def weights(self, queries: Tensor, positions: Tensor, memory: Memory) -> Tensor:
        """Compute alpha_ij, zero on padding: (B, Q, H) -> (B, Q, S)."""

    @staticmethod
    def values(memory: Memory) -> Tensor:
        """Select what is weighed, (B, S, C)."""
        return memory.annotations if memory.values is None else memory.values

    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        values = self.values(memory)
        weights = self.weights(queries, positions, memory).to(values.dtype)
        return weights @ values, weights


# --- scores -----------------------------------------------------------------------------------------------------------


class ScoredAttention(WeightedMean):
    """alpha_ij = softmax_j(score(s_i, h_j)) over real j."""

    @abstractmethod
    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Compute the energies e_ij: queries (B, Q, H), keys (B, S, A) -> (B, Q, S)."""

    def energies(self, queries: Tensor, memory: Memory) -> Tensor:
        """Compute e_ij, minus infinity on padding: (B, Q, H) -> (B, Q, S), fp32 or finer."""
        assert memory.keys is not None
        return masked(self.score(queries, memory.keys), memory.source_mask)

    def weights(self, queries: Tensor, positions: Tensor, memory: Memory) -> Tensor:
        return self.energies(queries, memory).softmax(-1)


def masked(energies: Tensor, source_mask: Tensor) -> Tensor:
    """Exclude padding: energies (B, Q, S), mask (B, S) -> (B, Q, S), minus infinity on padding, fp32 or finer.

    Two examples; the last position of the first is padding:

    >>> energies = torch.tensor([[[0.5, 2.0, -1.0, 9.0]], [[0.2, 1.7, 0.4, -0.3]]])
    >>> masked(energies, torch.tensor([[True, True, True, False], [True] * 4])).softmax(-1)
    tensor([[[0.1753, 0.7856, 0.0391, 0.0000]],
    <BLANKLINE>
            [[0.1368, 0.6131, 0.1671, 0.0830]]])
    """
    energies = energies.masked_fill(~source_mask.unsqueeze(1), -torch.inf)
    return energies.to(torch.promote_types(energies.dtype, torch.float32))


@SCORES.builds(schema.AdditiveScore)
class AdditiveAttention(ScoredAttention):
    """e_ij = v·tanh(W s_i + U h_j): Bahdanau et al. 2015, A.1.2; Luong et al. 2015, section 3.1 ("concat")."""

    zero = ("energy",)
    small = ("query", "key")

    def __init__(self, options: schema.AdditiveScore, state: int, annotation: int) -> None:
        super().__init__()
        hidden = options.hidden or state
        self.query = nn.Linear(state, hidden, bias=False)  # W_a
        self.key = nn.Linear(annotation, hidden)  # U_a
        self.energy = nn.Linear(hidden, 1, bias=False)  # v_a

    def keys(self, annotations: Tensor) -> Tensor:
        """U h_j: (B, S, C) -> (B, S, A)."""
        return cast(Tensor, self.key(annotations))

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        hidden = (self.query(queries).unsqueeze(2) + keys.unsqueeze(1)).tanh_()  # (B, Q, S, A)
        return cast(Tensor, self.energy(hidden)).squeeze(-1)


@SCORES.builds(schema.DotScore)
class DotAttention(ScoredAttention):
    """e_ij = s_i·h_j (Luong et al. 2015, section 3.1); queries and annotations are equally wide."""

    def __init__(self, options: schema.Score, state: int, annotation: int) -> None:
        super().__init__()

    def keys(self, annotations: Tensor) -> Tensor:
        return annotations

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.transpose(1, 2)


@SCORES.builds(schema.ScaledDotScore)
class ScaledDotAttention(DotAttention):
    """e_ij = s_i·h_j / sqrt(H) (Vaswani et al. 2017, eq. 1)."""

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return super().score(queries / math.sqrt(queries.size(-1)), keys)


@SCORES.builds(schema.GeneralScore)
class GeneralAttention(DotAttention):
    """e_ij = s_i·W h_j (Luong et al. 2015, section 3.1)."""

    small = ("key",)

    def __init__(self, options: schema.Score, state: int, annotation: int) -> None:
        super().__init__(options, state, annotation)
        self.key = nn.Linear(annotation, state, bias=False)  # W_a

    def keys(self, annotations: Tensor) -> Tensor:
        """W h_j: (B, S, C) -> (B, S, H)."""
        return cast(Tensor, self.key(annotations))


@SCORES.builds(schema.CosineScore)
class CosineAttention(GeneralAttention):
    """e_ij = beta cos(s_i, W h_j) with a learned beta > 0 (Graves et al. 2014, eq. 5 and 6)."""

    FIRST = 10.0
    """beta before training: cosines lie between -1 and 1, too close for a softmax to tell them apart."""

    def __init__(self, options: schema.Score, state: int, annotation: int) -> None:
        super().__init__(options, state, annotation)
        self.log_scale = nn.Parameter(torch.tensor(math.log(self.FIRST)))

    def keys(self, annotations: Tensor) -> Tensor:
        """W h_j of length one: (B, S, C) -> (B, S, H)."""
        return functional.normalize(super().keys(annotations), dim=-1)

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.log_scale.exp() * super().score(functional.normalize(queries, dim=-1), keys)


@SCORES.builds(schema.LocationScore)
class LocationAttention(ScoredAttention):
    """e_ij = (W s_i)_j: the energy of a position depends only on the state (Luong et al. 2015, section 3.1, eq. 8).

    Words beyond the number of positions get no weight.
    """

    compares = False

    def __init__(self, options: schema.LocationScore, state: int, annotation: int) -> None:
        super().__init__()
        self.position = nn.Linear(state, options.positions, bias=False)  # W_a

    def keys(self, annotations: Tensor) -> Tensor:
        """Keep nothing but the number of positions: (B, S, C) -> (B, S, 0)."""
        return annotations[..., :0]

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        energies: Tensor = self.position(queries)
        lacking = max(0, keys.size(1) - energies.size(-1))
        return functional.pad(energies[..., : keys.size(1)], (0, lacking), value=-torch.inf)


# --- windows of the source --------------------------------------------------------------------------------------------


class LocalAttention(WeightedMean):
    """Softmax of a score over the source positions from p_i - D to p_i + D (Luong et al. 2015, section 3.2).

    A subclass computes p_i. ``window`` is D, both ends included; the energies of ``scored`` are normalized in it.
    """

    def __init__(self, scored: ScoredAttention, window: int) -> None:
        super().__init__()
        self.scored, self.window = scored, window

    def prepare(self, memory: Memory) -> Memory:
        return self.scored.prepare(memory)

    @abstractmethod
    def centers(self, queries: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        """p_i, from 0 to the end of the sentence: queries (B, Q, H), positions (Q,), lengths (B,) -> (B, Q)."""

    def weights(self, queries: Tensor, positions: Tensor, memory: Memory) -> Tensor:
        centers = self.centers(queries, positions, memory.source_mask.sum(1))
        places = torch.arange(memory.source_mask.size(1), device=centers.device)
        return self.windowed(self.scored.energies(queries, memory), places - centers.unsqueeze(-1))

    def windowed(self, energies: Tensor, distance: Tensor) -> Tensor:
        """Normalize within the window: energies and j - p_i, (B, Q, S) each -> (B, Q, S)."""
        return energies.masked_fill(distance.abs() > self.window, -torch.inf).softmax(-1)


class MonotonicLocalAttention(LocalAttention):
    """local-m: p_i = i, but at most the last source position."""

    def centers(self, queries: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
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
        share = torch.sigmoid(self.center(torch.tanh(self.hidden(queries)))).squeeze(-1)
        return lengths.unsqueeze(1) * share.to(torch.promote_types(share.dtype, torch.float32))

    def windowed(self, energies: Tensor, distance: Tensor) -> Tensor:
        """Normalize within the window, weaken the far positions: (B, Q, S), (B, Q, S) -> (B, Q, S)."""
        weights = super().windowed(energies, distance)
        weights = weights * torch.exp(-2 * (distance / self.window) ** 2)  # 2 sigma^2 = D^2 / 2
        return weights / weights.sum(-1, keepdim=True) if self.normalize else weights
