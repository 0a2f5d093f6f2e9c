"""Scores by length: which sentences fall into which bin, and how well each system does there."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from nmt.config.schema import BleuTokenizer
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
    """Shortest length in the bin, in the unit of the table."""
    high: int
    """Longest, included."""
    n: int
    """Sentences."""
    bleu: float
    bleu_low: float
    """Lower end of the 95% interval (percentile bootstrap)."""
    bleu_high: float
    length_ratio: float
    """Hypothesis tokens over reference tokens, as BLEU counts them; 0 where the references are blank."""

    def as_dict(self) -> dict[str, Any]:
        """Column to value."""
        return asdict(self)


COLUMNS = tuple(each.name for each in fields(LengthRow))


@dataclass(frozen=True)
class SystemScores:
    """What one system reaches on a test set, as a whole and by length."""

    name: str
    scores: tuple[Score, ...]
    """BLEU, chrF."""
    rows: tuple[LengthRow, ...]
    statistics: Integers = field(repr=False, compare=False)
    """Behind BLEU, (trainings, sentences, STATISTICS): what comparisons resample."""
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


def training_statistics(
    trainings: Sequence[Sequence[str]], references: Sequence[str], tokenizer: BleuTokenizer
) -> Integers:
    """For the hypotheses of each training what BLEU is made of, (trainings, sentences, STATISTICS)."""
    return np.stack([sentence_statistics(lines, references, tokenizer) for lines in trainings])


def _rows(system: str, statistics: Integers, groups: Mapping[int, Bin], resamples: int) -> list[LengthRow]:
    rows = []
    for number, each in groups.items():
        inside = statistics[:, each.members]
        totals = inside.sum(axis=1)
        resampled = bootstrap_bleu(inside, resamples, (SEED, number)).mean(axis=1)
        low, high = (float(value) for value in np.percentile(resampled, PERCENTILES))
        words = int(totals[0, 1])
        ratio = float(totals[:, 0].mean() / words) if words else 0.0
        bleu = float(bleu_of_statistics(totals).mean())
        rows.append(LengthRow(system, each.low, each.high, len(each.members), bleu, low, high, ratio))
    return rows


def score_system(
    name: str,
    lengths: Integers,
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenizer: BleuTokenizer,
    bins: Sequence[int],
    resamples: int,
    others: Sequence[Sequence[str]] = (),
) -> SystemScores:
    """BLEU and chrF of one system on the whole test set, and a row for each bin of lengths that has sentences.

    Args:
        name: of the system.
        lengths: of the sentences, (sentences,), in any unit.
        hypotheses: a line for each sentence; references likewise.
        tokenizer: of BLEU.
        bins: the largest length of each bin, ascending; longer sentences form one more.
        resamples: of the bootstrap behind the intervals.
        others: the hypotheses of further trainings of the system. Then all scores are means over the trainings, and the
            interval is that of the mean, all trainings resampled alike: it says how much depends on the sentences.
    """
    every = (hypotheses, *others)
    scores = tuple(
        Score(metric[0].name, float(np.mean([score.value for score in metric])), metric[0].signature)
        for metric in zip(
            *((bleu(lines, references, tokenizer), chrf(lines, references)) for lines in every), strict=True
        )
    )
    statistics = training_statistics(every, references, tokenizer)
    groups = bins_by_length(lengths, bins)
    rows = tuple(_rows(name, statistics, groups, resamples))
    if not others:
        return SystemScores(name, scores, rows, statistics)
    each_bin = np.stack([bleu_of_statistics(statistics[:, each.members].sum(axis=1)) for each in groups.values()])
    return SystemScores(name, scores, rows, statistics, tuple(map(tuple, each_bin.T.tolist())))


def format_rows(rows: Sequence[LengthRow], lengths: str) -> str:
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
