"""Several heads of any attention in a recurrent decoder (Vaswani et al. 2017, section 3.2.2).

Shapes: B sentences, S source positions, Q queries of each sentence, K heads, H width of a query, C width of an
annotation, A keys of all heads.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from nmt.model.attention.base import Attention, WeightedMean
from nmt.model.records import Memory


class MultiHeadAttention(Attention):
    """Each head attends with its own part of the projected query to its own part of the projected annotations.

    Args:
        heads: K attentions, for queries of H / K and annotations of C / K units.
        state: H.
        annotation: C.
    """

    def __init__(self, heads: Sequence[WeightedMean], state: int, annotation: int) -> None:
        super().__init__()
        self.query = nn.Linear(state, state, bias=False)  # W^Q of all heads
        compares = any(head.compares for head in heads)
        self.key = nn.Linear(annotation, annotation, bias=False) if compares else nn.Identity()  # W^K
        self.value = nn.Linear(annotation, annotation, bias=False)  # W^V
        self.output = nn.Linear(annotation, annotation, bias=False)  # W^O
        self.heads = nn.ModuleList(heads)

    @property
    def each(self) -> list[WeightedMean]:
        """The heads."""
        return cast(list[WeightedMean], list(self.heads))

    def prepare(self, memory: Memory) -> Memory:
        """Add the projected annotations as values, and as keys those of all heads side by side, (B, S, A)."""
        parts = self.key(memory.annotations).chunk(len(self.heads), -1)
        prepared = [
            head.prepare(replace(memory, annotations=part)) for head, part in zip(self.each, parts, strict=True)
        ]
        keys = torch.cat([cast(Tensor, head.keys) for head in prepared], -1)
        return replace(memory, keys=keys, values=self.value(memory.annotations))

    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Attend with each head: (B, Q, H) -> contexts (B, Q, C), the mean of the heads' weights (B, Q, S)."""
        assert memory.keys is not None
        assert memory.values is not None
        count = len(self.heads)
        parts = (each.chunk(count, -1) for each in (self.query(queries), memory.keys, memory.values))
        contexts, weights = [], []
        for head, query, keys, values in zip(self.each, *parts, strict=True):
            context, head_weights = head(query, positions, replace(memory, keys=keys, values=values))
            contexts.append(context)
            weights.append(head_weights)
        output: Tensor = self.output(torch.cat(contexts, -1))
        return output, torch.stack(weights).mean(0)
