"""The training set as an epoch reads it: parts of a mix of corpora, and substituted words.

Which pairs of a mix an epoch reads is a pure function of (sizes, weights, seed, epoch).

Word substitution, SwitchOut (Wang et al. 2018), is a pure function of (seed, epoch, pair, side). Of the L pieces of a
sentence, n are replaced with probability p(n) ~ exp(-n / t), n = 0 ... L. The n places are drawn without replacement,
and each takes another piece, any with the same probability. Special pieces, unknown ones and tags stay where they are
and come nowhere else: L counts the others. Lengths do not change.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.config.schema import Substitution
from nmt.data.batching import TrainingPairs
from nmt.data.tokenizer import Ids, Tokenizers

Indices = Sequence[int] | npt.NDArray[Any]
STREAM = 2
"""The last number of each seed of substitution: without it, that of the first pair would be the plan's."""


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


# --- a mix ------------------------------------------------------------------------------------------------------------


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


# --- substitution -----------------------------------------------------------------------------------------------------


def count_probabilities(length: int, temperature: float) -> npt.NDArray[np.float64]:
    """The probability that n of ``length`` pieces are replaced, (length + 1,): p(n) ~ exp(-n / temperature)."""
    weights = np.exp(-np.arange(length + 1) / temperature)
    return np.asarray(weights / weights.sum())


def substituted(ids: Ids, temperature: float, pieces: Ids, seed: Sequence[int]) -> Ids:
    """Replace some ids of a sentence, (L,), by others of ``pieces``, which are at least two in ascending order."""
    generator = np.random.default_rng((*seed, STREAM))
    ranks = np.searchsorted(pieces[:-1], ids)
    places = np.flatnonzero(pieces[ranks] == ids)
    cumulative = count_probabilities(len(places), temperature).cumsum()
    count = int(np.searchsorted(cumulative[:-1], generator.random(), side="right"))
    changed = ids.copy()
    for place in generator.permutation(places)[:count]:
        drawn = int(generator.integers(len(pieces) - 1))  # of all but the one that stands there
        changed[place] = pieces[drawn + (drawn >= ranks[place])]
    return changed


class SubstitutedCorpus(View):
    """A training set with another substitution in each epoch; itself it is as it was encoded.

    Args:
        corpus: the training set.
        tokenizers: of both sides.
        substitution: the temperature of each side.
        seed: of the random numbers.
    """

    def __init__(self, corpus: TrainingPairs, tokenizers: Tokenizers, substitution: Substitution, *, seed: int) -> None:
        super().__init__(corpus)
        temperatures = substitution.source, substitution.target
        pieces = (np.array(tokenizer.text_ids, np.int32) for _, tokenizer in tokenizers.sides())
        self._sides, self._seed = tuple(zip(temperatures, pieces, strict=True)), seed

    def in_epoch(self, epoch: int) -> View:
        """The pairs of an epoch, substituted as they are read."""
        return SubstitutedPairs(self._corpus.in_epoch(epoch), self._sides, (self._seed, epoch))


class SubstitutedPairs(View):
    """The pairs of an epoch; the temperature and the pieces of each side."""

    def __init__(
        self, pairs: TrainingPairs, sides: Sequence[tuple[float, Ids]], seed_and_epoch: tuple[int, int]
    ) -> None:
        super().__init__(pairs)
        self._sides, self._seed_and_epoch = sides, seed_and_epoch

    def rows(self, indices: Indices) -> tuple[list[Ids], list[Ids]]:
        """Source and target ids, substituted."""
        source, target = (
            [
                substituted(row, temperature, pieces, (*self._seed_and_epoch, int(pair), side))
                for pair, row in zip(indices, rows, strict=True)
            ]
            if temperature
            else rows
            for side, (rows, (temperature, pieces)) in enumerate(zip(super().rows(indices), self._sides, strict=True))
        )
        return source, target
