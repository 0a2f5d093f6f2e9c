"""A mix of corpora as an epoch reads it: a pure function of (sizes, weights, seed, epoch)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.data.batching import TrainingPairs
from nmt.data.tokenizer import Ids

Indices = Sequence[int] | npt.NDArray[Any]


class View:
    """A training set that reads another one; here without a change."""

    def __init__(self, corpus: TrainingPairs) -> None:
        self._corpus = corpus
        self.source_lengths: Ids = corpus.source_lengths
        self.target_lengths: Ids = corpus.target_lengths

    def __len__(self) -> int:
        return len(self.source_lengths)

    def rows(self, indices: Indices) -> tuple[list[Ids], list[Ids]]:
        """Source and target ids of the pairs at ``indices``."""
        return self._corpus.rows(np.asarray(indices, np.int64))

    def links(self, indices: Indices) -> list[npt.NDArray[np.float32]] | None:
        """Their links, (T, S) each; None without links."""
        return self._corpus.links(np.asarray(indices, np.int64))

    def in_epoch(self, epoch: int) -> "View":
        """The pairs as an epoch reads them."""
        return self


def pairs_per_epoch(sizes: Sequence[int], weights: Sequence[float], temperature: float) -> list[int]:
    """How many pairs of each corpus an epoch reads.

    With e_i = w_i n_i for n_i pairs of weight w_i: e_i^(1/T) / sum_j e_j^(1/T) * sum_j e_j, rounded to the nearest
    number (Arivazhagan et al. 2019, section 4.2). With temperature T = 1 that is w_i n_i.
    """
    if temperature == 1:  # the formula would round
        return [round(weight * size) for size, weight in zip(sizes, weights, strict=True)]
    wanted = np.multiply(sizes, weights, dtype=np.float64)
    shares = wanted ** (1 / temperature)
    return [round(count) for count in shares / shares.sum() * wanted.sum()]


def epoch_rows(sizes: Sequence[int], counts: Sequence[int], *, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Draw the rows of an epoch from corpora that lie end to end: -> (sum of counts,), corpus by corpus.

    An epoch reads a corpus of n pairs floor(count / n) times, and ``count mod n`` of its pairs once more. These follow
    one random order of the corpus, from where the epoch before has stopped and around its end: after any number of
    epochs two pairs of a corpus have been read equally often, or one of them once more.
    """
    rows, first = [], 0
    for number, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        copies, rest = divmod(count, size)
        rows += [np.arange(first, first + size)] * copies
        if rest:  # a stream of its own: that of the plan begins with (seed, epoch)
            order = np.random.default_rng((seed, number, 1)).permutation(size)
            rows.append(first + order[(epoch * rest + np.arange(rest)) % size])
        first += size
    return np.concatenate(rows)


class MixedCorpus(View):
    """Encoded corpora that lie end to end, of which each epoch reads a part of its own.

    Args:
        corpus: all pairs, corpus after corpus.
        sizes: of the corpora.
        counts: how many pairs of each an epoch reads.
        seed: of the draw.
    """

    def __init__(self, corpus: TrainingPairs, sizes: Sequence[int], counts: Sequence[int], *, seed: int) -> None:
        super().__init__(corpus)
        self._sizes, self._counts, self._seed = sizes, counts, seed

    def in_epoch(self, epoch: int) -> View:
        """The pairs that an epoch reads, in the order of the corpora; the plan of the epoch shuffles them."""
        rows = epoch_rows(self._sizes, self._counts, seed=self._seed, epoch=epoch)
        return DrawnPairs(self._corpus.in_epoch(epoch), rows)


class DrawnPairs(View):
    """Rows of a training set, in any order and number."""

    def __init__(self, corpus: TrainingPairs, drawn: npt.NDArray[np.int64]) -> None:
        super().__init__(corpus)
        self._drawn = drawn
        self.source_lengths, self.target_lengths = corpus.source_lengths[drawn], corpus.target_lengths[drawn]

    def rows(self, indices: Indices) -> tuple[list[Ids], list[Ids]]:
        """Source and target ids of drawn pairs."""
        return super().rows(self._drawn[np.asarray(indices, np.int64)])

    def links(self, indices: Indices) -> list[npt.NDArray[np.float32]] | None:
        """Links of drawn pairs."""
        return super().links(self._drawn[np.asarray(indices, np.int64)])
