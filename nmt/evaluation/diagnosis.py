"""Why translations of long sentences are worse: attention that blurs, references that become improbable, words that
are missing from one part of the sentence, output that stops, repeats itself or runs on.

Each measure is of one sentence; :func:`diagnose` makes a table of them. S source and T target pieces.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.evaluation.alignment import Weights
from nmt.evaluation.by_length import PERCENTILES, SEED, Bin, aligned
from nmt.evaluation.metrics import Floats, draws
from nmt.evaluation.writing import Unit, units

THIRDS = 3
"""Early, middle, late."""
SHORT, LONG = 0.5, 1.5
"""Length of the hypothesis over length of the reference: below it stopped early, above it ran on."""
FUNCTION_WORDS = 100
"""How many of the commonest words of a text are taken for its function words."""
REPEATED = 3
"""A hypothesis that has the same four words this often repeats itself, if the reference does not."""


def entropy(attention: Weights) -> float:
    """The mean over target pieces of -sum_j alpha_j ln alpha_j, nats: 0 looks at one piece, ln S at all alike."""
    safe = np.where(attention > 0, attention, 1.0)
    return float((attention * -np.log(safe)).sum(axis=1).mean())


def distance_from_diagonal(attention: Weights) -> float:
    """The mean over target pieces of how far, as a share of the source, the attention's mean position lies from where
    it would be if both sentences ran in parallel: 0 is monotone and even, a quarter looks at all pieces alike."""
    targets, sources = attention.shape
    looked = (attention * (np.arange(sources) + 0.5)).sum(axis=1) / np.maximum(attention.sum(axis=1), 1e-9) / sources
    return float(np.abs(looked - (np.arange(targets) + 0.5) / targets).mean())


def by_third(values: Sequence[float] | Weights) -> Floats:
    """Means of the first, second and last third of a sentence's values, (3,); NaN for a third that has none.

    Value k of n belongs to the third in which (k + 1/2) / n lies.
    """
    thirds = third(np.arange(len(values)), len(values))
    array = np.asarray(values, np.float64)
    return np.array([array[thirds == k].mean() if (thirds == k).any() else np.nan for k in range(THIRDS)])


def third(positions: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Which third of ``count`` places each position lies in: 0, 1 or 2."""
    return ((2 * positions + 1) * THIRDS // (2 * max(count, 1))).astype(np.int64)


def recall_by_third(
    hypothesis: str, reference: str, function_words: Set[str] = frozenset(), unit: Unit = "words"
) -> Floats:
    """Of the reference's content words in each third of it, the share that the hypothesis has too, (3,).

    The function words do not count. Of a word that stands r times in the reference and h times in the hypothesis each
    is found to a share of min(1, h / r): which of them was translated nobody knows. NaN for a third without any.
    """
    words, there = _words(reference, unit), Counter(_words(hypothesis, unit))
    wanted = Counter(words)
    found: list[list[float]] = [[], [], []]
    for word, k in zip(words, third(np.arange(len(words)), len(words)).tolist(), strict=True):
        if word not in function_words:
            found[k].append(min(1.0, there[word] / wanted[word]))
    return np.array([np.mean(each) if each else np.nan for each in found])


def most_frequent(references: Sequence[str], count: int = FUNCTION_WORDS, unit: Unit = "words") -> frozenset[str]:
    """The commonest words of a text: its function words, near enough."""
    words = Counter(word for line in references for word in _words(line, unit))
    return frozenset(word for word, _ in words.most_common(count))


def _words(line: str, unit: Unit) -> list[str]:
    """Runs of letters and digits, or each of them, in lower case."""
    return re.findall(r"\w+" if unit == "words" else r"\w", line.lower())


@dataclass(frozen=True)
class Failure:
    """What is wrong with the form of a hypothesis, whatever it says."""

    stops_early: bool
    runs_on: bool
    repeats: bool


def failure(hypothesis: str, reference: str, unit: Unit = "words") -> Failure:
    """By the numbers of words, and by four words in a row that come again and again; or of characters.

    Nothing is too long or too short for a blank reference.
    """
    words, expected = units(hypothesis, unit), units(reference, unit)
    ratio = len(words) / len(expected) if expected else 1.0
    return Failure(ratio < SHORT, ratio > LONG, _most_repeated(words) >= REPEATED > _most_repeated(expected))


def _most_repeated(words: Sequence[str], order: int = 4) -> int:
    counts = Counter(tuple(words[k : k + order]) for k in range(len(words) - order + 1))
    return max(counts.values(), default=0)


# --- by length --------------------------------------------------------------------------------------------------------

PARTS = ("early", "middle", "late")
BY_THIRD = ("recall", "log_probability")
WHOLE = ("entropy", "distance_from_diagonal", "stops_early", "runs_on", "repeats")
MEASURES = (*(f"{of}_{part}" for of in BY_THIRD for part in PARTS), *WHOLE)
"""The columns of :func:`sentence_measures`."""


def sentence_measures(
    log_probabilities: Weights,
    attention: Weights | None,
    hypothesis: str,
    reference: str,
    function_words: Set[str],
    unit: Unit = "words",
) -> Floats:
    """All measures of one sentence, (MEASURES,); NaN for what it does not have, as the attention of a model without.

    Args:
        log_probabilities: of the reference's pieces without the end symbol, (T - 1,), by forced decoding; nats.
        attention: (T, S), by the same.
        hypothesis: the system's own translation.
        reference: the one to hold it against.
        function_words: that are not looked for in the hypothesis.
        unit: what is counted as a word; characters where the target language has no spaces between words.
    """
    form = failure(hypothesis, reference, unit)
    look = (np.nan, np.nan) if attention is None else (entropy(attention), distance_from_diagonal(attention))
    return np.array(
        [
            *recall_by_third(hypothesis, reference, function_words, unit),
            *by_third(log_probabilities),
            *look,
            *(float(value) for value in (form.stops_early, form.runs_on, form.repeats)),
        ]
    )


@dataclass(frozen=True)
class Diagnosis:
    """The measures of one system by source length: (bins, MEASURES) means, and the ends of their 95% intervals."""

    system: str
    bins: tuple[Bin, ...]
    means: Floats
    lows: Floats
    highs: Floats

    def has(self, measure: str) -> bool:
        """Whether the system has the measure in any bin."""
        return not np.isnan(self.means[:, MEASURES.index(measure)]).all()

    def rows(self) -> list[dict[str, Any]]:
        """A row for each bin, column to value; None for what the system does not have."""
        return [
            {"system": self.system, "low": each.low, "high": each.high, "n": len(each.members)}
            | {name: None if np.isnan(value) else float(value) for name, value in zip(MEASURES, means, strict=True)}
            for each, means in zip(self.bins, self.means, strict=True)
        ]


def diagnose(system: str, bins: Mapping[int, Bin], trainings: Sequence[Floats], resamples: int) -> Diagnosis:
    """The measures in each of :func:`~nmt.evaluation.by_length.bins_by_length`'s bins.

    Args:
        system: its name.
        bins: which sentences are of which length.
        trainings: of each training of the system the measures of all sentences, (sentences, MEASURES). A sentence
            counts with their mean.
        resamples: of the bootstrap behind the intervals, which says how much depends on the sentences.
    """
    sentences = np.mean(trainings, axis=0)
    inside = [sentences[each.members] for each in bins.values()]
    resampled = [
        bootstrap_means(values, resamples, (SEED, number)) for number, values in zip(bins, inside, strict=True)
    ]
    lows, highs = _percentiles(np.array(resampled))
    return Diagnosis(system, tuple(bins.values()), np.array([mean(values) for values in inside]), lows, highs)


def mean(values: Floats) -> Floats:
    """Over the sentences, (sentences, ...) -> (...); NaN does not count, and is the mean of nothing else."""
    kept = ~np.isnan(values)
    count = kept.sum(axis=0)
    return np.where(count > 0, np.where(kept, values, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)


def bootstrap_means(values: Floats, resamples: int, seed: int | Sequence[int]) -> Floats:
    """The :func:`mean` of ``resamples`` sets drawn with replacement from the sentences, (resamples, ...)."""
    kept = ~np.isnan(values)
    filled = np.where(kept, values, 0.0)
    sums, counts = (np.stack([draw @ each for draw in draws(len(values), resamples, seed)]) for each in (filled, kept))
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _percentiles(resampled: Floats) -> tuple[Floats, Floats]:
    """The ends of the interval, (bins, resamples, MEASURES) -> 2 x (bins, MEASURES); resamples without any value do not
    count, and NaN is the interval of nothing else."""
    empty: npt.NDArray[np.bool_] = np.asarray(np.isnan(resampled).all(axis=1))
    lows, highs = np.nanpercentile(np.where(empty[:, None], 0.0, resampled), PERCENTILES, axis=1)
    return np.where(empty, np.nan, lows), np.where(empty, np.nan, highs)


def format_diagnoses(diagnoses: Sequence[Diagnosis], lengths: str) -> str:
    """The table for a person, one line a system and bin; thirds of the sentence are separated by slashes.

    ``lengths`` says what the lengths are of: ``source words``.
    """

    def cells(row: dict[str, Any]) -> list[str]:
        values = {name: "-" if row[name] is None else f"{row[name]:.3f}" for name in MEASURES}
        thirds = ["/".join(values[f"{of}_{part}"] for part in PARTS) for of in BY_THIRD]
        return [row["system"], f"{row['low']}-{row['high']}", f"{row['n']}", *thirds, *(values[name] for name in WHOLE)]

    headings = ["system", lengths, "sentences", "recall", "log-probability", "entropy", "from diagonal"]
    headings += ["stops early", "runs on", "repeats"]
    return aligned([headings, *(cells(row) for each in diagnoses for row in each.rows())])
