"""Batches: which pairs stand together, and their tensors.

The plan of an epoch is a pure function of (lengths, budget, seed, epoch). A position (epoch, batch) is enough to
resume. A slice of the plan is a shard.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmt.config.schema import Count, Size
from nmt.data.tokenizer import Ids, Tokenizers
from nmt.records import Record

if TYPE_CHECKING:  # PyArrow is slow to import, and a translation has no corpus
    from nmt.data.encoded import EncodedCorpus, TrainingSet

ROWS = 16
"""Batches have a multiple of this many rows where possible: matrix products of a few rows fewer would save nothing."""

Item = TypeVar("Item")
Rows = npt.NDArray[np.int64]
Plan = list[Rows]


@dataclass(frozen=True)
class Specials:
    """Ids that batching adds to a pair, read from the tokenizers."""

    source_pad: int
    source_eos: int
    target_pad: int
    target_bos: int
    target_eos: int
    reverse_source: bool = False
    """Whether the network reads the pieces of a source sentence last to first."""

    @classmethod
    def of(cls, tokenizers: Tokenizers) -> Self:
        """Read them from the tokenizers of both sides."""
        source, target = tokenizers.source, tokenizers.target
        reverse = tokenizers.reverse_source
        return cls(source.pad_id, source.eos_id, target.pad_id, target.bos_id, target.eos_id, reverse)

    def order(self, length: int) -> npt.NDArray[np.int64]:
        """Return the order in which the network reads a source of ``length`` pieces, EOS included: (length,).

        Its input at position j is piece ``order[j]``. Reversed (Sutskever et al. 2014, section 3.3), a b c EOS becomes
        c b a EOS. The order undoes itself: ``weights[:, order]`` has the columns of weights (T, S) as in the text.
        """
        order = np.arange(length)
        return np.append(order[-2::-1], order[-1:]) if self.reverse_source else order


@dataclass(frozen=True)
class Batch(Record):
    """B padded pairs. Each source ends with EOS; the target input is the target shifted right by one."""

    source: Tensor
    """(B, S), in the order in which the network reads it"""
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
    links: Tensor | None = None
    """(B, T, S): even over the source pieces that a target piece is linked to, summing to 1; all else is zero"""

    def halves(self) -> list[Self]:
        """Two halves with the same padding; the batch itself if it has one pair."""
        middle = len(self.source) // 2
        if not middle:
            return [self]
        parts = self.map(lambda tensor: tensor[:middle]), self.map(lambda tensor: tensor[middle:])
        return [replace(part, target_tokens=int(part.target_mask.sum())) for part in parts]

    def to(self, device: torch.device) -> Self:
        """The batch on a device; lengths stay on the CPU."""
        moved = self.map(lambda tensor: tensor.to(device, non_blocking=True))
        return replace(moved, source_lengths=self.source_lengths)


def pad(rows: Sequence[Ids], fill: int) -> tuple[Tensor, Tensor]:
    """Pad rows of ids at the right: -> (B, longest) int64, and its mask, True on real ids."""
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    padded = np.full(mask.shape, fill, np.int64)
    padded[mask] = np.concatenate(rows) if len(rows) else ()
    return torch.from_numpy(padded), torch.from_numpy(mask)


def pad_source(sources: Sequence[Sequence[int] | Ids], specials: Specials) -> tuple[Tensor, Tensor]:
    """Append EOS to source ids, put them in the network's order and pad: -> (B, S) int64, lengths with EOS (B,)."""
    ended = [np.append(np.asarray(row, np.int32), specials.source_eos) for row in sources]
    padded, mask = pad([row[specials.order(len(row))] for row in ended], specials.source_pad)
    return padded, mask.sum(1)


def collate(
    sources: Sequence[Ids], targets: Sequence[Ids], specials: Specials, links: Sequence[Ids] | None = None
) -> Batch:
    """Make a batch of pairs of ids without BOS and EOS, and of their links: source piece, target piece, ..."""
    source, lengths = pad_source(sources, specials)
    target, mask = pad([np.append(row, specials.target_eos) for row in targets], specials.target_pad)
    start = target.new_full((len(targets), 1), specials.target_bos)
    shifted = torch.cat((start, target[:, :-1]), 1)
    batch = Batch(source, lengths, shifted, target, mask, int(mask.sum()))
    if links is None:
        return batch
    weights = torch.zeros(*target.shape, source.size(1))
    for row, pieces, length in zip(weights.numpy(), links, lengths.tolist(), strict=True):
        row[pieces[1::2], specials.order(length)[pieces[::2]]] = 1
    return replace(batch, links=weights / weights.sum(2, keepdim=True).clamp(min=1))


def plan_in_order(source_lengths: Ids, target_lengths: Ids, batch_tokens: int, order: npt.NDArray[np.int64]) -> Plan:
    """Cut an order of pairs into batches of at most ``batch_tokens`` = rows x longest row of either side.

    A pair that exceeds the budget by itself is a batch of its own. ``batch_tokens`` includes EOS, the lengths do not. A
    batch of more than ``ROWS`` pairs, except the last, has a multiple of ``ROWS``.
    """
    longest = np.maximum(source_lengths, target_lengths)[order] + 1
    plan, first = [], 0
    while first < len(order):
        most = max(1, batch_tokens // int(longest[first]))
        widest = np.maximum.accumulate(longest[first : first + most])
        fit = max(1, int(((np.arange(len(widest)) + 1) * widest <= batch_tokens).sum()))
        if fit > ROWS and first + fit < len(order):
            fit -= fit % ROWS
        plan.append(order[first : first + fit])
        first += fit
    return plan


def plan_by_length(source_lengths: Ids, target_lengths: Ids, batch_tokens: int) -> Plan:
    """Plan validation: pairs of similar length together, shortest first."""
    return plan_in_order(source_lengths, target_lengths, batch_tokens, np.lexsort((source_lengths, target_lengths)))


def plan_epoch(source_lengths: Ids, target_lengths: Ids, batch_tokens: int, *, seed: int, epoch: int) -> Plan:
    """Plan an epoch of training: pairs of similar length together, batches in random order, the largest batch first.

    Each epoch shuffles pairs of the same length again. The largest batch shows a lack of memory at once.
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


# --- batches of a corpus ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Position:
    """Position of the next training batch, from which training resumes."""

    epoch: Count = 0
    batch: Count = 0
    of: Size = field(default=1, compare=False)
    """Batches of this epoch."""


def training_batches(
    corpus: "TrainingSet",
    specials: Specials,
    batch_tokens: int,
    *,
    seed: int,
    position: Position,
    rank: int = 0,
    size: int = 1,
) -> Iterator[tuple[Position, Batch]]:
    """Endless batches from a position on, each with the position after it.

    ``size`` processes deal out the batches of all epochs in turn, the ``rank``-th of every ``size`` to each; the
    position after a round is the same in all of them. So any number of processes continues from any position, and an
    epoch has every pair exactly once.
    """
    batches = _batches(corpus, batch_tokens, seed, position)
    while True:
        dealt = list(islice(batches, size))
        pairs, rows, _ = dealt[rank]
        yield dealt[-1][-1], collate(*pairs.rows(rows), specials, pairs.links(rows))


def _batches(
    corpus: "TrainingSet", batch_tokens: int, seed: int, position: Position
) -> "Iterator[tuple[EncodedCorpus, Rows, Position]]":
    """The rows of endless batches, with the corpus as their epoch reads it and the position after each."""
    epoch, first = position.epoch, position.batch
    while True:
        pairs = corpus.in_epoch(epoch)
        plan = plan_epoch(pairs.source_lengths, pairs.target_lengths, batch_tokens, seed=seed, epoch=epoch)
        for i in range(first, len(plan)):
            yield pairs, plan[i], Position(epoch, i + 1, len(plan)) if i + 1 < len(plan) else Position(epoch + 1, 0)
        epoch, first = epoch + 1, 0


def ahead(items: Iterator[Item], most: int = 4) -> Iterator[Item]:
    """Iterate over ``items`` while another thread prepares up to ``most`` of them in advance."""
    pool = ThreadPoolExecutor(1)
    try:
        waiting = deque(pool.submit(next, items, None) for _ in range(most))
        while (item := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, items, None))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
