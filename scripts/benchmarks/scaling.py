"""A model of data-parallel training: time of an update, memory, disk and price, from a few numbers.

Every rank computes the gradient of batches of its own, so that an update has N times the tokens of one rank; a ring
all-reduce adds the gradients up; every rank then clips and takes the same step of the optimizer. Left out: batches that
take longer than others, the copies of gradients into buckets and back, validation, saving, and whatever else ranks
share but cores or GPUs, such as caches and the bandwidth of the memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WEIGHT = 4
"""Bytes of a parameter, of its gradient and of each of Adam's two moments: fp32."""
SUMMED = 8
"""Bytes of a gradient between ranks where training computes in fp32: float64 (nmt/training/gradient_sum.py)."""
IN_MEMORY = 4 * WEIGHT
"""Bytes a parameter in memory: the weight, its gradient, two moments."""
ID = 4
"""Bytes of an encoded piece."""
OFFSETS = 2 * ID
"""Bytes of an encoded pair beside its pieces: where each side begins."""


@dataclass(frozen=True)
class Link:
    """The connection between ranks."""

    bandwidth: float
    """Bytes a second that a rank sends to its neighbor."""
    latency: float
    """Seconds of a message without bytes."""

    def all_reduce(self, ranks: int, size: float, buckets: int = 1) -> float:
        """Seconds of ring all-reduces of ``size`` bytes in equal buckets, one after another: for each bucket 2 (N - 1)
        messages in a row of an N-th of its bytes (Patarasuk & Yuan 2009)."""
        return 2 * (ranks - 1) * (buckets * self.latency + size / ranks / self.bandwidth)


@dataclass(frozen=True)
class Training:
    """Training in one process."""

    rate: float
    """Target tokens a second of one process on one device."""
    tokens: float
    """Target tokens of an update in one rank."""
    gradient: float
    """Bytes of the gradient."""
    devices: int
    """Cores or GPUs; more ranks than devices share them."""
    buckets: int = 1
    """Parts in which the gradient is added up."""
    overlap: float = 0.0
    """Share of an update's computation during which the all-reduce runs beside it."""


@dataclass(frozen=True)
class Prediction:
    """Training on several ranks; times are seconds of an update."""

    ranks: int
    computation: float
    """Of gradient, clipping and optimizer."""
    all_reduce: float
    """Of the all-reduce alone."""
    waiting: float
    """The part of ``all_reduce`` that no computation hides."""
    tokens: float
    """Target tokens of an update, of all ranks together."""

    @property
    def seconds(self) -> float:
        """Of an update."""
        return self.computation + self.waiting

    @property
    def rate(self) -> float:
        """Target tokens a second of all ranks together."""
        return self.tokens / self.seconds


def predict(training: Training, link: Link, ranks: int) -> Prediction:
    """Predict an update on ``ranks`` ranks."""
    computation = training.tokens / training.rate * max(1.0, ranks / training.devices)
    all_reduce = link.all_reduce(ranks, training.gradient, training.buckets)
    waiting = max(0.0, all_reduce - training.overlap * computation)
    return Prediction(ranks, computation, all_reduce, waiting, ranks * training.tokens)


def efficiency(prediction: Prediction, one: Prediction) -> float:
    """The speed-up over one rank, divided by the number of ranks."""
    return prediction.rate / one.rate / prediction.ranks


def memory(parameters: int, activations: float) -> float:
    """Bytes of a rank: weights, gradient, Adam's moments, and what the backward pass needs of the forward pass."""
    return IN_MEMORY * parameters + activations


def cache_bytes(pairs: float, source_pieces: float, target_pieces: float) -> float:
    """Bytes of the encoded training set, for a mean pair of these numbers of pieces."""
    return pairs * (ID * (source_pieces + target_pieces) + OFFSETS)


def checkpoint_bytes(parameters: int, average: int) -> float:
    """Bytes of a run's checkpoints while one is written.

    ``last``, ``previous`` and the new one hold the weights and two moments; ``best``, and the ``average`` ones whose
    mean may be taken, hold the weights alone.
    """
    kept = average if average > 1 else 0
    return WEIGHT * parameters * (3 * 3 + 1 + kept)


def fit_link(ranks: int, sizes: Sequence[float], seconds: Sequence[float]) -> Link:
    """Fit bandwidth and latency to the times of all-reduces of at least two sizes in bytes.

    Least squares of the relative error, so that small sizes count as much as large ones; a latency is at least zero.
    """
    scale = 1 / np.asarray(seconds, float)
    columns = np.stack([np.ones(len(sizes)), np.asarray(sizes, float)], 1) * scale[:, None]
    constant, slope = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
    if constant < 0:
        constant, slope = 0.0, columns[:, 1].sum() / np.square(columns[:, 1]).sum()
    messages = 2 * (ranks - 1)
    return Link(bandwidth=float(messages / ranks / slope), latency=float(constant / messages))
