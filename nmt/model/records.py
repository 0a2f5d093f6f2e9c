"""Records that pass between the parts of a network: the memory of a source, and the state of a decoder.

Shapes: B sentences, S source positions, Q hypotheses of each sentence, R = B * Q rows (the hypotheses of a sentence are
neighbors), C width of an annotation, A width of a key; in a Transformer L layers, N heads of width d.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from nmt.records import Record


@dataclass(frozen=True)
class Memory(Record):
    """The encoder's output for B sentences; computed once, read at every step."""

    annotations: Tensor
    """h_j, (B, S, C); zero at padding."""
    summary: Tensor
    """The whole sentence as one vector, (B, C): the context where there is no attention."""
    source_mask: Tensor
    """(B, S), True on real tokens."""
    keys: Tensor | None = None
    """Compared with queries by the attention, (B, S, A), a Transformer's (B, L, N, S, d); made once."""
    values: Tensor | None = None
    """Averaged by the attention's weights, (B, S, C), a Transformer's (B, L, N, S, d); None: the annotations."""


@dataclass(frozen=True)
class State(Record):
    """A decoder between two steps: R rows that share the memory of B sentences.

    A decoder adds what it carries from step to step: tensors, records or tuples of them, with R rows each.
    """

    memory: Memory
    """B sentences; the Q hypotheses of a sentence share its row."""
    position: int
    """Target position of the next step, from 0."""
    hypotheses: int
    """Q, of each sentence."""

    def advanced(self, **changes: Any) -> Self:
        """The state at the next position, with other values for some fields."""
        return replace(self, position=self.position + 1, **changes)

    def expand(self, width: int) -> Self:
        """Repeat each row ``width`` times; the copies share the memory of the sentence, which is not copied."""
        return self._replaced(
            lambda tensor: tensor.repeat_interleave(width, 0),
            lambda record: record.expand(width),
            memory=self.memory,
            hypotheses=self.hypotheses * width,
        )

    def select(self, rows: Tensor) -> Self:
        """Reorder or drop rows; the Q neighbors that become a group must come from one sentence."""
        sentences = rows[:: self.hypotheses] // self.hypotheses
        unmoved = torch.equal(sentences, torch.arange(len(self.memory.summary), device=rows.device))
        return self._replaced(
            lambda tensor: tensor.index_select(0, rows),
            lambda record: record.select(rows),
            memory=self.memory if unmoved else self.memory.select(sentences),
        )


def source_mask(lengths: Tensor, positions: int, device: torch.device) -> Tensor:
    """Mark real tokens: lengths (B,) -> (B, positions), True before the end of each sentence."""
    return torch.arange(positions, device=device) < lengths.to(device).unsqueeze(1)
