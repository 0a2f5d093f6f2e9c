"""Scores: how well a query and a key agree. ``ScoredAttention`` of base.py makes weights and contexts of them.

Shapes: B sentences, S source positions, Q queries of each sentence, H width of a query, C width of an annotation, A
hidden units of a score.
"""

import math
from dataclasses import dataclass, field, replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.model.attention.base import ScoredAttention, masked
from nmt.model.records import Memory


class AdditiveAttention(ScoredAttention):
    """e_ij = v·tanh(W s_i + U h_j): Bahdanau et al. 2015, A.1.2; Luong et al. 2015, section 3.1 ("concat")."""

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


@dataclass(frozen=True)
class CoveredMemory(Memory):
    """A memory with what the queries of earlier positions have looked at."""

    covered: Tensor = field(kw_only=True)
    """Sum of the weights of the steps before each query, (B, Q, S)."""


class CoverageAttention(AdditiveAttention):
    """e_ij = v·tanh(W s_i + U h_j + V C_{i-1,j}) with linguistic coverage (Tu et al. 2016, section 3.1.1).

    C_{i-1,j} is the sum of the earlier weights of j divided by its fertility, N sigmoid(U_f h_j).
    """

    MOST_WORDS = 2
    """N: the largest fertility, the number of target words that a source word can be worth."""

    def __init__(self, state: int, annotation: int, hidden: int, *, bias: bool = True) -> None:
        super().__init__(state, annotation, hidden, bias=bias)
        self.fertility = nn.Linear(annotation, 1, bias=False)  # U_f
        self.coverage = nn.Linear(1, hidden, bias=False)  # V_a

    def prepare(self, memory: Memory) -> Memory:
        """Add keys with the fertility as their last unit, (B, S, A + 1)."""
        fertility = self.MOST_WORDS * torch.sigmoid(self.fertility(memory.annotations))
        return replace(memory, keys=torch.cat((self.keys(memory.annotations), fertility), -1))

    def energies(self, queries: Tensor, memory: Memory) -> Tensor:
        """(B, Q, H) -> (B, Q, S)."""
        assert memory.keys is not None
        assert isinstance(memory, CoveredMemory)
        keys, fertility = memory.keys[..., :-1], memory.keys[..., -1].unsqueeze(1)
        coverage = self.coverage((memory.covered / fertility).unsqueeze(-1))  # (B, Q, S, A)
        hidden = torch.tanh(self.query(queries).unsqueeze(2) + keys.unsqueeze(1) + coverage)
        return masked(cast(Tensor, self.energy(hidden)).squeeze(-1), memory.source_mask)


class DotAttention(ScoredAttention):
    """e_ij = s_i·h_j (Luong et al. 2015, section 3.1); queries and annotations are equally wide."""

    def keys(self, annotations: Tensor) -> Tensor:
        """The annotations themselves."""
        return annotations

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B, Q, C), (B, S, C) -> (B, Q, S)."""
        return queries @ keys.transpose(1, 2)


class ScaledDotAttention(DotAttention):
    """e_ij = s_i·h_j / sqrt(C) (Vaswani et al. 2017, eq. 1)."""

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B, Q, C), (B, S, C) -> (B, Q, S)."""
        return super().score(queries / math.sqrt(queries.size(-1)), keys)


class GeneralAttention(DotAttention):
    """e_ij = s_i·W h_j (Luong et al. 2015, section 3.1)."""

    def __init__(self, state: int, annotation: int) -> None:
        super().__init__()
        self.key = nn.Linear(annotation, state, bias=False)

    def keys(self, annotations: Tensor) -> Tensor:
        """W h_j: (B, S, C) -> (B, S, H)."""
        keys: Tensor = self.key(annotations)
        return keys


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
