"""Batches: which pairs stand together, in which order, and how they become tensors.

An epoch's plan is a pure function of (lengths, budget, seed, epoch): a position (epoch, batch) is all it takes to
resume, and a slice of the plan is a shard.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmt.config.schema import Count
from nmt.data.tokenizer import Tokenizers

ROWS = 16
"""Matrix products of so many rows, or a multiple of it, cost no more than those of a few rows less."""

T = TypeVar("T")
Ids = npt.NDArray[np.int32]
Plan = list[npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Specials:
    """The ids that batching adds to the text of a pair, read from the tokenizers."""

    source_pad: int
    source_eos: int
    target_pad: int
    target_bos: int
    target_eos: int

    @classmethod
    def of(cls, tokenizers: Tokenizers) -> Self:
        """Those of two tokenizers."""
        source, target = tokenizers.source, tokenizers.target
        return cls(source.pad_id, source.eos_id, target.pad_id, target.bos_id, target.eos_id)


@dataclass(frozen=True)
class Batch:
    """B pairs, padded. Each source ends with EOS; the target is shifted by one for teacher forcing."""

    source: Tensor
    """(B, S)"""
    source_lengths: Tensor
    """(B,), EOS included, on the CPU"""
    target_input: Tensor
    """(B, T): BOS, y_1, ..., y_n"""
    target_output: Tensor
    """(B, T): y_1, ..., y_n, EOS"""
    target_mask: Tensor
    """(B, T), True on real tokens"""
    target_tokens: int
    """Real target tokens, EOS included"""

    def pinned(self) -> "Batch":
        """The batch in memory from which a GPU copies while the CPU goes on."""
        return self.each(Tensor.pin_memory)

    def each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """The batch with every tensor changed."""
        return Batch(
            change(self.source),
            change(self.source_lengths),
            change(self.target_input),
            change(self.target_output),
            change(self.target_mask),
            self.target_tokens,
        )

    def halves(self) -> "list[Batch]":
        """The upper and the lower half of its pairs, padded as before; itself if it is of one pair."""
        middle = len(self.source) // 2
        if not middle:
            return [self]
        parts = self.each(lambda tensor: tensor[:middle]), self.each(lambda tensor: tensor[middle:])
        return [replace(part, target_tokens=int(part.target_mask.sum())) for part in parts]

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device; lengths stay on the CPU."""
        return Batch(
            self.source.to(device, non_blocking=True),
            self.source_lengths,
            self.target_input.to(device, non_blocking=True),
            self.target_output.to(device, non_blocking=True),
            self.target_mask.to(device, non_blocking=True),
            self.target_tokens,
        )


def pad(rows: Sequence[Ids], fill: int) -> tuple[Tensor, Tensor]:
    """Rows of ids side by side: -> (B, longest) long, filled up at the right, and the mask of what is real."""
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    padded = np.full(mask.shape, fill, np.int64)
    padded[mask] = np.concatenate(rows) if len(rows) else ()
    return torch.from_numpy(padded), torch.from_numpy(mask)


def pad_source(sources: Sequence[Ids], specials: Specials) -> tuple[Tensor, Tensor]:
    """Source ids with EOS appended: -> (B, S), lengths (B,)."""
    padded, mask = pad([np.append(row, specials.source_eos) for row in sources], specials.source_pad)
    return padded, mask.sum(1)


def collate(sources: Sequence[Ids], targets: Sequence[Ids], specials: Specials) -> Batch:
    """Pairs of ids, without BOS or EOS, as a batch."""
    source, lengths = pad_source(sources, specials)
    target, mask = pad([np.append(row, specials.target_eos) for row in targets], specials.target_pad)
    start = target.new_full((len(targets), 1), specials.target_bos)
    return Batch(source, lengths, torch.cat((start, target[:, :-1]), 1), target, mask, int(mask.sum()))


def plan_in_order(source_lengths: Ids, target_lengths: Ids, batch_tokens: int, order: npt.NDArray[np.int64]) -> Plan:
    """Cut an order of pairs into batches of at most ``batch_tokens`` = rows x longest row of either side.

    A pair that exceeds the budget by itself is a batch of its own. Lengths are without the EOS, which is counted. Where
    more than ``ROWS`` pairs fit, their number is a multiple of it.
    """
    longest = np.maximum(source_lengths, target_lengths)[order] + 1
    plan, first = [], 0
    while first < len(order):
        widest = np.maximum.accumulate(longest[first : first + batch_tokens])
        fit = max(1, int(((np.arange(len(widest)) + 1) * widest <= batch_tokens).sum()))
        if fit > ROWS and first + fit < len(order):
            fit -= fit % ROWS
        plan.append(order[first : first + fit])
        first += fit
    return plan


def plan_by_length(source_lengths: Ids, target_lengths: Ids, batch_tokens: int) -> Plan:
    """Batches of neighbours in length, shortest first: the order for validation."""
    return plan_in_order(source_lengths, target_lengths, batch_tokens, np.lexsort((source_lengths, target_lengths)))


def plan_epoch(source_lengths: Ids, target_lengths: Ids, batch_tokens: int, *, seed: int, epoch: int) -> Plan:
    """One epoch of training: pairs of like length together, batches in random order, the largest batch first.

    Which of the equally long pairs meet is drawn anew each epoch. The largest batch comes first so that memory that
    does not suffice is found out at once.
    """
    generator = np.random.default_rng((seed, epoch))
    shuffled = generator.permutation(len(source_lengths))
    by_length = shuffled[np.lexsort((source_lengths[shuffled], target_lengths[shuffled]))]
    plan = plan_in_order(source_lengths, target_lengths, batch_tokens, by_length)
    plan = [plan[i] for i in generator.permutation(len(plan))]
    cells = [len(rows) * int(source_lengths[rows].max() + 1) * int(target_lengths[rows].max() + 1) for rows in plan]
    largest = int(np.argmax(cells))
    plan[0], plan[largest] = plan[largest], plan[0]
    return plan


@dataclass(frozen=True)
class Position:
    """The next batch of training: all there is to know to resume."""

    epoch: Count = 0
    batch: Count = 0


class Rows(Protocol):
    """What batching asks of an encoded corpus."""

    source_lengths: Ids
    target_lengths: Ids

    def rows(self, indices: npt.NDArray[np.int64]) -> tuple[list[Ids], list[Ids]]:
        """Source and target ids of these pairs."""


class FirstPieces:
    """A corpus of which only the first ``most`` pieces of either side are read."""

    def __init__(self, corpus: Rows, most: int) -> None:
        self._corpus, self._most = corpus, most
        self.source_lengths: Ids = np.minimum(corpus.source_lengths, most)
        self.target_lengths: Ids = np.minimum(corpus.target_lengths, most)
        self.cut = int((np.maximum(corpus.source_lengths, corpus.target_lengths) > most).sum())
        """Pairs of which a side is longer."""

    def batches(self, specials: Specials, batch_tokens: int) -> Iterator[Batch]:
        """Every pair once, by length. In a target that is cut, the next piece stands where the end symbol would."""
        for rows in plan_by_length(self.source_lengths, self.target_lengths, batch_tokens):
            sources, targets = self._corpus.rows(rows)
            batch = collate([row[: self._most] for row in sources], [row[: self._most] for row in targets], specials)
            for place, target in enumerate(targets):
                if len(target) > self._most:
                    batch.target_output[place, self._most] = int(target[self._most])
            yield batch


def training_batches(
    corpus: Rows,
    specials: Specials,
    batch_tokens: int,
    *,
    seed: int,
    position: Position,
    rank: int = 0,
    size: int = 1,
) -> Iterator[tuple[Position, Batch]]:
    """Endless batches from a position on, each with the position that follows it.

    Of ``size`` processes, each takes the ``rank``-th of every ``size`` batches; the position after them is the same in
    all processes.
    """
    epoch, first = position.epoch, position.batch
    while True:
        plan = plan_epoch(corpus.source_lengths, corpus.target_lengths, batch_tokens, seed=seed, epoch=epoch)
        for i in range(first, len(plan), size):
            after = Position(epoch, i + size) if i + size < len(plan) else Position(epoch + 1, 0)
            if i + rank < len(plan):
                yield after, collate(*corpus.rows(plan[i + rank]), specials)
        epoch, first = epoch + 1, 0


def ahead(items: Iterator[T], most: int = 4) -> Iterator[T]:
    """The same items, in the same order, up to ``most`` of them made by another thread before they are asked for."""
    pool = ThreadPoolExecutor(1)
    try:
        waiting = deque(pool.submit(next, items, None) for _ in range(most))
        while (item := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, items, None))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
