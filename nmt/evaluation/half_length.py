"""The length at which a system has lost half of its best BLEU: where its length curve falls off."""

from collections.abc import Sequence
from typing import NamedTuple


class CurvePoint(NamedTuple):
    """BLEU of the sentences of one bin."""

    low: int
    """Shortest length in the bin."""
    high: int
    """Longest, included."""
    bleu: float

    @property
    def center(self) -> float:
        """The middle of the bin."""
        return (self.low + self.high) / 2


def half_length(curve: Sequence[CurvePoint]) -> float | None:
    """Find the length from which on BLEU is at most half of its best: the first one after the best bin.

    ``curve`` has the bins in ascending order. BLEU is read at the centers of the bins and is linear between them. Of
    several best bins the first counts. Returns None if BLEU never falls so far, or is zero everywhere.
    """
    scores = [point.bleu for point in curve]
    best = max(scores, default=0.0)
    if best <= 0:
        return None
    half, start = best / 2, scores.index(best)
    for before, after in zip(curve[start:], curve[start + 1 :], strict=False):
        if after.bleu <= half:
            share = (before.bleu - half) / (before.bleu - after.bleu)
            return before.center + share * (after.center - before.center)
    return None
