"""Scores by source length: which sentences fall into which bin, and how well each system does there."""

from collections.abc import Mapping, Sequence
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
    seeds: tuple[tuple[float, ...], ...] = ()
    """Of several trainings, each one's BLEU in each bin; the rows hold the means."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        overall = {score.name: {"score": score.value, "signature": score.signature} for score in self.scores}
        seeds = {"bleu_by_seed": self.seeds} if self.seeds else {}
        return overall | {"by_length": [row.as_dict() for row in self.rows]} | seeds


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
    others: Sequence[Sequence[str]] = (),
) -> list[LengthRow]:
    """A row for each bin of source words that has sentences, shortest first.

    Args:
        system: its name.
        sources: raw source lines; hypotheses and references likewise, as many.
        bins: the largest length of each bin, ascending; longer sentences form one more.
        resamples: of the bootstrap behind the intervals.
        others: the hypotheses of further trainings of the system. Then BLEU and length ratio are means over all, and
            the interval is that of the mean, all of them resampled alike: it says how much depends on the sentences.
    """
    statistics = training_statistics((hypotheses, *others), references)
    return _rows(system, statistics, bins_by_length(source_words(sources), bins), resamples)


def training_statistics(trainings: Sequence[Sequence[str]], references: Sequence[str]) -> Integers:
    """Of the hypotheses of each training what BLEU is made of, (trainings, sentences, STATISTICS)."""
    return np.stack([sentence_statistics(lines, references) for lines in trainings])


def _rows(system: str, statistics: Integers, groups: Mapping[int, Bin], resamples: int) -> list[LengthRow]:
    rows = []
    for number, each in groups.items():
        inside = statistics[:, each.members]
        totals = inside.sum(axis=1)
        resampled = np.mean([bootstrap_bleu(one, resamples, (SEED, number)) for one in inside], axis=0)
        low, high = (float(value) for value in np.percentile(resampled, PERCENTILES))
        words = int(totals[0, 1])
        ratio = float(totals[:, 0].mean() / words) if words else 0.0
        bleu = float(bleu_of_statistics(totals).mean())
        rows.append(LengthRow(system, each.low, each.high, len(each.members), bleu, low, high, ratio))
    return rows


def score_system(
    name: str,
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    bins: Sequence[int],
    resamples: int,
    others: Sequence[Sequence[str]] = (),
) -> SystemScores:
    """BLEU, chrF and :func:`length_table` of one system: of several trainings of it, see there, the means."""
    every = (hypotheses, *others)
    scores = tuple(
        Score(metric[0].name, float(np.mean([score.value for score in metric])), metric[0].signature)
        for metric in zip(*((bleu(lines, references), chrf(lines, references)) for lines in every), strict=True)
    )
    statistics, groups = training_statistics(every, references), bins_by_length(source_words(sources), bins)
    rows = _rows(name, statistics, groups, resamples)
    if not others:
        return SystemScores(name, scores, tuple(rows))
    each_bin = np.stack([bleu_of_statistics(statistics[:, each.members].sum(axis=1)) for each in groups.values()])
    return SystemScores(name, scores, tuple(rows), tuple(map(tuple, each_bin.T.tolist())))


def format_rows(rows: Sequence[LengthRow], lengths: str = "source words") -> str:
    """The table for a person, one line a row below the headings, of which the second says what the lengths are of."""
    headings = ("system", lengths, "sentences", "BLEU", "95% interval", "length ratio")
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
    return aligned(cells)


def aligned(cells: Sequence[Sequence[str]]) -> str:
    """Lines of text with the cells of a column below each other, the first column's to the left."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))])
        for first, *rest in cells
    )


def format_scores(system: SystemScores) -> str:
    """The scores of the whole test set for a person, each with its signature."""
    return "\n".join(f"{score.name} {score.value:.2f}  {score.signature}" for score in system.scores)
