"""The interface of an attention, the attention that is none, and the weighted mean; scores.py has the scores.

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


class InitialStateOnly(NoAttention):
    """The decoder sees the source through its first state alone (Sutskever et al. 2014): contexts have no units."""

    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, None]:
        """(B, Q, H) -> (B, Q, 0)."""
        return queries[..., :0], None


class WeightedMean(Attention):
    """c_i = sum_j alpha_ij v_j; a subclass says what the weights alpha are.

    The values v are the annotations, unless the memory has others, as that of a head.
    """

    compares: ClassVar[bool] = True
    """Whether the weights depend on the annotations, beyond their number."""
    zero: ClassVar[tuple[str, ...]] = ()
    """Layers that ``initialization: bahdanau`` fills with zeros (Bahdanau et al. 2015, appendix B.1: v_a)."""
    small: ClassVar[tuple[str, ...]] = ()
    """Layers that it fills with N(0, 0.001²): W_a and U_a."""

    @abstractmethod
    def weights(self, queries: Tensor, positions: Tensor, memory: Memory) -> Tensor:
        """Compute alpha_ij, zero on padding: (B, Q, H) -> (B, Q, S)."""

    @staticmethod
    def values(memory: Memory) -> Tensor:
        """Select what is weighed, (B, S, C)."""
        return memory.annotations if memory.values is None else memory.values

    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Weigh the values: (B, Q, H) -> contexts (B, Q, C), weights (B, Q, S)."""
        values = self.values(memory)
        weights = self.weights(queries, positions, memory).to(values.dtype)
        return weights @ values, weights


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
        """Normalize the energies: (B, Q, H) -> (B, Q, S), zero on padding."""
        return self.energies(queries, memory).softmax(-1)


def masked(energies: Tensor, source_mask: Tensor) -> Tensor:
    """Exclude padding: energies (B, Q, S), mask (B, S) -> (B, Q, S), minus infinity on padding, fp32 or finer."""
    energies = energies.masked_fill(~source_mask.unsqueeze(1), -torch.inf)
    return energies.to(torch.promote_types(energies.dtype, torch.float32))
