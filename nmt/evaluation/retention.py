"""The share of BLEU that a system retains on long sentences: BLEU at long lengths over BLEU at short ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from nmt.errors import ConfigError
from nmt.evaluation.by_length import PERCENTILES, SEED, SystemScores, bins_by_length
from nmt.evaluation.metrics import Floats, Integers
from nmt.evaluation.significance import FEWEST, format_p, mean_bleu, p_value

Range = tuple[int, int]
"""Shortest and longest length, both included."""


@dataclass(frozen=True)
class Share:
    """The share of BLEU that one system retains."""

    share: float | None
    """BLEU at long lengths over BLEU at short ones; None if BLEU at short ones is 0."""
    low: float | None
    """Lower end of the 95% interval (percentile bootstrap, short and long sentences resampled separately)."""
    high: float | None


@dataclass(frozen=True)
class ShareComparison:
    """The difference between the shares of two systems."""

    system: str
    other: str
    difference: float | None
    """Share of ``system`` minus that of ``other``."""
    low: float | None
    """Lower end of its 95% interval; each resample has the same sentences for both systems."""
    high: float | None
    p_value: float | None
    """Two-sided, by the paired bootstrap; None with fewer than ``FEWEST`` short or long sentences."""


@dataclass(frozen=True)
class Retention:
    """The shares of all systems, and a comparison of each pair."""

    short: Range
    long: Range
    n_short: int
    """Number of short sentences."""
    n_long: int
    """Number of long sentences."""
    shares: dict[str, Share]
    comparisons: tuple[ShareComparison, ...]


def ranges(
    lengths: Integers, bins: Sequence[int], least: int, short: Range | None = None, long: Range | None = None
) -> tuple[Range, Range] | None:
    """Choose short and long lengths: those given, otherwise the shortest and longest bin with ``least`` sentences.

    Returns None if neither is given and fewer than two bins qualify. Raises ConfigError if a range has no sentence, if
    the ranges overlap, or if only one of them is given and no bin can serve as the other.
    """
    filled = [(each.low, each.high) for each in bins_by_length(lengths, bins).values() if len(each.members) >= least]
    if short is None and long is None and len(filled) < 2:
        return None
    for option, chosen in (("short", short), ("long", long)):
        if chosen is None and not filled:
            raise ConfigError(f"--{option}: is missing, and no bin has {least} sentences to replace it")
        if chosen is not None and not members(lengths, chosen).size:
            raise ConfigError(f"--{option} {chosen[0]}-{chosen[1]}: no sentence has this length")
    short, long = short or filled[0], long or filled[-1]
    if short[1] >= long[0]:
        raise ConfigError(
            f"--short {short[0]}-{short[1]} and --long {long[0]}-{long[1]}: "
            "every short length must be below every long one"
        )
    return short, long


def members(lengths: Integers, of: Range) -> Integers:
    """Return the indices of the sentences with these lengths."""
    return np.flatnonzero((lengths >= of[0]) & (lengths <= of[1]))


def retention(
    systems: Sequence[SystemScores], lengths: Integers, short: Range, long: Range, *, resamples: int
) -> Retention:
    """Compute the share of BLEU at ``short`` lengths that each system retains at ``long`` ones.

    The systems are scored on the same sentences, at least one of them short and one long; ``lengths`` is (sentences,).
    The BLEU of a system with several seeds is their mean.
    """
    sides = [members(lengths, each) for each in (short, long)]
    scores, resampled = zip(
        *(
            mean_bleu([each.statistics[:, side] for each in systems], resamples, (SEED, 0, number))
            for number, side in enumerate(sides)
        ),
        strict=True,
    )
    shares, drawn = (_ratio(by_side[1], by_side[0]) for by_side in (scores, resampled))
    enough = min(map(len, sides)) >= FEWEST
    comparisons = []
    for i, j in combinations(range(len(systems)), 2):
        difference, spread = shares[i] - shares[j], drawn[i] - drawn[j]
        finite = np.isfinite(spread)
        tested = enough and bool(np.isfinite(difference)) and bool(finite.any())
        p = p_value(float(difference), spread[finite]) if tested else None
        comparisons.append(ShareComparison(systems[i].name, systems[j].name, *_interval(difference, spread), p))
    return Retention(
        short,
        long,
        len(sides[0]),
        len(sides[1]),
        {each.name: Share(*_interval(shares[k], drawn[k])) for k, each in enumerate(systems)},
        tuple(comparisons),
    )


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Divide; NaN where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.full_like(numerator, np.nan), where=denominator > 0)


def _interval(value: float, resampled: Floats) -> tuple[float | None, float | None, float | None]:
    """Return the value and its 95% interval, from the resamples that have a value."""
    finite = resampled[np.isfinite(resampled)]
    if not np.isfinite(value) or not finite.size:
        return None, None, None
    low, high = np.percentile(finite, PERCENTILES)
    return float(value), float(low), float(high)


def format_retention(result: Retention, lengths: str) -> str:
    """Format the shares and their comparisons as text; ``lengths`` names the unit of length: ``source words``."""
    short, long = (f"{low}-{high}" for low, high in (result.short, result.long))
    lines = [
        f"share of BLEU retained: BLEU at {long} {lengths} ({result.n_long:,} sentences) "
        f"over BLEU at {short} ({result.n_short:,})"
    ]
    for name, each in result.shares.items():
        lines.append(f"{name}: {_percent(each.share)} [{_percent(each.low)}, {_percent(each.high)}]")
    for row in result.comparisons:
        lines.append(
            f"{row.system} - {row.other}: {_points(row.difference)} points [{_points(row.low)}, {_points(row.high)}], "
            f"{format_p(row.p_value)}"
        )
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share:.1%}"


def _points(difference: float | None) -> str:
    return "undefined" if difference is None else f"{100 * difference:+.1f}"
