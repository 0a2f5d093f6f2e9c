"""Comparison of systems by the paired bootstrap (Koehn 2004): on the whole test set, by length, and in retained
BLEU: on long sentences, divided by that on short ones.

The null hypothesis is represented by resamples that are shifted by their mean, because they vary around the observed
difference: p = P(|d* - mean d*| >= |d|), which is two-sided and close to uniform for systems of equal quality.
sacreBLEU (after Moses) takes the absolute value before it shifts, p = P(|d*| - mean |d*| > |d|): for d several standard
errors from 0 that is one tail, half of the two-sided p. At a level of 0.05 it rejects about one in ten pairs of equal
systems.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, compress

import numpy as np

from nmt.errors import ConfigError
from nmt.evaluation.by_length import MIN_SENTENCES, SEED, Scoring, SystemScores, interval, mean_bleu
from nmt.evaluation.metrics import Floats, Integers, has_bleu
from nmt.evaluation.writing import Unit

FEWEST = 10
"""Fewer sentences are too few to resample: there is no p-value."""
LEAST_SHORT = 10.0
"""A system with a smaller BLEU on short sentences has learned too little for a share of it to mean anything."""
Range = tuple[int, int]
"""Shortest and longest length, both included."""


@dataclass(frozen=True)
class Comparison:
    """The difference between two systems on the same sentences."""

    system: str
    other: str
    n: int
    difference: float
    """The value of ``system`` minus that of ``other``."""
    low: float
    """Lower end of its 95% interval (percentile bootstrap, paired)."""
    high: float
    p_value: float | None
    """Two-sided, by the paired bootstrap; None with fewer than ``FEWEST`` sentences."""
    lengths: Range | None = None
    """Those of the bin; None for the whole test set."""


def compare(
    names: Sequence[str], n: int, real: Floats, resampled: Floats, lengths: Range | None = None
) -> list[Comparison]:
    """Compare each pair of systems, given their values (systems,) on ``n`` sentences and on the resamples of these
    sentences, (systems, resamples)."""
    found = []
    for i, j in combinations(range(len(names)), 2):
        difference, spread = float(real[i] - real[j]), resampled[i] - resampled[j]
        p = p_value(difference, spread) if n >= FEWEST else None
        found.append(Comparison(names[i], names[j], n, difference, *interval(spread), p, lengths))
    return found


def p_value(difference: float, resampled: Floats) -> float:
    """Compute the two-sided p: how often a resampled difference is as far from their mean as the real one from zero.

    One is added to both counts, so that p is never zero (Davison & Hinkley 1997, section 4.2).
    """
    extreme = np.abs(resampled - resampled.mean()) >= abs(difference)
    return float((extreme.sum() + 1) / (len(resampled) + 1))


def compare_overall(systems: Sequence[SystemScores], *, resamples: int) -> list[Comparison]:
    """Compare the BLEU of each pair of systems on the whole test set."""
    if len(systems) < 2:
        return []
    scores = mean_bleu([each.statistics for each in systems], resamples, SEED)
    return compare([each.name for each in systems], systems[0].statistics.shape[1], *scores)


def compare_by_length(systems: Sequence[SystemScores], scoring: Scoring) -> list[Comparison]:
    """Compare the BLEU of each pair of systems in each bin that has any."""
    if len(systems) < 2:
        return []
    names, found = [each.name for each in systems], list[Comparison]()
    for number, each in scoring.bins.items():
        inside = [one.statistics[:, each.members] for one in systems]
        if has_bleu(inside[0]):
            scores = mean_bleu(inside, scoring.resamples, (SEED, number))
            found += compare(names, len(each.members), *scores, (each.low, each.high))
    return sorted(found, key=lambda each: (names.index(each.system), names.index(each.other)))


def format_comparisons(comparisons: Sequence[Comparison]) -> str:
    """Format one line for each comparison of BLEU."""
    lines = []
    for each in comparisons:
        place = "" if each.lengths is None else f"  {each.lengths[0]}-{each.lengths[1]}"
        shown = f"{each.difference:+.2f} BLEU [{each.low:+.2f}, {each.high:+.2f}]"
        lines.append(f"{each.system} - {each.other}{place}: {shown}, {format_p(each.p_value)}")
    return "\n".join(lines)


def format_p(p: float | None) -> str:
    """Format a p-value, which may be missing."""
    return "too few sentences for a p-value" if p is None else f"p = {p:.3f}"


# --- retained BLEU: on long sentences, divided by that on short ones --------------------------------------------------


@dataclass(frozen=True)
class Share:
    """BLEU of one system at long lengths over its BLEU at short ones."""

    share: float
    low: float
    """Lower end of the 95% interval (percentile bootstrap, short and long sentences resampled separately)."""
    high: float


@dataclass(frozen=True)
class Retention:
    """The shares of the systems that have one, and a comparison of each pair."""

    short: Range
    long: Range
    n_short: int
    n_long: int
    shares: dict[str, Share]
    comparisons: tuple[Comparison, ...]


def ranges(scoring: Scoring, short: Range | None = None, long: Range | None = None) -> tuple[Range, Range] | None:
    """Choose short and long lengths: those given, otherwise the shortest and longest bin of ``MIN_SENTENCES`` that has
    a BLEU.

    Returns None if there is none to choose. Raises ConfigError if a given range has no sentence or if they overlap.
    """
    large = [each for each in scoring.bins.values() if len(each.members) >= MIN_SENTENCES]
    filled = [(each.low, each.high) for each in large if scoring.defines(each)]
    for option, chosen in (("short", short), ("long", long)):
        if chosen is not None and chosen[0] > chosen[1]:
            raise ConfigError(f"{option} {chosen[0]}-{chosen[1]}: the smaller length comes first")
        if chosen is not None and not members(scoring, chosen).size:
            found = f"no sentence has this length; the longest has {scoring.lengths.max()}"
            raise ConfigError(f"{option} {chosen[0]}-{chosen[1]}: {found}")
    short, long = short or next(iter(filled), None), long or next(reversed(filled), None)
    if short is None or long is None or (short == long and len(filled) == 1):
        return None
    if short[1] >= long[0]:
        found = f"short {short[0]}-{short[1]} and long {long[0]}-{long[1]}"
        raise ConfigError(f"{found}: every short length must be below every long one")
    return short, long


def members(scoring: Scoring, lengths: Range) -> Integers:
    """Return the indices of the sentences with these lengths."""
    return np.flatnonzero((scoring.lengths >= lengths[0]) & (scoring.lengths <= lengths[1]))


def retention(systems: Sequence[SystemScores], scoring: Scoring, short: Range, long: Range) -> Retention | None:
    """Compute BLEU at ``long`` lengths divided by BLEU at ``short`` ones, for each system that has at least LEAST_SHORT
    there; None if no system has. At least one sentence is short and one long."""
    sides = [members(scoring, each) for each in (short, long)]
    (at_short, short_resampled), (at_long, long_resampled) = (
        mean_bleu([each.statistics[:, side] for each in systems], scoring.resamples, (SEED, 0, number))
        for number, side in enumerate(sides)
    )
    good = at_short >= LEAST_SHORT
    if not good.any():
        return None
    names, (n_short, n_long) = [each.name for each in compress(systems, good)], map(len, sides)
    short_resampled, long_resampled = short_resampled[good], long_resampled[good]
    defined = short_resampled.all(axis=0)  # few short sentences may have resamples without BLEU
    shares, resampled = at_long[good] / at_short[good], long_resampled[:, defined] / short_resampled[:, defined]
    rows = zip(names, shares, resampled, strict=True)
    by_name = {name: Share(float(share), *interval(each)) for name, share, each in rows}
    comparisons = tuple(compare(names, min(n_short, n_long), shares, resampled))
    return Retention(short, long, n_short, n_long, by_name, comparisons)


def format_retention(result: Retention, unit: Unit) -> str:
    """Format the shares and their comparisons as text; ``unit`` is that of the source."""
    short, long = (f"{low}-{high}" for low, high in (result.short, result.long))
    above = f"BLEU at {long} source {unit} ({result.n_long:,} sentences)"
    below = f"BLEU at {short} ({result.n_short:,}), which must be at least {LEAST_SHORT:g}"
    lines = [f"retained BLEU: {above} divided by {below}"]
    lines += [f"{name}: {each.share:.1%} [{each.low:.1%}, {each.high:.1%}]" for name, each in result.shares.items()]
    for row in result.comparisons:
        difference, low, high = (f"{100 * value:+.1f}" for value in (row.difference, row.low, row.high))
        lines.append(f"{row.system} - {row.other}: {difference} points [{low}, {high}], {format_p(row.p_value)}")
    return "\n".join(lines)
