"""Significance of the difference between two systems, on the whole test set and in each bin.

There are two tests. The paired bootstrap (Koehn 2004) estimates how much the difference depends on the choice of test
sentences. Approximate randomization (Noreen 1989; Riezler & Maxwell 2005) estimates how often a difference as large
occurs if the translations of the two systems are exchanged at random.

The p-values of the paired bootstrap differ from sacreBLEU's. Let d be the difference on the test set and d* that of a
resample. Both shift the resamples to represent the null hypothesis. Here d* is shifted by its mean before the absolute
value: p = P(|d* - mean d*| >= |d|), which is two-sided and close to uniform for systems of equal quality. sacreBLEU
(``_paired_bs_test``, after Moses) takes the absolute value first: p = P(|d*| - mean |d*| > |d|). For d several standard
errors from 0 that is one tail, half of the two-sided p; for d = 0 it is about 0.42 instead of 1. At a level of 0.05 it
rejects about one in ten pairs of equal systems. The approximate randomization of both agrees except for ties, which
count as extreme here, as in Riezler & Maxwell, and not in sacreBLEU.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from nmt.evaluation.by_length import PERCENTILES, SEED, SystemScores, bins_by_length
from nmt.evaluation.metrics import Floats, Integers, as_statistics, bleu_of_statistics, bootstrap_bleu, sentences_first
from nmt.messages import counted

FEWEST = 10
"""Fewer sentences are too few to resample: there is no p-value."""
BLOCK = 1 << 22
"""Number of random bits drawn at once: 32 MB."""
ROUNDING = 1e-9
"""Tolerance in BLEU: differences that differ only by the order of summation count as equal."""
Swaps = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Comparison:
    """Difference between two systems on the sentences of one bin."""

    system: str
    other: str
    low: int
    """Shortest length in the bin."""
    high: int
    """Longest, included."""
    n: int
    """Sentences."""
    difference: float
    """BLEU of ``system`` minus that of ``other``."""
    p_value: float | None
    """Two-sided, by the paired bootstrap; None with fewer than ``FEWEST`` sentences."""


@dataclass(frozen=True)
class OverallComparison:
    """Difference between two systems on the whole test set."""

    system: str
    other: str
    n: int
    """Sentences."""
    difference: float
    """BLEU of ``system`` minus that of ``other``."""
    low: float
    """Lower end of its 95% interval (percentile bootstrap, paired)."""
    high: float
    p_bootstrap: float | None
    """Two-sided, by the paired bootstrap; None with fewer than ``FEWEST`` sentences."""
    p_randomization: float | None
    """Two-sided, by approximate randomization; None also if the systems have different numbers of seeds."""


# --- the paired bootstrap ---------------------------------------------------------------------------------------------


def p_value(difference: float, resampled: Floats) -> float:
    """Compute the two-sided p: how often a resampled difference is as far from their mean as the real one from zero.

    The mean of the resamples represents the null hypothesis, because resamples vary around the observed difference. One
    is added to both counts, so that p is never zero (Davison & Hinkley 1997, section 4.2).
    """
    extreme = np.abs(resampled - resampled.mean()) >= abs(difference)
    return float((extreme.sum() + 1) / (len(resampled) + 1))


def mean_bleu(systems: Sequence[Integers], resamples: int, seed: int | Sequence[int]) -> tuple[Floats, Floats]:
    """Compute BLEU of each system on the same sentences, (systems,), and of its resamples, (systems, resamples).

    The statistics of a system are (seeds, sentences, STATISTICS). Its BLEU is the mean over the seeds; a resample has
    the same sentences for all seeds.
    """
    every = np.concatenate(systems)
    real, resampled = bleu_of_statistics(every.sum(axis=1)), bootstrap_bleu(every, resamples, seed)
    ends = np.cumsum([len(one) for one in systems])[:-1]
    return (
        np.array([each.mean() for each in np.split(real, ends)]),
        np.array([each.mean(axis=1) for each in np.split(resampled, ends, axis=1)]),
    )


def compare(system: Integers, other: Integers, resamples: int, seed: int | Sequence[int]) -> tuple[float, float | None]:
    """Compute the difference in BLEU of two systems on the same sentences, and its p-value if there are enough.

    The statistics of each are (seeds, sentences, STATISTICS); the BLEU of several seeds is their mean.
    """
    (one, another), resampled = mean_bleu((system, other), resamples, seed)
    if system.shape[1] < FEWEST:
        return float(one - another), None
    return float(one - another), p_value(one - another, resampled[0] - resampled[1])


def compare_by_length(
    systems: Sequence[SystemScores], lengths: Integers, *, bins: Sequence[int], resamples: int
) -> list[Comparison]:
    """Compare each pair of systems in each bin; arguments as in :func:`~nmt.evaluation.by_length.score_system`."""
    groups = bins_by_length(lengths, bins)
    return [
        Comparison(
            one.name,
            other.name,
            each.low,
            each.high,
            len(each.members),
            *compare(one.statistics[:, each.members], other.statistics[:, each.members], resamples, (SEED, number)),
        )
        for one, other in combinations(systems, 2)
        for number, each in groups.items()
    ]


# --- approximate randomization ----------------------------------------------------------------------------------------


def randomization_p_value(system: Integers, other: Integers, trials: int, seed: int | Sequence[int]) -> float:
    """Compute the two-sided p of the difference in BLEU: (c + 1) / (trials + 1), where c trials differ as much or more.

    Arguments as in :func:`exchanged_differences`.
    """
    real = exchanged_differences(system, other, np.zeros((1, system.shape[1]), np.bool_))[0]
    extreme = 0
    for swaps in _coins(system.shape[1], trials, seed):
        extreme += int((np.abs(exchanged_differences(system, other, swaps)) >= abs(real) - ROUNDING).sum())
    return (extreme + 1) / (trials + 1)


def exchanged_differences(system: Integers, other: Integers, swaps: Swaps) -> Floats:
    """Compute the difference in mean BLEU after exchanging the two systems' translations of some sentences, (trials,).

    A sentence is exchanged for all seeds at once: its translation by the k-th seed of one system and that by the k-th
    seed of the other. The seeds of a system translate the same sentences, so that their translations are not
    independent: exchanging each seed by itself would make p too small.

    The statistics of both are (seeds, sentences, STATISTICS), and ``swaps`` are (trials, sentences).
    """
    _, moved = sentences_first(other - system)
    change = as_statistics(swaps.astype(np.float64) @ moved, system)
    one, another = system.sum(axis=1) + change, other.sum(axis=1) - change
    return np.asarray((bleu_of_statistics(one) - bleu_of_statistics(another)).mean(axis=1))


def _coins(sentences: int, trials: int, seed: int | Sequence[int]) -> Iterator[Swaps]:
    """Choose each sentence with probability 1/2 in each trial, in blocks of (some trials, sentences)."""
    generator = np.random.default_rng(seed)
    rows = max(1, BLOCK // sentences)
    for start in counted(range(0, trials, rows), "approximate randomization", -(-trials // rows), "blocks"):
        yield generator.integers(2, size=(min(rows, trials - start), sentences), dtype=np.bool_)


# --- the whole test set -----------------------------------------------------------------------------------------------


def compare_overall(systems: Sequence[SystemScores], *, resamples: int) -> list[OverallComparison]:
    """Compare each pair of systems on the whole test set; ``resamples`` is also the number of randomization trials."""
    if len(systems) < 2:
        return []
    real, resampled = mean_bleu([each.statistics for each in systems], resamples, SEED)
    comparisons = []
    for i, j in combinations(range(len(systems)), 2):
        one, another = systems[i].statistics, systems[j].statistics
        difference, spread = float(real[i] - real[j]), resampled[i] - resampled[j]
        low, high = map(float, np.percentile(spread, PERCENTILES))
        bootstrap = randomization = None
        if one.shape[1] >= FEWEST:
            bootstrap = p_value(difference, spread)
            if len(one) == len(another):
                randomization = randomization_p_value(one, another, resamples, SEED)
        names = systems[i].name, systems[j].name
        comparisons.append(OverallComparison(*names, one.shape[1], difference, low, high, bootstrap, randomization))
    return comparisons


# --- as text ----------------------------------------------------------------------------------------------------------


def format_p(p: float | None) -> str:
    """Format a p-value, which may be missing."""
    return "no p-value" if p is None else f"p = {p:.3f}"


def format_overall(comparisons: Sequence[OverallComparison]) -> str:
    """Format one line for each pair of systems."""
    return "\n".join(
        f"{each.system} - {each.other}: {each.difference:+.2f} BLEU [{each.low:+.2f}, {each.high:+.2f}], "
        f"paired bootstrap {format_p(each.p_bootstrap)}, approximate randomization {format_p(each.p_randomization)}"
        for each in comparisons
    )


def format_comparisons(comparisons: Sequence[Comparison]) -> str:
    """Format one line for each pair of systems and bin."""
    return "\n".join(
        f"{each.system} - {each.other}  {each.low}-{each.high}: {each.difference:+.2f} BLEU"
        + (", too few for a p-value" if each.p_value is None else f", p = {each.p_value:.3f}")
        for each in comparisons
    )
