"""A mix of corpora: which of their pairs an epoch reads, a pure function of (sizes, weights, seed, epoch)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.encoded import EncodedCorpus, Links
from nmt.data.tokenizer import Ids


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


def epoch_rows(sizes: Sequence[int], counts: Sequence[int], *, seed: int, epoch: int) -> NDArray[np.int64]:
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


class DrawnPairs:
    """Rows of an encoded corpus, in any order and number."""

    def __init__(self, corpus: EncodedCorpus, rows: NDArray[np.int64]) -> None:
        self._corpus, self._rows = corpus, rows
        self.source_lengths: Ids = corpus.source_lengths[rows]
        self.target_lengths: Ids = corpus.target_lengths[rows]

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, indices: Sequence[int] | NDArray[Any]) -> tuple[list[Ids], list[Ids]]:
        """As :meth:`EncodedCorpus.rows`, of the drawn pairs."""
        return self._corpus.rows(self._rows[np.asarray(indices, np.int64)])

    def links(self, indices: Sequence[int] | NDArray[Any]) -> list[Links] | None:
        """As :meth:`EncodedCorpus.links`, of the drawn pairs."""
        return self._corpus.links(self._rows[np.asarray(indices, np.int64)])

    def in_epoch(self, epoch: int) -> "DrawnPairs":
        """The same pairs."""
        return self


class MixedCorpus:
    """Encoded corpora that lie end to end, of which each epoch reads a part of its own.

    Args:
        corpus: all pairs, corpus after corpus.
        sizes: of the corpora.
        counts: how many pairs of each an epoch reads.
        seed: of the draw.
    """

    def __init__(self, corpus: EncodedCorpus, sizes: Sequence[int], counts: Sequence[int], *, seed: int) -> None:
        self._corpus, self._sizes, self._counts, self._seed = corpus, sizes, counts, seed
        self.source_lengths, self.target_lengths = corpus.source_lengths, corpus.target_lengths

    def __len__(self) -> int:
        return len(self._corpus)

    def rows(self, indices: Sequence[int] | NDArray[Any]) -> tuple[list[Ids], list[Ids]]:
        """As :meth:`EncodedCorpus.rows`, of all pairs."""
        return self._corpus.rows(indices)

    def links(self, indices: Sequence[int] | NDArray[Any]) -> list[Links] | None:
        """As :meth:`EncodedCorpus.links`, of all pairs."""
        return self._corpus.links(indices)

    def in_epoch(self, epoch: int) -> DrawnPairs:
        """The pairs that an epoch reads, in the order of the corpora; the plan of the epoch shuffles them."""
        rows = epoch_rows(self._sizes, self._counts, seed=self._seed, epoch=epoch)
        return DrawnPairs(self._corpus.in_epoch(epoch), rows)
