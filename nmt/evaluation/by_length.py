"""Scores by sentence length: a test set and its bins, and the scores of each system as a whole and in each bin."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nmt.config.schema import BleuTokenizer, Config, Evaluation
from nmt.errors import ConfigError
from nmt.evaluation import metrics
from nmt.evaluation.metrics import METRICS, Evidence, Floats, Integers, Score
from nmt.evaluation.writing import Unit, language_by_script, lengths, tokenizer_of_systems, unit_of
from nmt.messages import Say, aligned

MIN_SENTENCES = 30
"""A bin with fewer sentences is drawn hollow: its mean is weak evidence."""
LEAST_BLEU = 2.0
"""Below this BLEU, differences say nothing about systems that have been trained."""
UNTRAINED = f"below {LEAST_BLEU:g} BLEU: too low to compare"
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
    bleu: float
    """NaN in a bin whose references all have fewer than four tokens: not even they would have any BLEU."""
    bleu_low: float
    """Lower end of the 95% interval (percentile bootstrap)."""
    bleu_high: float
    length_ratio: float
    """Hypothesis tokens over reference tokens, as BLEU counts them; 0 if the references are blank."""

    def as_dict(self) -> dict[str, Any]:
        """Convert to a JSON object: None for an undefined BLEU."""
        undefined = ("bleu", "bleu_low", "bleu_high") if np.isnan(self.bleu) else ()
        return asdict(self) | dict.fromkeys(undefined)


@dataclass(frozen=True)
class SystemScores:
    """Scores of one system on a test set, as a whole and by length."""

    name: str
    scores: Mapping[str, Score]
    """Scores of the whole test set, by the name of the metric."""
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
        overall = {name: {"score": each.value, "signature": each.signature} for name, each in self.scores.items()}
        by_seed = tuple(tuple(None if np.isnan(bleu) else bleu for bleu in seed) for seed in self.seeds)
        seeds = {"bleu_by_seed": by_seed} if by_seed else {}
        return overall | {"by_length": [row.as_dict() for row in self.rows]} | seeds


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


# --- the scoring of a test set ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scoring:
    """A test set of N sentences, and how the translations of systems are scored on it."""

    references: Sequence[str]
    tokenizer: BleuTokenizer
    source_unit: Unit
    reference_unit: Unit
    lengths: Integers
    """Lengths of the sources, (N,)."""
    edges: Sequence[int]
    """The largest length of each bin, ascending; longer sentences form one more bin."""
    resamples: int

    @cached_property
    def bins(self) -> dict[int, Bin]:
        """The bins that have sentences, by index."""
        return bins_by_length(self.lengths, self.edges)

    def defines(self, each: Bin) -> bool:
        """Whether BLEU is defined in a bin."""
        lines = ([self.references[member]] for member in each.members)
        return any(metrics.has_bleu(metrics.sentence_statistics(line, line, self.tokenizer)) for line in lines)

    def score(self, name: str, *seeds: Sequence[str]) -> SystemScores:
        """Score a system with each metric on the whole test set, and with BLEU in each bin, given its translations.

        Translations by several ``seeds`` of the system have the means of their scores. The interval is that of the
        mean with the same resamples for all seeds: it measures the variance due to the sentences.
        """
        of_seeds = [metrics.scores_of(Evidence(lines, self.references, self.tokenizer)) for lines in seeds]
        scores = {
            metric: Score(float(np.mean([seed[metric].value for seed in of_seeds])), score.signature)
            for metric, score in of_seeds[0].items()
        }
        statistics = np.stack([metrics.sentence_statistics(lines, self.references, self.tokenizer) for lines in seeds])
        rows, of_bins = [], []
        for number, (low, high, members) in self.bins.items():
            inside = statistics[:, members]
            defined = 0.0 if metrics.has_bleu(inside) else np.nan  # NaN plus a score is NaN
            [bleu], [resampled] = (defined + each for each in mean_bleu([inside], self.resamples, (SEED, number)))
            sums = inside.sum(axis=1)
            words = int(sums[0, 1])
            ratio = float(sums[:, 0].mean() / words) if words else 0.0
            rows.append(LengthRow(name, low, high, len(members), float(bleu), *interval(resampled), ratio))
            of_bins.append(defined + metrics.bleu_of_statistics(sums))
        by_seed = tuple(map(tuple, np.transpose(of_bins).tolist())) if seeds[1:] else ()
        return SystemScores(name, scores, tuple(rows), statistics, by_seed)


def scoring(
    runs: Mapping[str, Config],
    sources: Sequence[str],
    references: Sequence[str],
    say: Say,
    edges: Sequence[int] = (),
    tokenizer: BleuTokenizer | None = None,
) -> Scoring:
    """Choose how systems are scored on a test set, and say a choice that is not obvious.

    ``runs`` has the configurations of the runs among the systems, by their names in messages. The first decides what is
    not given, bins and the tokenizer of BLEU; without runs the defaults do, and the script of the raw text.

    Raises ConfigError if runs disagree about the tokenizer, if it is not installed, or if bins do not ascend.
    """
    if runs:
        first = next(iter(runs.values()))
        section, units = first.evaluation, (unit_of(first.data.source_language), unit_of(first.data.target_language))
    else:
        section, units = Evaluation(), (unit_of(language_by_script(sources)), unit_of(language_by_script(references)))
    tokenizer = tokenizer or tokenizer_of_systems(runs, references, say)
    measured, edges = lengths(sources, units[0]), edges or section.bins
    if list(edges) != sorted({*edges}):
        raise ConfigError(f"bins: found {list(edges)}; must be in ascending order without repetitions")
    return Scoring(references, tokenizer, *units, measured, edges, section.bootstrap)


def mean_bleu(systems: Sequence[Integers], resamples: int, seed: int | Sequence[int]) -> tuple[Floats, Floats]:
    """Compute BLEU of each system on the same sentences, (systems,), and of its resamples, (systems, resamples).

    The statistics of a system are (seeds, sentences, STATISTICS). Its BLEU is the mean over the seeds; a resample has
    the same sentences for all seeds.
    """
    every = np.concatenate(systems)
    real, resampled = metrics.bleu_of_statistics(every.sum(axis=1)), metrics.bootstrap_bleu(every, resamples, seed)
    ends = np.cumsum([len(one) for one in systems])[:-1]
    return (
        np.array([each.mean() for each in np.split(real, ends)]),
        np.array([each.mean(axis=1) for each in np.split(resampled, ends, axis=1)]),
    )


def interval(resampled: Floats) -> tuple[float, float]:
    """Return the ends of the 95% interval (percentile bootstrap)."""
    low, high = np.percentile(resampled, PERCENTILES)
    return float(low), float(high)


# --- tables -----------------------------------------------------------------------------------------------------------


def format_rows(rows: Sequence[LengthRow], unit: Unit) -> str:
    """Format the table as text; ``unit`` is that of the source."""
    cells = [("system", f"source {unit}", "sentences", "BLEU", "95% interval", "length ratio")]
    for row in rows:
        bleu = ("–", "–") if np.isnan(row.bleu) else (f"{row.bleu:.2f}", f"{row.bleu_low:.2f} to {row.bleu_high:.2f}")
        cells.append((row.system, f"{row.low}-{row.high}", f"{row.n}", *bleu, f"{row.length_ratio:.3f}"))
    return aligned(cells)


def format_scores(system: SystemScores) -> str:
    """Format the scores of the whole test set as text, each with its signature."""
    return "\n".join(
        f"{METRICS[name].label} {METRICS[name].format(score.value)}  {score.signature}"
        for name, score in system.scores.items()
    )
