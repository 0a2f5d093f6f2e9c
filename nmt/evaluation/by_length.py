"""Scores by source length: which sentences fall into which bin, and how well each system does there."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from nmt.evaluation.metrics import (
    Integers,
    Score,
    bleu,
    bleu_of_statistics,
    bootstrap_bleu,
    chrf,
    sentence_statistics,
)

SEED = 1
"""Of the bootstrap: the same text gives the same intervals, and every system the same resamples."""
PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True)
class LengthRow:
    """One system on the sentences of one bin."""

    system: str
    low: int
    """Shortest source length of the bin, in whitespace words."""
    high: int
    """Longest, included."""
    n: int
    """Sentences."""
    bleu: float
    bleu_low: float
    """Lower end of the 95% interval (percentile bootstrap)."""
    bleu_high: float
    length_ratio: float
    """Hypothesis words over reference words, as BLEU counts them; 0 where the references are blank."""

    def as_dict(self) -> dict[str, Any]:
        """Column to value."""
        return asdict(self)


COLUMNS = tuple(field.name for field in fields(LengthRow))


@dataclass(frozen=True)
class SystemScores:
    """What one system reaches on a test set, as a whole and by source length."""

    name: str
    scores: tuple[Score, ...]
    """BLEU, chrF."""
    rows: tuple[LengthRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        overall = {score.name: {"score": score.value, "signature": score.signature} for score in self.scores}
        return overall | {"by_length": [row.as_dict() for row in self.rows]}


class Bin(NamedTuple):
    """Lengths from ``low`` to ``high``, both included, and the indices of the sentences that have them."""

    low: int
    high: int
    members: Integers


def source_words(lines: Sequence[str]) -> Integers:
    """The number of whitespace words of each line."""
    return np.array([len(line.split()) for line in lines], np.int64)


def bins_by_length(lengths: Integers, edges: Sequence[int]) -> dict[int, Bin]:
    """The bins that are not empty, by their number: bin k ends at ``edges[k]``, one more bin at the longest length.

    The first begins at 1, or at 0 if there are blank sentences.
    """
    numbers = np.searchsorted(np.asarray(edges), lengths, side="left")
    bins = {}
    for number in np.unique(numbers).tolist():
        members = np.flatnonzero(numbers == number)
        low = edges[number - 1] + 1 if number else min(1, int(lengths.min()))
        high = edges[number] if number < len(edges) else int(lengths.max())
        bins[number] = Bin(low, high, members)
    return bins


def length_table(
    system: str,
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    bins: Sequence[int],
    resamples: int,
) -> list[LengthRow]:
    """A row for each bin of source words that has sentences, shortest first.

    Args:
        system: its name.
        sources: raw source lines; hypotheses and references likewise, as many.
        bins: the largest length of each bin, ascending; longer sentences form one more.
        resamples: of the bootstrap behind the intervals.
    """
    statistics = sentence_statistics(hypotheses, references)
    rows = []
    for number, each in bins_by_length(source_words(sources), bins).items():
        inside = statistics[each.members]
        total = inside.sum(axis=0)
        interval = np.percentile(bootstrap_bleu(inside, resamples, (SEED, number)), PERCENTILES)
        low, high = (float(value) for value in interval)
        ratio = float(total[0] / total[1]) if total[1] else 0.0
        rows.append(
            LengthRow(system, each.low, each.high, len(inside), float(bleu_of_statistics(total)), low, high, ratio)
        )
    return rows


def score_system(
    name: str,
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    bins: Sequence[int],
    resamples: int,
) -> SystemScores:
    """BLEU, chrF and :func:`length_table` of one system."""
    scores = bleu(hypotheses, references), chrf(hypotheses, references)
    rows = length_table(name, sources, hypotheses, references, bins=bins, resamples=resamples)
    return SystemScores(name, scores, tuple(rows))


def format_rows(rows: Sequence[LengthRow]) -> str:
    """The table for a person, one line a row below the headings."""
    headings = ("system", "source words", "sentences", "BLEU", "95% interval", "length ratio")
    cells = [headings] + [
        (
            row.system,
            f"{row.low}-{row.high}",
            f"{row.n}",
            f"{row.bleu:.2f}",
            f"{row.bleu_low:.2f} to {row.bleu_high:.2f}",
            f"{row.length_ratio:.3f}",
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(headings))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in cells
    )


def format_scores(system: SystemScores) -> str:
    """The scores of the whole test set for a person, each with its signature."""
    return "\n".join(f"{score.name} {score.value:.2f}  {score.signature}" for score in system.scores)
