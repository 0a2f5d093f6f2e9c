"""Why translations of long sentences are worse: attention that blurs, references that become improbable, words that
are missing from one part of the sentence, output that stops, repeats itself or runs on.

Each measure is of one sentence; :func:`mean_by` makes a table of them. S source and T target pieces.
"""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nmt.evaluation.metrics import Floats

Weights = npt.NDArray[np.floating]

THIRDS = 3
"""Early, middle, late."""
SHORT, LONG = 0.5, 1.5
"""Words of the hypothesis over words of the reference: below it stopped early, above it ran on."""
REPEATED = 3
"""So many times the same four words: it repeats itself, if the reference does not."""


def entropy(attention: Weights) -> float:
    """The mean over target pieces of -sum_j alpha_j ln alpha_j, nats: 0 looks at one piece, ln S at all alike."""
    safe = np.where(attention > 0, attention, 1.0)
    return float(-(attention * np.log(safe)).sum(axis=1).mean())


def distance_from_diagonal(attention: Weights) -> float:
    """The mean over target pieces of how far, as a share of the source, the attention's mean position lies from where
    it would be if both sentences ran in parallel: 0 is monotone and even."""
    targets, sources = attention.shape
    looked = (attention * (np.arange(sources) + 0.5)).sum(axis=1) / np.maximum(attention.sum(axis=1), 1e-9) / sources
    return float(np.abs(looked - (np.arange(targets) + 0.5) / targets).mean())


def by_third(values: Sequence[float] | Floats) -> Floats:
    """Means of the first, second and last third of a sentence's values, (3,); NaN for a third that has none.

    Value k of n belongs to the third in which (k + 1/2) / n lies.
    """
    thirds = third(np.arange(len(values)), len(values))
    array = np.asarray(values, np.float64)
    return np.array([array[thirds == k].mean() if (thirds == k).any() else np.nan for k in range(THIRDS)])


def third(positions: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Which third of ``count`` places each position lies in: 0, 1 or 2."""
    return ((2 * positions + 1) * THIRDS // (2 * max(count, 1))).astype(np.int64)


def recall_by_third(hypothesis: str, reference: str, function_words: Set[str] = frozenset()) -> Floats:
    """Of the reference's content words in each third of it, the share that the hypothesis has too, (3,).

    Words are whitespace words in lower case without punctuation around them; the function words do not count. A word
    that stands n times in the hypothesis finds at most n of the reference's. NaN for a third without content words.
    """
    words, left = _words(reference), Counter(_words(hypothesis))
    found: list[list[bool]] = [[], [], []]
    for word, k in zip(words, third(np.arange(len(words)), len(words)).tolist(), strict=True):
        if word and word not in function_words:
            found[k].append(left[word] > 0)
            left[word] -= 1
    return np.array([np.mean(each) if each else np.nan for each in found])


def most_frequent(references: Sequence[str], count: int = 100) -> frozenset[str]:
    """The commonest words of a text: its function words, near enough."""
    words = Counter(word for line in references for word in _words(line))
    return frozenset(word for word, _ in words.most_common(count))


def _words(line: str) -> list[str]:
    return [word.lower().strip(".,;:!?()[]\"'«»") for word in line.split()]


@dataclass(frozen=True)
class Failure:
    """What is wrong with the form of a hypothesis, whatever it says."""

    stops_early: bool
    runs_on: bool
    repeats: bool


def failure(hypothesis: str, reference: str) -> Failure:
    """By the numbers of words, and by four words in a row that come again and again."""
    words, expected = hypothesis.split(), reference.split()
    ratio = len(words) / max(len(expected), 1)
    return Failure(ratio < SHORT, ratio > LONG, _most_repeated(words) >= REPEATED > _most_repeated(expected))


def _most_repeated(words: Sequence[str], order: int = 4) -> int:
    counts = Counter(tuple(words[k : k + order]) for k in range(len(words) - order + 1))
    return max(counts.values(), default=0)


def mean_by(groups: Sequence[npt.NDArray[np.int64]], values: Floats) -> Floats:
    """Means of the sentences of each group, (groups, ...), of values (sentences, ...); NaN does not count."""
    kept = ~np.isnan(values)
    sums = [np.where(kept, values, 0.0)[group].sum(axis=0) for group in groups]
    counts = [kept[group].sum(axis=0) for group in groups]
    return np.array([np.where(n > 0, s / np.maximum(n, 1), np.nan) for s, n in zip(sums, counts, strict=True)])
