"""The stream of training batches, and the batches of a validation.

The plan of an epoch is a pure function of (lengths, budget, seed, epoch): training resumes from a position (epoch,
batch) alone, and a slice of the plan is a shard.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np

from nmt.config.schema import Count
from nmt.data.batching import Batch, Plan, Rows, Specials, collate, plan_by_length, plan_epoch
from nmt.data.encoded import EncodedCorpus, TrainingSet
from nmt.data.tokenizer import Ids

Item = TypeVar("Item")


@dataclass(frozen=True)
class Position:
    """Position of the next training batch, from which training resumes."""

    epoch: Count = 0
    batch: Count = 0


class FirstPieces:
    """A corpus with both sides of each pair cut to their first ``most`` pieces."""

    def __init__(self, corpus: EncodedCorpus, most: int) -> None:
        self._corpus, self._most = corpus, most
        self.source_lengths: Ids = np.minimum(corpus.source_lengths, most)
        self.target_lengths: Ids = np.minimum(corpus.target_lengths, most)
        self.cut = int((np.maximum(corpus.source_lengths, corpus.target_lengths) > most).sum())
        """Number of pairs with a longer side."""

    def plan(self, batch_tokens: int) -> Plan:
        """Batches of every pair once, by length."""
        return plan_by_length(self.source_lengths, self.target_lengths, batch_tokens)

    def batches(self, specials: Specials, plan: Sequence[Rows]) -> Iterator[Batch]:
        """The batches of a plan. A target that is cut ends with its next piece instead of EOS."""
        for rows in plan:
            sources, targets = self._corpus.rows(rows)
            batch = collate([row[: self._most] for row in sources], [row[: self._most] for row in targets], specials)
            for place, target in enumerate(targets):
                if len(target) > self._most:
                    batch.target_output[place, self._most] = int(target[self._most])
            yield batch


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
