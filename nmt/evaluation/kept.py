"""How much of its BLEU a system keeps when sentences get long: BLEU at long lengths over BLEU at short ones."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from nmt.errors import ConfigError
from nmt.evaluation.by_length import PERCENTILES, SEED, SystemScores, bins_by_length
from nmt.evaluation.metrics import Floats, Integers
from nmt.evaluation.significance import FEWEST, format_p, mean_bleu, p_value

Range = tuple[int, int]
"""The shortest and the longest length, both included."""


@dataclass(frozen=True)
class Share:
    """The share of its BLEU that one system keeps."""

    share: float | None
    """BLEU at long lengths over BLEU at short ones; None if the latter is 0."""
    low: float | None
    """Lower end of the 95% interval (percentile bootstrap, short and long sentences resampled separately)."""
    high: float | None


@dataclass(frozen=True)
class ShareComparison:
    """The shares of two systems."""

    system: str
    other: str
    difference: float | None
    """Share of ``system`` minus that of ``other``."""
    low: float | None
    """Lower end of its 95% interval; both systems have the same sentences in a resample."""
    high: float | None
    p_value: float | None
    """Two-sided, by the paired bootstrap; None for fewer than ``FEWEST`` sentences on either side."""


@dataclass(frozen=True)
class Kept:
    """The shares of all systems, and every two of them compared."""

    short: Range
    long: Range
    n_short: int
    """Sentences of these lengths."""
    n_long: int
    shares: dict[str, Share]
    comparisons: tuple[ShareComparison, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def ranges(
    lengths: Integers, bins: Sequence[int], least: int, short: Range | None = None, long: Range | None = None
) -> tuple[Range, Range] | None:
    """The short and the long lengths: those given, else the shortest and the longest bin of ``least`` sentences.

    None if nothing is given and there are no two such bins. Raises ConfigError for lengths that no sentence has, that
    overlap, or of which only one can be told.
    """
    filled = [(each.low, each.high) for each in bins_by_length(lengths, bins).values() if len(each.members) >= least]
    if short is None and long is None and len(filled) < 2:
        return None
    for option, chosen in (("short", short), ("long", long)):
        if chosen is None and not filled:
            raise ConfigError(f"--{option}: is not given, and no bin has {least} sentences to take its place")
        if chosen is not None and not members(lengths, chosen).size:
            raise ConfigError(f"--{option} {chosen[0]}-{chosen[1]}: no sentence has such a length")
    short, long = short or filled[0], long or filled[-1]
    if short[1] >= long[0]:
        raise ConfigError(
            f"--short {short[0]}-{short[1]} and --long {long[0]}-{long[1]}: "
            "all short lengths must be below all long ones"
        )
    return short, long


def members(lengths: Integers, of: Range) -> Integers:
    """The sentences that have these lengths."""
    return np.flatnonzero((lengths >= of[0]) & (lengths <= of[1]))


def kept(systems: Sequence[SystemScores], lengths: Integers, short: Range, long: Range, *, resamples: int) -> Kept:
    """The share of its BLEU at ``short`` lengths that each system keeps at ``long`` ones; seeds: of the mean BLEU.

    Args:
        systems: scored on the same sentences.
        lengths: of the sentences, (sentences,).
        short: at least one sentence has such a length; ``long`` likewise.
        long: see ``short``.
        resamples: of the bootstrap.
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
        found = np.isfinite(spread)
        tested = enough and bool(np.isfinite(difference)) and bool(found.any())
        p = p_value(float(difference), spread[found]) if tested else None
        comparisons.append(ShareComparison(systems[i].name, systems[j].name, *_interval(difference, spread), p))
    return Kept(
        short,
        long,
        len(sides[0]),
        len(sides[1]),
        {each.name: Share(*_interval(shares[k], drawn[k])) for k, each in enumerate(systems)},
        tuple(comparisons),
    )


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """NaN where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.full_like(numerator, np.nan), where=denominator > 0)


def _interval(value: float, resampled: Floats) -> tuple[float | None, float | None, float | None]:
    """The value and its 95% interval; resamples without a value do not count."""
    found = resampled[np.isfinite(resampled)]
    if not np.isfinite(value) or not found.size:
        return None, None, None
    low, high = np.percentile(found, PERCENTILES)
    return float(value), float(low), float(high)


def format_kept(found: Kept, lengths: str) -> str:
    """For a person; ``lengths`` says what the lengths are of: ``source words``."""
    short, long = (f"{low}-{high}" for low, high in (found.short, found.long))
    lines = [
        f"share kept: BLEU at {long} {lengths} ({found.n_long:,} sentences) over BLEU at {short} ({found.n_short:,})"
    ]
    for name, each in found.shares.items():
        lines.append(f"{name}: {_percent(each.share)} [{_percent(each.low)}, {_percent(each.high)}]")
    for row in found.comparisons:
        lines.append(
            f"{row.system} - {row.other}: {_points(row.difference)} points [{_points(row.low)}, {_points(row.high)}], "
            f"{format_p(row.p_value)}"
        )
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share:.1%}"


def _points(difference: float | None) -> str:
    return "undefined" if difference is None else f"{100 * difference:+.1f}"
