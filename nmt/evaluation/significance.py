"""Whether two systems differ by more than chance, on the whole test set and bin by bin.

Two tests. The paired bootstrap (Koehn 2004) asks how much the difference depends on the sentences that happen to be in
the test set. Approximate randomization (Noreen 1989; Riezler & Maxwell 2005) asks how often a difference as large would
come if it did not matter which of the two systems translated a sentence.

The p-values of the paired bootstrap are not sacreBLEU's. With d the difference on the test set and d* that of a
resample, both shift the resamples so that they stand for "no difference". Here d* is shifted by its mean, and then made
absolute: p = P(|d* - mean d*| >= |d|), which is two-sided and near uniform for systems of equal quality. sacreBLEU
(``_paired_bs_test``, after Moses) makes d* absolute first: p = P(|d*| - mean |d*| > |d|). For d several standard errors
from 0 that is the tail on one side, half of the two-sided p; for d = 0 it is about 0.42 instead of 1. At a level of
0.05 it finds about one in ten pairs of equal systems to differ. In approximate randomization the two agree, but for
ties: they count as extreme here, as in Riezler & Maxwell, and not there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.evaluation.by_length import PERCENTILES, SEED, SystemScores, bins_by_length
from nmt.evaluation.metrics import (
    Floats,
    Integers,
    as_statistics,
    bleu_of_statistics,
    bootstrap_bleu,
    sentences_first,
)

FEWEST = 10
"""With fewer sentences resampling says nothing: there is no p-value."""
BLOCK = 1 << 22
"""Coins tossed at once: 32 MB."""
ROUNDING = 1e-9
"""In BLEU: differences that are equal but for the order of summation count as equal."""
Swaps = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Comparison:
    """Two systems on the sentences of one bin."""

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
    """How often a difference as large, of either sign, would come if there were none; None for fewer sentences than
    ``FEWEST``."""

    def as_dict(self) -> dict[str, Any]:
        """Column to value."""
        return asdict(self)


@dataclass(frozen=True)
class OverallComparison:
    """Two systems on the whole test set."""

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
    """Two-sided, by the paired bootstrap; None for fewer sentences than ``FEWEST``."""
    p_randomization: float | None
    """Two-sided, by approximate randomization; None also if one system has more trainings than the other."""

    def as_dict(self) -> dict[str, Any]:
        """Column to value."""
        return asdict(self)


# --- the paired bootstrap ---------------------------------------------------------------------------------------------


def p_value(difference: float, resampled: Floats) -> float:
    """Two-sided: how often the resampled differences lie as far from their own mean as the real one lies from zero.

    The mean of the resamples stands for "no difference": resampling moves around what was found. One is added to both
    counts, so that p is never zero (Davison & Hinkley 1997, section 4.2).
    """
    extreme = np.abs(resampled - resampled.mean()) >= abs(difference)
    return float((extreme.sum() + 1) / (len(resampled) + 1))


def mean_bleu(systems: Sequence[Integers], resamples: int, seed: int | Sequence[int]) -> tuple[Floats, Floats]:
    """BLEU of each system on the same sentences, (systems,), and of its resamples, (systems, resamples).

    Statistics of each are (trainings, sentences, STATISTICS). BLEU is the mean over the trainings, which all draw the
    same sentences.
    """
    every = np.concatenate(systems)
    real, resampled = bleu_of_statistics(every.sum(axis=1)), bootstrap_bleu(every, resamples, seed)
    ends = np.cumsum([len(one) for one in systems])[:-1]
    return (
        np.array([each.mean() for each in np.split(real, ends)]),
        np.array([each.mean(axis=1) for each in np.split(resampled, ends, axis=1)]),
    )


def compare(system: Integers, other: Integers, resamples: int, seed: int | Sequence[int]) -> tuple[float, float | None]:
    """The difference in BLEU of two systems on the same sentences, and its p-value, if they are not too few.

    Statistics of each are (trainings, sentences, STATISTICS); of several trainings the mean BLEU counts.
    """
    (one, another), resampled = mean_bleu((system, other), resamples, seed)
    if system.shape[1] < FEWEST:
        return float(one - another), None
    return float(one - another), p_value(one - another, resampled[0] - resampled[1])


def compare_by_length(
    systems: Sequence[SystemScores], lengths: Integers, *, bins: Sequence[int], resamples: int
) -> list[Comparison]:
    """Every two systems in every bin, in the order in which the systems are given.

    Args:
        systems: scored on the same sentences.
        lengths: of the sentences, (sentences,).
        bins: the largest length of each bin, ascending; longer sentences form one more.
        resamples: of the bootstrap.
    """
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
    """Two-sided p of the difference in BLEU: (c + 1) / (trials + 1), c being the trials whose difference is as large.

    Arguments as in :func:`exchanged_differences`.
    """
    real = exchanged_differences(system, other, np.zeros((1, system.shape[1]), np.bool_))[0]
    extreme = 0
    for swaps in _coins(system.shape[1], trials, seed):
        extreme += int((np.abs(exchanged_differences(system, other, swaps)) >= abs(real) - ROUNDING).sum())
    return (extreme + 1) / (trials + 1)


def exchanged_differences(system: Integers, other: Integers, swaps: Swaps) -> Floats:
    """The difference in mean BLEU after exchanging the two systems' translations of some sentences, (trials,).

    A sentence is exchanged as a whole: its translation by the k-th training of one system with that by the k-th
    training of the other, for all k at once. The trainings of a system translate the same sentences, so that their
    translations are not independent: a coin for each training would make p too small.

    Args:
        system: statistics, (trainings, sentences, STATISTICS).
        other: likewise, with as many trainings.
        swaps: which sentences are exchanged, (trials, sentences).
    """
    _, moved = sentences_first(other - system)
    change = as_statistics(swaps.astype(np.float64) @ moved, system)
    one, another = system.sum(axis=1) + change, other.sum(axis=1) - change
    return np.asarray((bleu_of_statistics(one) - bleu_of_statistics(another)).mean(axis=1))


def _coins(sentences: int, trials: int, seed: int | Sequence[int]) -> Iterator[Swaps]:
    """Each sentence with probability 1/2 in each of ``trials``, in blocks of (some trials, sentences)."""
    generator = np.random.default_rng(seed)
    rows = max(1, BLOCK // sentences)
    for start in range(0, trials, rows):
        yield generator.integers(2, size=(min(rows, trials - start), sentences), dtype=np.bool_)


# --- the whole test set -----------------------------------------------------------------------------------------------


def compare_overall(systems: Sequence[SystemScores], *, resamples: int) -> list[OverallComparison]:
    """Every two systems on the whole test set, in the order in which they are given; ``resamples`` are trials, too."""
    real, resampled = mean_bleu([each.statistics for each in systems], resamples, SEED)
    return [
        _overall(systems[i], systems[j], float(real[i] - real[j]), resampled[i] - resampled[j])
        for i, j in combinations(range(len(systems)), 2)
    ]


def _overall(system: SystemScores, other: SystemScores, difference: float, resampled: Floats) -> OverallComparison:
    one, another = system.statistics, other.statistics
    sentences = one.shape[1]
    low, high = (float(value) for value in np.percentile(resampled, PERCENTILES))
    bootstrap = randomization = None
    if sentences >= FEWEST:
        bootstrap = p_value(difference, resampled)
        if len(one) == len(another):
            randomization = randomization_p_value(one, another, len(resampled), SEED)
    return OverallComparison(system.name, other.name, sentences, difference, low, high, bootstrap, randomization)


# --- for a person -----------------------------------------------------------------------------------------------------


def format_p(p: float | None) -> str:
    """A p-value, or that there is none."""
    return "no p-value" if p is None else f"p = {p:.3f}"


def format_overall(comparisons: Sequence[OverallComparison]) -> str:
    """A line for each two systems."""
    return "\n".join(
        f"{each.system} - {each.other}: {each.difference:+.2f} BLEU [{each.low:+.2f}, {each.high:+.2f}], "
        f"paired bootstrap {format_p(each.p_bootstrap)}, approximate randomization {format_p(each.p_randomization)}"
        for each in comparisons
    )


def format_comparisons(comparisons: Sequence[Comparison]) -> str:
    """A line for each two systems and bin."""
    return "\n".join(
        f"{each.system} - {each.other}  {each.low}-{each.high}: {each.difference:+.2f} BLEU"
        + (", too few for a p-value" if each.p_value is None else f", p = {each.p_value:.3f}")
        for each in comparisons
    )
