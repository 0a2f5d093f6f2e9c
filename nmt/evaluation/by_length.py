"""Scores by sentence length: the bins, and BLEU of each system in each bin."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from nmt.config.schema import BleuTokenizer
from nmt.evaluation.metrics import (
    METRICS,
    Evidence,
    Integers,
    Score,
    bleu_of_statistics,
    bootstrap_bleu,
    scores_of,
    sentence_statistics,
)

MIN_SENTENCES = 30
"""A bin with fewer sentences is drawn hollow by default: its mean is weak evidence."""
LEAST_BLEU = 2.0
"""Below this BLEU, differences say nothing about systems that have been trained."""
UNTRAINED = f"below {LEAST_BLEU:g} BLEU: not trained enough to compare"
SEED = 1
"""Seed of the bootstrap: intervals are reproducible, and all systems share their resamples."""
PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True)
class LengthRow:
    """Scores of one system on the sentences of one bin."""

    system: str
    low: int
    """Shortest length in the bin, in the unit of the table."""
    high: int
    """Longest, included."""
    n: int
    """Number of sentences."""
    bleu: float
    bleu_low: float
    """Lower end of the 95% interval (percentile bootstrap)."""
    bleu_high: float
    length_ratio: float
    """Hypothesis tokens over reference tokens, as BLEU counts them; 0 if the references are blank."""


COLUMNS = tuple(each.name for each in fields(LengthRow))


@dataclass(frozen=True)
class SystemScores:
    """Scores of one system on a test set, as a whole and by length."""

    name: str
    scores: Mapping[str, Score]
    """Of the whole test set, by the name of the metric."""
    rows: tuple[LengthRow, ...]
    statistics: Integers = field(repr=False, compare=False)
    """Sufficient statistics of BLEU, (seeds, sentences, STATISTICS), which comparisons resample."""
    seeds: tuple[tuple[float, ...], ...] = ()
    """BLEU of each seed in each bin, if there are several; the rows hold the means."""

    @property
    def bleu(self) -> Score:
        """BLEU of the whole test set."""
        return self.scores["bleu"]

    @property
    def comparable(self) -> bool:
        """Whether the system is trained enough to be compared with others."""
        return self.bleu.value >= LEAST_BLEU

    def as_dict(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        overall = {
            METRICS[name].label: {"score": score.value, "signature": score.signature}
            for name, score in self.scores.items()
        }
        seeds = {"bleu_by_seed": self.seeds} if self.seeds else {}
        return overall | {"by_length": [asdict(row) for row in self.rows]} | seeds


class Bin(NamedTuple):
    """Lengths from ``low`` to ``high``, both included, and the indices of the sentences with these lengths."""

    low: int
    high: int
    members: Integers


def bins_by_length(lengths: Integers, edges: Sequence[int]) -> dict[int, Bin]:
    """Return the bins that are not empty, by index: bin k ends at ``edges[k]``, and one more at the longest length.

    The first bin begins at 1, or at 0 if there are blank sentences.
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
    seeds: Sequence[Sequence[str]], references: Sequence[str], tokenizer: BleuTokenizer
) -> Integers:
    """Compute the sufficient statistics of BLEU for the hypotheses of each seed, (seeds, sentences, STATISTICS)."""
    return np.stack([sentence_statistics(lines, references, tokenizer) for lines in seeds])


def length_rows(system: str, statistics: Integers, groups: Mapping[int, Bin], resamples: int) -> list[LengthRow]:
    """Score a system in each bin, given its statistics of BLEU, (seeds, sentences, STATISTICS)."""
    rows = []
    for number, each in groups.items():
        inside = statistics[:, each.members]
        totals = inside.sum(axis=1)
        bleu = float(bleu_of_statistics(totals).mean())
        low, high = bleu, bleu
        if resamples:
            resampled = bootstrap_bleu(inside, resamples, (SEED, number)).mean(axis=1)
            low, high = (float(value) for value in np.percentile(resampled, PERCENTILES))
        words = int(totals[0, 1])
        ratio = float(totals[:, 0].mean() / words) if words else 0.0
        rows.append(LengthRow(system, each.low, each.high, len(each.members), bleu, low, high, ratio))
    return rows


def bleu_by_length(
    lengths: Integers,
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenizer: BleuTokenizer,
    bins: Sequence[int],
) -> list[LengthRow]:
    """Compute BLEU of one system in each bin that has sentences, without intervals: they end where BLEU is."""
    statistics = training_statistics([hypotheses], references, tokenizer)
    return length_rows("", statistics, bins_by_length(lengths, bins), 0)


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
    """Score one system with each metric on the whole test set, and with BLEU in each bin that has sentences.

    ``bins`` are the maximum lengths, ascending; longer sentences form one more bin. ``lengths`` are (sentences,), in
    any unit. ``others`` are the hypotheses of more seeds of the system: all scores are then means over the seeds, and
    the interval is that of the mean with the same resamples for all seeds: it measures the variance due to the
    sentences.
    """
    every = (hypotheses, *others)
    of_seeds = [scores_of(Evidence(lines, references, tokenizer)) for lines in every]
    scores = {
        metric: Score(float(np.mean([seed[metric].value for seed in of_seeds])), score.signature)
        for metric, score in of_seeds[0].items()
    }
    statistics = training_statistics(every, references, tokenizer)
    groups = bins_by_length(lengths, bins)
    rows = tuple(length_rows(name, statistics, groups, resamples))
    if not others:
        return SystemScores(name, scores, rows, statistics)
    each_bin = np.stack([bleu_of_statistics(statistics[:, each.members].sum(axis=1)) for each in groups.values()])
    return SystemScores(name, scores, rows, statistics, tuple(map(tuple, each_bin.T.tolist())))


def format_rows(rows: Sequence[LengthRow], lengths: str) -> str:
    """Format the table as text; ``lengths`` is the heading of the lengths: ``source words``."""
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
    """Align the cells of each column: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))])
        for first, *rest in cells
    )


def format_scores(system: SystemScores) -> str:
    """Format the scores of the whole test set as text, each with its signature."""
    return "\n".join(
        f"{METRICS[name].label} {METRICS[name].format(score.value)}  {score.signature}"
        for name, score in system.scores.items()
    )
