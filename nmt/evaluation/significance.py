"""Whether two systems differ by more than chance, bin by bin: the paired bootstrap (Koehn 2004)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from nmt.evaluation.by_length import SEED, SystemScores, bins_by_length
from nmt.evaluation.metrics import Floats, Integers, bleu_of_statistics, bootstrap_bleu

FEWEST = 10
"""Of fewer sentences resampling says nothing: there is no p-value."""


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


def p_value(difference: float, resampled: Floats) -> float:
    """Two-sided: how often the resampled differences lie as far from their own mean as the real one lies from zero.

    The mean of the resamples stands for "no difference": resampling moves around what was found. One is added to both
    counts, so that p is never zero (Davison & Hinkley 1997, section 4.2).
    """
    extreme = np.abs(resampled - resampled.mean()) >= abs(difference)
    return float((extreme.sum() + 1) / (len(resampled) + 1))


def compare(system: Integers, other: Integers, resamples: int, seed: int | Sequence[int]) -> tuple[float, float | None]:
    """The difference in BLEU of two systems on the same sentences, and its p-value, if they are not too few.

    Statistics of each are (trainings, sentences, STATISTICS); of several trainings the mean BLEU counts.
    """

    def mean_bleu(statistics: Integers) -> tuple[float, Floats]:
        resampled = [bootstrap_bleu(one, resamples, seed) for one in statistics]  # all draw the same sentences
        return float(bleu_of_statistics(statistics.sum(axis=1)).mean()), np.mean(resampled, axis=0)

    (one, resampled), (another, others_resampled) = mean_bleu(system), mean_bleu(other)
    if system.shape[1] < FEWEST:
        return one - another, None
    return one - another, p_value(one - another, resampled - others_resampled)


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


def format_comparisons(comparisons: Sequence[Comparison]) -> str:
    """A line for each two systems and bin, for a person."""
    return "\n".join(
        f"{each.system} - {each.other}  {each.low}-{each.high}: {each.difference:+.2f} BLEU"
        + (", too few for a p-value" if each.p_value is None else f", p = {each.p_value:.3f}")
        for each in comparisons
    )
