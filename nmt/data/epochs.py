"""The training set as each epoch reads it, and the stream of its batches.

All are pure functions: a sampled segmentation of (seed, epoch, pair, side), the pairs that an epoch reads of a mix of
(parts, seed, epoch), and the plan of its batches of (lengths, budget, seed, epoch). Training resumes from a position
(epoch, batch) alone, and a slice of the plan is a shard.
"""

import tempfile
from collections import deque
from collections.abc import Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nmt.config.schema import Count
from nmt.data.batching import Batch, Rows, Specials, collate, plan_epoch
from nmt.data.encoded import EncodedCorpus
from nmt.data.encoding import mapped, text_hash
from nmt.data.report import SIDES
from nmt.data.tokenizer import BpeDropout, Tokenizers
from nmt.errors import DataError

Item = TypeVar("Item")
Parts = Sequence[tuple[int, int]]
READ = 10_000
"""Texts that are sampled at a time."""


@dataclass(frozen=True)
class Position:
    """Position of the next training batch, from which training resumes."""

    epoch: Count = 0
    batch: Count = 0


class TrainingSet(EncodedCorpus):
    """All pairs of the training corpora, corpus after corpus, from which each epoch reads its own.

    Args:
        table: as of :class:`EncodedCorpus`; to sample, it has the text of both sides, too.
        tokenizers: to sample.
        tags: ids of the pieces before the sources of tagged corpora.
        dropout: share of merges that a segmentation leaves out, drawn again in each epoch; 0: none.
        parts: the pairs of each corpus of a mix, and how many of them an epoch reads.
        seed: of the samples, and of the pairs that an epoch reads.
    """

    def __init__(
        self,
        table: pa.Table,
        tokenizers: Tokenizers | None = None,
        *,
        tags: Set[int] = frozenset(),
        dropout: float = 0.0,
        parts: Parts = (),
        seed: int = 0,
    ) -> None:
        super().__init__(table)
        self._table, self._tags, self._parts, self._seed = table, tags, parts, seed
        self._segmentations = {
            side: BpeDropout(tokenizer, dropout)
            for side, tokenizer in (tokenizers.sides() if tokenizers is not None and dropout else ())
        }

    def in_epoch(self, epoch: int) -> EncodedCorpus:
        """The pairs that an epoch reads, in the order of the corpora, segmented for it; its plan shuffles them."""
        whole = all(size == count for size, count in self._parts)
        if whole and not self._segmentations:
            return self
        table = self._sampled(epoch) if self._segmentations else self._table
        drawn = None if whole else epoch_rows(self._parts, seed=self._seed, epoch=epoch)
        return EncodedCorpus(table, drawn)

    def _sampled(self, epoch: int) -> pa.Table:
        """The segmentations of an epoch, in a file without a name. Raises DataError if it cannot be written."""
        try:
            return self._written(epoch)
        except OSError as error:
            remedy = "let TMPDIR name a directory with space, or set tokenizer.dropout to 0"
            raise DataError(f"tokenizer.dropout: cannot write an epoch's segmentations: {error}; {remedy}") from None

    def _written(self, epoch: int) -> pa.Table:
        schema, first = self._table.select(SIDES).schema, 0
        with tempfile.NamedTemporaryFile() as file:  # mapped beyond its end
            with pa.ipc.new_stream(file, schema) as writer:
                for batch in self._table.to_batches(max_chunksize=READ):
                    sides = [self._sampled_side(side, batch, first, epoch) for side in SIDES]
                    writer.write_batch(pa.record_batch(sides, schema))
                    first += len(batch)
            file.flush()
            return mapped(Path(file.name))

    def _sampled_side(self, side: str, batch: pa.RecordBatch, first: int, epoch: int) -> pa.Array:
        """Sample the texts of a side of a batch whose pairs are numbered from ``first``."""
        rows = []
        texts, best = batch[f"{side}_text"].to_pylist(), batch[side].to_pylist()
        for pair, (text, ids) in enumerate(zip(texts, best, strict=True), first):
            number = text_hash(repr((self._seed, epoch, pair, side)))
            tag = ids[:1] if ids and ids[0] in self._tags else []
            rows.append(tag + self._segmentations[side].sample(text, number))
        return pa.array(rows, batch[side].type)


def epoch_rows(parts: Parts, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Draw the rows of an epoch from corpora that lie end to end: corpus by corpus.

    An epoch reads a corpus of n pairs floor(count / n) times, and ``count mod n`` of its pairs once more. These follow
    one random order of the corpus, from where the epoch before has stopped and around its end: after any number of
    epochs two pairs of a corpus have been read equally often, or one of them once more.
    """
    rows, first = [], 0
    for number, (size, count) in enumerate(parts):
        copies, rest = divmod(count, size)
        rows += [np.arange(first, first + size)] * copies
        if rest:  # a stream of its own: that of the plan begins with (seed, epoch)
            order = np.random.default_rng((seed, number, 1)).permutation(size)
            rows.append(first + order[(epoch * rest + np.arange(rest)) % size])
        first += size
    return np.concatenate(rows)


def training_batches(
    corpus: TrainingSet,
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
    position after a round is the same in all of them. So any number of processes goes on from any position, and an
    epoch has every pair exactly once.
    """
    batches = _batches(corpus, batch_tokens, seed, position)
    while True:
        dealt = list(islice(batches, size))
        pairs, rows, _ = dealt[rank]
        yield dealt[-1][-1], collate(*pairs.rows(rows), specials, pairs.links(rows))


def _batches(
    corpus: TrainingSet, batch_tokens: int, seed: int, position: Position
) -> Iterator[tuple[EncodedCorpus, Rows, Position]]:
    """The rows of endless batches, with the corpus as their epoch reads it and the position after each."""
    epoch, first = position.epoch, position.batch
    while True:
        pairs = corpus.in_epoch(epoch)
        plan = plan_epoch(pairs.source_lengths, pairs.target_lengths, batch_tokens, seed=seed, epoch=epoch)
        for i in range(first, len(plan)):
            yield pairs, plan[i], Position(epoch, i + 1) if i + 1 < len(plan) else Position(epoch + 1, 0)
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
