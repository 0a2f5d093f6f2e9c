"""Word substitution in training text: SwitchOut (Wang et al. 2018), a pure function of (seed, epoch, pair, side).

Of the L pieces of a sentence, n are replaced with probability p(n) ~ exp(-n / t), n = 0 ... L. The n places are drawn
without replacement, and each takes another piece, any with the same probability. Special pieces, unknown ones and tags
stay where they are and come nowhere else: L counts the others. Lengths do not change.
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
"""The last number of each seed: without it, that of the first pair would be the plan's."""


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


class SubstitutedCorpus:
    """A training set with another substitution in each epoch; itself it is as it was encoded.

    Args:
        corpus: the training set.
        tokenizers: of both sides.
        substitution: the temperature of each side.
        seed: of the random numbers.
    """

    def __init__(self, corpus: TrainingPairs, tokenizers: Tokenizers, substitution: Substitution, *, seed: int) -> None:
        self._corpus, self._seed = corpus, seed
        self.source_lengths, self.target_lengths = corpus.source_lengths, corpus.target_lengths
        temperatures = substitution.source, substitution.target
        pieces = (np.array(tokenizer.text_ids, np.int32) for _, tokenizer in tokenizers.sides())
        self._sides = tuple(zip(temperatures, pieces, strict=True))

    def __len__(self) -> int:
        return len(self.source_lengths)

    def rows(self, indices: Indices) -> tuple[list[Ids], list[Ids]]:
        """As ``EncodedCorpus.rows``."""
        return self._corpus.rows(np.asarray(indices, np.int64))

    def links(self, indices: Indices) -> list[npt.NDArray[np.float32]] | None:
        """As ``EncodedCorpus.links``: a piece has the links of the one that it replaces."""
        return self._corpus.links(np.asarray(indices, np.int64))

    def in_epoch(self, epoch: int) -> "SubstitutedPairs":
        """The corpus as an epoch reads it."""
        return SubstitutedPairs(self._corpus.in_epoch(epoch), self._sides, (self._seed, epoch))


class SubstitutedPairs:
    """The pairs of an epoch; the temperature and the pieces of each side."""

    def __init__(
        self, pairs: TrainingPairs, sides: Sequence[tuple[float, Ids]], seed_and_epoch: tuple[int, int]
    ) -> None:
        self._pairs, self._sides, self._seed_and_epoch = pairs, sides, seed_and_epoch
        self.source_lengths, self.target_lengths = pairs.source_lengths, pairs.target_lengths

    def __len__(self) -> int:
        return len(self.source_lengths)

    def rows(self, indices: Indices) -> tuple[list[Ids], list[Ids]]:
        """Source and target ids of these pairs, substituted."""
        source, target = (
            [
                substituted(row, temperature, pieces, (*self._seed_and_epoch, int(pair), side))
                for pair, row in zip(indices, rows, strict=True)
            ]
            if temperature
            else rows
            for side, (rows, (temperature, pieces)) in enumerate(
                zip(self._pairs.rows(np.asarray(indices, np.int64)), self._sides, strict=True)
            )
        )
        return source, target

    def links(self, indices: Indices) -> list[npt.NDArray[np.float32]] | None:
        """As ``SubstitutedCorpus.links``."""
        return self._pairs.links(np.asarray(indices, np.int64))

    def in_epoch(self, epoch: int) -> "SubstitutedPairs":
        """The same pairs."""
        return self
