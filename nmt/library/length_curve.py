"""The length curve as a value: scores by length of several systems, their comparisons, and the figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

import numpy as np
from matplotlib.figure import Figure

from nmt.config.schema import BleuTokenizer
from nmt.data.corpus import Text
from nmt.errors import ConfigError
from nmt.evaluation.by_length import MIN_SENTENCES, UNTRAINED, SystemScores, format_rows, format_scores, score_system
from nmt.evaluation.metrics import Integers
from nmt.evaluation.retention import Range, Retention, format_retention, ranges, retention
from nmt.evaluation.significance import (
    Comparison,
    OverallComparison,
    compare_by_length,
    compare_overall,
    format_comparisons,
    format_overall,
)
from nmt.evaluation.writing import BinnedBy, Scoring, lengths, scoring
from nmt.library.evaluation import System, Systems, refuse_useless, warn
from nmt.plots.about import About
from nmt.plots.length_curve import draw_length_curve, write_length_curve
from nmt.plots.style import png

if TYPE_CHECKING:  # PyTorch is slow to import
    from nmt.translation.options import SearchChanges

BinBy = Literal["source", "reference", "pieces"]


@dataclass(frozen=True)
class LengthCurve:
    """BLEU by sentence length of several systems, and comparisons of every two of them."""

    systems: tuple[SystemScores, ...]
    about: About
    """What the caption says: test set, runs, bins."""
    comparisons: tuple[Comparison, ...]
    """Differences in every bin, between systems that are trained enough to be compared."""
    overall: tuple[OverallComparison, ...]
    """Likewise on the whole test set."""
    retention: Retention | None
    """The share of BLEU that each of these systems retains on long sentences; None without two bins of enough
    sentences."""
    title: str | None = None

    def figure(self) -> Figure:
        """Draw the curves (after Bahdanau et al. 2015, Fig. 2)."""
        return draw_length_curve(self.systems, about=self.about, title=self.title)

    def write(self, stem: str | Path) -> list[Path]:
        """Write ``stem``.png, .svg, .json and .csv, and return the paths. Raises DataError if that fails."""
        return write_length_curve(
            self.systems,
            stem,
            about=self.about,
            title=self.title,
            comparisons=self.comparisons,
            overall=self.overall,
            retention=self.retention,
        )

    def __str__(self) -> str:
        column = self.about.binned_by.column
        parts = [f"{each.name}\n{format_scores(each)}" for each in self.systems]
        parts.append(format_rows([row for each in self.systems for row in each.rows], column))
        if self.comparisons:
            parts.append(f"difference by length (two-sided paired bootstrap):\n{format_comparisons(self.comparisons)}")
            overall = format_overall(self.overall)
            parts.append(f"difference on the whole test set (95% interval, two-sided tests):\n{overall}")
        parts += [f"{each.name}: {UNTRAINED}" for each in self.systems if not each.comparable]
        if self.retention:
            parts.append(format_retention(self.retention, column))
        return "\n".join(parts)

    def _repr_png_(self) -> bytes:
        """Show the figure, in a notebook."""
        return png(self.figure())


def compare_by_length_of(
    systems: Systems,
    *,
    bins: Sequence[int] = (),
    bin_by: BinBy = "source",
    bleu_tokenizer: BleuTokenizer | None = None,
    min_sentences: int = MIN_SENTENCES,
    short: Range | None = None,
    long: Range | None = None,
    title: str | None = None,
) -> LengthCurve:
    """Score systems by sentence length and compare them; arguments and errors as of :func:`length_curve`.

    What is wrong with an option is an error before a system translates.
    """
    section, sources, references = systems.evaluation, systems.sources, systems.references
    how = scoring(bleu_tokenizer, systems.runs, sources, references, systems.say)
    bins, resamples = bins or section.bins, section.bootstrap
    runs = [path for (_, path), config in zip(systems.named, systems.configs, strict=True) if config is not None]
    binned_by, measured = _lengths(bin_by, sources, references, how, runs)
    sides = ranges(measured, bins, min_sentences, short, long)
    hypotheses: dict[str, list[list[str]]] = {}
    for (name, _), lines in zip(systems.named, systems.translations, strict=True):
        hypotheses.setdefault(name, []).append(lines)
    scored = tuple(
        score_system(
            name,
            measured,
            first,
            references,
            tokenizer=how.tokenizer,
            bins=bins,
            resamples=resamples,
            others=others,
        )
        for name, (first, *others) in hypotheses.items()
    )
    compared = [each for each in scored if each.comparable]
    return LengthCurve(
        scored,
        systems.about(resamples, binned_by, min_sentences),
        tuple(compare_by_length(compared, measured, bins=bins, resamples=resamples)),
        tuple(compare_overall(compared, resamples=resamples)),
        retention(compared, measured, *sides, resamples=resamples) if sides and compared else None,
        title,
    )


def _lengths(
    bin_by: BinBy, sources: Sequence[str], references: Sequence[str], how: Scoring, runs: Sequence[System]
) -> tuple[BinnedBy, Integers]:
    if bin_by == "source":
        return BinnedBy("source", how.source_unit), lengths(sources, how.source_unit)
    if bin_by == "reference":
        return BinnedBy("reference", how.reference_unit), lengths(references, how.reference_unit)
    if not runs:
        raise ConfigError("--bin-by pieces: needs a run among the systems, because its tokenizer splits the source")
    from nmt.data.tokenizer import Tokenizers  # noqa: PLC0415  (not needed to score files)

    tokenizer = Tokenizers.load(Path(str(runs[0])) / "tokenizer").source
    return BinnedBy("source", "pieces"), np.array([len(ids) for ids in tokenizer.encode(sources)], np.int64)


def length_curve(
    systems: Mapping[str, System] | Sequence[tuple[str, System]],
    source: Text,
    reference: Text,
    *,
    bins: Sequence[int] = (),
    bin_by: BinBy = "source",
    bleu_tokenizer: BleuTokenizer | None = None,
    min_sentences: int = MIN_SENTENCES,
    short: Range | None = None,
    long: Range | None = None,
    title: str | None = None,
    device: str = "auto",
    precision: str = "fp32",
    **changes: Unpack["SearchChanges"],
) -> LengthCurve:
    """Score systems by sentence length and compare them, as ``nmt-length-curve`` does.

    >>> curve = length_curve({"tiny": "runs/tiny", "copy": "test.low"}, "test.low", "test.up", bins=[1, 2, 3])
    >>> [(row.system, row.low, row.n) for row in curve.systems[0].rows][:2]
    [('tiny', 1, 6), ('tiny', 2, 5)]
    >>> [path.name for path in curve.write("curve")]
    ['curve.png', 'curve.svg', 'curve.json', 'curve.csv']

    ``print(curve)`` shows the tables that the command prints; a notebook shows the figure.

    Args:
        systems: by name, each as for :func:`evaluate`. In a list of pairs the same name again is another seed of the
            same system; seeds are averaged.
        source: raw text, one sentence a line: path of a file, or lines.
        reference: raw translations of the same lines.
        bins: as for :func:`evaluate`.
        bin_by: the length that is binned: that of the source, of the reference, or of the source in pieces.
        bleu_tokenizer: as for :func:`evaluate`.
        min_sentences: a bin of fewer is drawn hollow.
        short: smallest and largest length of short sentences, for the share of BLEU retained; default: the shortest
            bin of ``min_sentences``.
        long: likewise of long ones.
        title: of the figure.
        device: as for :func:`evaluate`.
        precision: as for :func:`evaluate`.
        changes: as for :func:`evaluate`; they hold for all runs.

    Raises the errors of :func:`evaluate`, and ConfigError for ranges of length that overlap.
    """
    named = list(systems.items() if isinstance(systems, Mapping) else systems)
    compared = Systems(named, source, reference, (), device, precision, changes, warn)
    if not compared.translating:
        refuse_useless(changes)
    return compare_by_length_of(
        compared,
        bins=bins,
        bin_by=bin_by,
        bleu_tokenizer=bleu_tokenizer,
        min_sentences=min_sentences,
        short=short,
        long=long,
        title=title,
    )
