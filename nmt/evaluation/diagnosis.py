"""Measures that explain why translations of long sentences are worse: diffuse attention, improbable references, content
words missing from one part of the sentence, output that stops early, repeats itself or runs on.

Each measure describes one sentence; :func:`diagnose` averages them by length. S source pieces, T target pieces.
"""

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nmt.evaluation.alignment import Weights
from nmt.evaluation.by_length import PERCENTILES, SEED, Bin
from nmt.evaluation.metrics import Floats, Integers, draws
from nmt.evaluation.writing import Unit, units
from nmt.messages import aligned

THIRDS = 3
"""Parts of a sentence: early, middle, late."""
SHORT, LONG = 0.5, 1.5
"""Hypothesis length over reference length: a hypothesis below SHORT stops early, one above LONG runs on."""
FUNCTION_WORDS = 100
"""Number of most frequent words that count as function words."""
REPEATED = 3
"""A hypothesis repeats itself if it has the same four words this often and the reference does not."""


def entropy(attention: Weights) -> float:
    """Average -sum_j alpha_j log2 alpha_j over target pieces, in bits: 0 for one-hot attention, log2 S for uniform."""
    safe = np.where(attention > 0, attention, 1.0)
    return float((attention * -np.log2(safe)).sum(axis=1).mean())


def distance_from_diagonal(attention: Weights) -> float:
    """Average over target pieces the distance of the attention's mean position from the diagonal, as a share of the
    source length: 0 for attention along the diagonal, a quarter for uniform attention."""
    targets, sources = attention.shape
    positions = (attention * (np.arange(sources) + 0.5)).sum(axis=1) / np.maximum(attention.sum(axis=1), 1e-9) / sources
    return float(np.abs(positions - (np.arange(targets) + 0.5) / targets).mean())


def by_third(values: Sequence[float] | Weights) -> Floats:
    """Average the values that are not NaN in the first, second and last third of a sentence, (3,); NaN for an empty
    third. Value k of n belongs to the third that contains (k + 1/2) / n."""
    array, count = np.asarray(values, np.float64), len(values)
    thirds = (2 * np.arange(count) + 1) * THIRDS // (2 * max(count, 1))
    parts = (array[(thirds == k) & ~np.isnan(array)] for k in range(THIRDS))
    return np.array([part.mean() if part.size else np.nan for part in parts])


def recall_by_third(
    hypothesis: str, reference: str, function_words: Set[str] = frozenset(), unit: Unit = "words"
) -> Floats:
    """Compute the recall of content words in each third of the reference, (3,); NaN for a third without content words.

    Function words do not count. If a word occurs r times in the reference and h times in the hypothesis, the recall of
    each occurrence is min(1, h / r), because it is unknown which of them was translated.
    """
    words, there = _words(reference, unit), Counter(_words(hypothesis, unit))
    wanted = Counter(words)
    return by_third([np.nan if word in function_words else min(1.0, there[word] / wanted[word]) for word in words])


def most_frequent(references: Sequence[str], count: int = FUNCTION_WORDS, unit: Unit = "words") -> frozenset[str]:
    """Return the most frequent words of a text, an approximation of its function words."""
    words = Counter(word for line in references for word in _words(line, unit))
    return frozenset(word for word, _ in words.most_common(count))


def _words(line: str, unit: Unit) -> list[str]:
    """Split into lowercased words, or into letters and digits if the unit is characters."""
    return re.findall(r"\w+" if unit == "words" else r"\w", line.lower())


class Failure(NamedTuple):
    """Defects of a hypothesis that are visible in its form."""

    stops_early: bool
    runs_on: bool
    repeats: bool


def failure(hypothesis: str, reference: str, unit: Unit = "words") -> Failure:
    """Detect failures from the lengths and from repeated 4-grams, in words or characters."""
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
MEASURES = (*(f"{measure}_{part}" for measure in BY_THIRD for part in PARTS), *WHOLE)
"""The columns of :func:`sentence_measures`."""


def sentence_measures(
    log_probabilities: Weights,
    attention: Weights | None,
    hypothesis: str,
    reference: str,
    function_words: Set[str],
    unit: Unit = "words",
) -> Floats:
    """Compute all measures of one sentence, (MEASURES,); NaN for undefined ones, as without attention.

    Log-probabilities (T - 1,), in nats and without the end symbol, and attention (T, S) are those of the reference,
    from forced decoding. The hypothesis is the system's own translation; ``unit`` is that of the target language.
    """
    focus = (np.nan, np.nan) if attention is None else (entropy(attention), distance_from_diagonal(attention))
    recall = recall_by_third(hypothesis, reference, function_words, unit)
    failed = map(float, failure(hypothesis, reference, unit))
    return np.array([*recall, *by_third(log_probabilities), *focus, *failed])


@dataclass(frozen=True)
class Diagnosis:
    """Measures of one system by source length: means and the ends of their 95% intervals, each (bins, MEASURES)."""

    system: str
    bins: tuple[Bin, ...]
    means: Floats
    lows: Floats
    highs: Floats

    def has(self, measure: str) -> bool:
        """Whether the measure is defined in any bin."""
        return not np.isnan(self.means[:, MEASURES.index(measure)]).all()

    def rows(self, *, intervals: bool = False) -> list[dict[str, Any]]:
        """Return a row for each bin, from column to value; None for an undefined measure."""
        rows = []
        for (low, high, members), *values in zip(self.bins, self.means, self.lows, self.highs, strict=True):
            row: dict[str, Any] = {"system": self.system, "low": low, "high": high, "n": len(members)}
            for name, (mean, *ends) in zip(MEASURES, np.transpose(values).tolist(), strict=True):
                row[name] = None if np.isnan(mean) else mean
                if intervals and not np.isnan(ends[0]):
                    row[f"{name}_interval"] = ends
            rows.append(row)
        return rows


def diagnose(system: str, bins: Mapping[int, Bin], seeds: Sequence[Floats], resamples: int) -> Diagnosis:
    """Average the measures in each bin, and over the seeds of the system, each (sentences, MEASURES)."""
    sentences = np.mean(seeds, axis=0)
    means, ends = [], []
    for number, each in bins.items():
        size = len(each.members)
        weights = [np.ones(size, np.int64), *draws(size, resamples, (SEED, number))]
        mean, *resampled = weighted_means(sentences[each.members], weights)
        means.append(mean)
        with warnings.catch_warnings(action="ignore"):  # of a measure that no resample has
            ends.append(np.nanpercentile(resampled, PERCENTILES, axis=0))
    lows, highs = np.stack(ends, axis=1)
    return Diagnosis(system, tuple(bins.values()), np.array(means), lows, highs)


def weighted_means(values: Floats, weights: Iterable[Integers]) -> Floats:
    """Average over the sentences without NaN, (sentences, MEASURES), with each of several weights, how often each
    sentence counts: (weights, MEASURES). An average of nothing is NaN."""
    valid = ~np.isnan(values)
    filled = np.where(valid, values, 0.0)
    sums, counts = zip(*((each @ filled, each @ valid) for each in weights), strict=True)
    total, count = np.stack(sums), np.stack(counts)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def format_diagnoses(diagnoses: Sequence[Diagnosis], unit: Unit) -> str:
    """Format the table as text; ``unit`` is that of the source, and slashes separate the thirds of a sentence."""

    def cells(row: dict[str, Any]) -> list[str]:
        values = {name: "-" if row[name] is None else f"{row[name]:.3f}" for name in MEASURES}
        thirds = ["/".join(values[f"{measure}_{part}"] for part in PARTS) for measure in BY_THIRD]
        return [row["system"], f"{row['low']}-{row['high']}", f"{row['n']}", *thirds, *(values[name] for name in WHOLE)]

    headings = ["system", f"source {unit}", "sentences", "recall", "log-probability", "entropy (bits)", "from diagonal"]
    headings += ["stops early", "runs on", "repeats"]
    return aligned([headings, *(cells(row) for each in diagnoses for row in each.rows())])
