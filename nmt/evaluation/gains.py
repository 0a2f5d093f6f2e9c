"""Which sentences one system translates better than another: differences of sentence scores, by length.

BLEU of a corpus says how much a system gains; the differences of its sentences say where. The score of a sentence is
chrF (Popović 2015) or smoothed BLEU with effective order (Lin & Och 2004), by sacreBLEU, 0 to 100.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.config.schema import BleuTokenizer
from nmt.evaluation.by_length import PERCENTILES, SEED, bins_by_length
from nmt.evaluation.metrics import Floats, Integers, draws

SentenceMetric = Literal["chrf", "bleu"]
NAMES: dict[SentenceMetric, str] = {"chrf": "chrF", "bleu": "BLEU"}
EQUAL = 1e-9
"""Differences up to this are none."""


class SentenceScores(NamedTuple):
    """Scores of sentences, 0 to 100, and the signature of their settings."""

    values: Floats
    """(sentences,)"""
    signature: str


@dataclass(frozen=True)
class GainRow:
    """The sentences of one bin."""

    low: int
    """Shortest length in the bin."""
    high: int
    """Longest, included."""
    n: int
    """Sentences: those that gained, those that lost, and those with equal scores."""
    gained: int
    lost: int
    mean: float
    """Mean difference."""
    mean_low: float
    """Lower end of its 95% interval (percentile bootstrap)."""
    mean_high: float


@dataclass(frozen=True)
class Gains:
    """Differences of the sentence scores of two systems: the second minus the first."""

    differences: Floats
    """(sentences,)"""
    rows: tuple[GainRow, ...]
    """By length."""
    whole: GainRow
    """All sentences."""

    def most(self, count: int) -> tuple[list[int], list[int]]:
        """Return up to ``count`` sentences that gained most and that lost most, the largest difference first."""
        order = np.argsort(-self.differences, kind="stable")
        gained = [int(i) for i in order[:count] if self.differences[i] > EQUAL]
        lost = [int(i) for i in np.argsort(self.differences, kind="stable")[:count] if self.differences[i] < -EQUAL]
        return gained, lost


def sentence_scores(
    hypotheses: Sequence[str], references: Sequence[str], metric: SentenceMetric, tokenizer: BleuTokenizer
) -> SentenceScores:
    """Score each hypothesis against its reference; ``tokenizer`` is BLEU's."""
    scorer = CHRF() if metric == "chrf" else BLEU(tokenize=tokenizer, effective_order=True)
    values = [scorer.sentence_score(*each) for each in _pairs(hypotheses, references)]
    return SentenceScores(np.array([each.score for each in values]), str(scorer.get_signature()))


def _pairs(hypotheses: Sequence[str], references: Sequence[str]) -> list[tuple[str, list[str]]]:
    return [(hypothesis, [reference]) for hypothesis, reference in zip(hypotheses, references, strict=True)]


def gains(first: Floats, second: Floats, lengths: Integers, *, bins: Sequence[int], resamples: int) -> Gains:
    """Compare the scores of two systems on the same sentences, (sentences,), by length."""
    differences = second - first
    everything = GainRow(int(lengths.min()), int(lengths.max()), *_summary(differences, resamples, SEED))
    rows = tuple(
        GainRow(each.low, each.high, *_summary(differences[each.members], resamples, (SEED, number)))
        for number, each in bins_by_length(lengths, bins).items()
    )
    return Gains(differences, rows, everything)


def _summary(
    differences: Floats, resamples: int, seed: int | Sequence[int]
) -> tuple[int, int, int, float, float, float]:
    n = len(differences)
    means = [draw @ differences / n for draw in draws(n, resamples, seed)]
    low, high = map(float, np.percentile(means, PERCENTILES))
    gained, lost = int((differences > EQUAL).sum()), int((differences < -EQUAL).sum())
    return n, gained, lost, float(differences.mean()), low, high


def format_gains(rows: Sequence[GainRow], whole: GainRow, heading: str, metric: SentenceMetric) -> str:
    """Format a table: one line for each bin, then all sentences; ``heading`` names the length."""
    lines = [f"{heading:>18}  sentences  gained  equal   lost  mean {NAMES[metric]} difference [95% interval]"]
    for name, row in [(f"{row.low}-{row.high}", row) for row in rows] + [("all", whole)]:
        equal = row.n - row.gained - row.lost
        interval = f" [{row.mean_low:+.2f}, {row.mean_high:+.2f}]" if row.n > 1 else ""
        lines.append(f"{name:>18}  {row.n:9,}  {row.gained:6,} {equal:6,} {row.lost:6,}  {row.mean:+.2f}{interval}")
    return "\n".join(lines)
