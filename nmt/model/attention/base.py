"""The interface of an attention, the attention that is none, and the softmax attention; scores.py has its scores.

Shapes: B sentences, S source positions, Q queries of each sentence (hypotheses at one target position, or all target
positions of one hypothesis), H width of a query, C width of a context, A width of a key.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from nmt.model.records import Memory


class Attention(nn.Module):
    """One way to read the memory. "No attention" is one of them, so the baseline shares every other line."""

    attends: ClassVar[bool] = True
    """Whether it returns weights."""

    def prepare(self, memory: Memory) -> Memory:
        """Add the keys, and values other than the annotations, which no query changes."""
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
        """Repeat the summary for each query: (B, Q, H) -> (B, Q, C)."""
        return memory.summary.unsqueeze(1).expand(-1, queries.size(1), -1), None


class ScoredAttention(Attention):
    """alpha_ij = softmax_j(score(s_i, h_j)) over real j; c_i = sum_j alpha_ij h_j."""

    @abstractmethod
    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Compute the energies e_ij: queries (B, Q, H), keys (B, S, A) -> (B, Q, S)."""

    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Weigh the values: (B, Q, H) -> contexts (B, Q, C), weights (B, Q, S), zero on padding."""
        assert memory.keys is not None
        values = memory.annotations if memory.values is None else memory.values
        energies = self.score(queries, memory.keys).masked_fill(~memory.source_mask.unsqueeze(1), -torch.inf)
        at_least_fp32 = torch.promote_types(energies.dtype, torch.float32)
        weights = energies.softmax(-1, dtype=at_least_fp32).to(values.dtype)
        return weights @ values, weights
