"""Attention: which annotations matter to a decoder state, and their weighted mean, the context.

Shapes: B sentences, S source positions, Q queries of a sentence (hypotheses of a beam, or target positions where all
are known at once), H width of a state, C width of an annotation, A hidden units of a score.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Memory:
    """What the encoder knows of B sentences; computed once, read at every step."""

    annotations: Tensor
    """h_j, (B, S, C); zero at padding."""
    summary: Tensor
    """The last forward and the first backward annotation side by side, (B, C)."""
    source_mask: Tensor
    """(B, S), True on real tokens."""
    keys: Tensor | None = None
    """What the attention derives from the annotations once, (B, S, A)."""

    def select(self, sentences: Tensor) -> Self:
        """The memory of these sentences, in this order."""
        return replace(
            self,
            annotations=self.annotations[sentences],
            summary=self.summary[sentences],
            source_mask=self.source_mask[sentences],
            keys=None if self.keys is None else self.keys[sentences],
        )


class Attention(nn.Module):
    """One way to read the memory. "No attention" is one of them, so the baseline shares every other line."""

    def keys(self, annotations: Tensor) -> Tensor | None:
        """The part of the score that no query changes: (B, S, C) -> (B, S, A), or None."""
        return None

    @abstractmethod
    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Read the memory for each query: (B, Q, H) -> contexts (B, Q, C), weights (B, Q, S) or None."""


class NoAttention(Attention):
    """The encoder's summary is the context of every step (Cho et al. 2014, section 2.2)."""

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, None]:
        """Repeat the summary for each query: (B, Q, H) -> (B, Q, C)."""
        return memory.summary.unsqueeze(1).expand(-1, query.size(1), -1), None


class ScoredAttention(Attention):
    """alpha_ij = softmax_j(score(s_i, h_j)) over real j; c_i = sum_j alpha_ij h_j."""

    @abstractmethod
    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        """Energies e_ij: queries (B, Q, H), keys (B, S, A) -> (B, Q, S)."""

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Weigh the annotations: (B, Q, H) -> contexts (B, Q, C), weights (B, Q, S), zero on padding."""
        assert memory.keys is not None
        energies = self.score(query, memory.keys).masked_fill(~memory.source_mask.unsqueeze(1), -torch.inf)
        at_least_fp32 = torch.promote_types(energies.dtype, torch.float32)
        weights = energies.softmax(-1, dtype=at_least_fp32).to(memory.annotations.dtype)
        return weights @ memory.annotations, weights


class AdditiveAttention(ScoredAttention):
    """e_ij = v·tanh(W s_i + U h_j): Bahdanau et al. 2015, A.1.2; Luong et al. 2015, eq. 8 ("concat")."""

    def __init__(self, state: int, annotation: int, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(state, hidden, bias=False)  # W_a
        self.key = nn.Linear(annotation, hidden)  # U_a
        self.energy = nn.Linear(hidden, 1, bias=False)  # v_a

    def keys(self, annotations: Tensor) -> Tensor:
        """U h_j: (B, S, C) -> (B, S, A)."""
        keys: Tensor = self.key(annotations)
        return keys

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, Q, H), (B, S, A) -> (B, Q, S)."""
        hidden = torch.tanh(self.query(query).unsqueeze(2) + keys.unsqueeze(1))  # (B, Q, S, A)
        energies: Tensor = self.energy(hidden)
        return energies.squeeze(-1)


class DotAttention(ScoredAttention):
    """e_ij = s_i·h_j (Luong et al. 2015, eq. 8); states and annotations are equally wide."""

    def keys(self, annotations: Tensor) -> Tensor:
        """The annotations themselves."""
        return annotations

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, Q, C), (B, S, C) -> (B, Q, S)."""
        return query @ keys.transpose(1, 2)


class GeneralAttention(DotAttention):
    """e_ij = s_i·W h_j (Luong et al. 2015, eq. 8)."""

    def __init__(self, state: int, annotation: int) -> None:
        super().__init__()
        self.key = nn.Linear(annotation, state, bias=False)

    def keys(self, annotations: Tensor) -> Tensor:
        """W h_j: (B, S, C) -> (B, S, H)."""
        keys: Tensor = self.key(annotations)
        return keys
