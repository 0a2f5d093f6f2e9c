"""The interface of an attention, and the attention that is none.

Shapes: B sentences, S source positions, Q queries of each sentence (hypotheses at one target position, or all target
positions of one hypothesis), H width of a query, C width of a context, A width of a key.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

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
