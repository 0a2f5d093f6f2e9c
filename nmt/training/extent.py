"""How long a run is: its updates, its epochs, and the work of a target token."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from nmt.config import Config, schema
from nmt.config.schema import Training
from nmt.data.batching import plan_by_length
from nmt.data.dataset import PreparedData
from nmt.data.tokenizer import Ids
from nmt.model.cost import cost
from nmt.training.progress import Progress

MOST_COUNTED = 1_000_000
"""Pairs whose lengths are looked at; of a larger corpus every n-th stands for n."""


@dataclass(frozen=True)
class Extent:
    """The batches of an epoch, and of an update.

    Exact for a corpus of up to ``MOST_COUNTED`` pairs that every epoch reads as it is; with sampled segmentations, or
    in a mix, an estimate.
    """

    batches: int
    """Of an epoch."""
    per_update: int
    """Batches of an update, of all processes."""
    tokens: int
    """Real target tokens of an epoch."""

    @classmethod
    def of(cls, config: Config, prepared: PreparedData, processes: int) -> Self:
        """Count the batches of a corpus."""
        source, target, times = lengths_of(prepared)
        batches = len(plan_by_length(source, target, config.training.batch_tokens))
        tokens = int(target.sum(dtype=np.int64)) + len(target)
        per_update = config.training.accumulation * processes
        return cls(max(1, round(batches * times)), per_update, round(tokens * times))

    def total(self, config: Training, progress: Progress) -> int:
        """Return the updates of a run in total, which has come as far as ``progress``."""
        if config.updates is not None:
            return config.updates
        assert config.epochs is not None
        position = progress.position
        if position.epoch >= config.epochs:
            return progress.update
        here = math.ceil(max(0, self.batches - position.batch) / self.per_update)
        later = (config.epochs - position.epoch - 1) * math.ceil(self.batches / self.per_update)
        return progress.update + here + later

    def epochs(self, config: Training) -> float:
        """Return the epochs of a run in total."""
        if config.epochs is not None:
            return config.epochs
        assert config.updates is not None
        return config.updates * self.per_update / self.batches

    def epochs_left(self, config: Training, progress: Progress) -> float:
        """Return the epochs of a run after ``progress``."""
        if config.epochs is not None:
            return max(0.0, config.epochs - self.read(progress))
        assert config.updates is not None
        return (config.updates - progress.update) * self.per_update / self.batches

    def validations(self, config: Training, progress: Progress) -> tuple[int, int]:
        """Return how many validations a run has made and how many are left, if ``patience`` does not end it early."""
        total, last = self.total(config, progress), progress.validated
        every, first = config.validation.every, config.validation.first

        def until(update: int) -> int:
            early = first is not None and first <= update and first % every > 0 and first != total
            return update // every + early + (update >= total and total % every > 0)  # the last update has one, too

        return max(until(last), int(last > 0)), until(total) - until(min(last, total))

    def read(self, progress: Progress) -> float:
        """Return the epochs that have been read."""
        return progress.position.epoch + min(1.0, progress.position.batch / self.batches)


def lengths_of(prepared: PreparedData) -> tuple[Ids, Ids, float]:
    """Return lengths of source and target sentences that stand for an epoch, and how many times they do."""
    corpus, report = prepared.train, prepared.report["splits"]["train"]
    source, target = corpus.source_lengths, corpus.target_lengths
    every = max(1, len(source) // MOST_COUNTED)
    source, target = source[::every], target[::every]
    pairs = report.get("pairs_in_epoch", len(corpus))
    return source, target, pairs / len(source)


def flops_per_token(config: schema.Model, prepared: PreparedData) -> float | None:
    """Return the floating-point operations of training for one target token of a mean pair, as
    :mod:`nmt.model.cost` counts them; None for a model with a part that cannot run on the device ``meta``."""
    try:
        each = cost(config, prepared.tokenizers.target.size)
    except RuntimeError:
        return None
    source, target, _ = lengths_of(prepared)
    s, t = source.astype(np.int64) + 1, target.astype(np.int64) + 1
    sums = len(s), s.sum(), t.sum(), (s * t).sum(), (s * s).sum(), (t * (t + 1)).sum() // 2
    return each.training_flops(*map(int, sums)) / int(t.sum())
