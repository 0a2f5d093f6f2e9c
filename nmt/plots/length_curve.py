"""BLEU against source length: the figure of the length decay (after Bahdanau et al. 2015, Fig. 2), and its numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nmt.evaluation.by_length import SEED, LengthRow, SystemScores
from nmt.evaluation.metrics import Floats
from nmt.evaluation.scripts import BinnedBy
from nmt.evaluation.significance import Comparison
from nmt.plots.bins import Span, centres, label_lengths, spans_of, wide_enough
from nmt.plots.files import numbers, table, write_all
from nmt.plots.style import GREY, legend_above, plain, png, series, style, svg

ENDINGS = (".png", ".svg", ".json", ".csv")
"""Of the files that are written."""


def write_length_curve(
    systems: Sequence[SystemScores],
    stem: str | Path,
    *,
    test_set: str,
    resamples: int,
    title: str | None = None,
    comparisons: Sequence[Comparison] = (),
    binned_by: BinnedBy,
) -> list[Path]:
    """Draw and write ``stem``.png, .svg, .json and .csv, each of them whole; returns their paths.

    Args:
        systems: one or more, all scored on the same sentences in the same bins.
        stem: the files' common path; its folder is made if it is missing.
        test_set: what the caption calls the sentences.
        resamples: of the bootstrap behind the intervals, for the caption.
        title: above the figure.
        comparisons: of the systems, for the JSON.
        binned_by: what the lengths are of.

    Raises DataError if they cannot be written.
    """
    figure = draw_length_curve(systems, test_set=test_set, resamples=resamples, title=title, binned_by=binned_by)
    contents = (
        png(figure),
        svg(figure),
        numbers(_numbers(systems, test_set, resamples, comparisons, binned_by)),
        table([row.as_dict() for system in systems for row in system.rows]),
    )
    return write_all(stem, dict(zip(ENDINGS, contents, strict=True)))


def draw_length_curve(
    systems: Sequence[SystemScores],
    *,
    test_set: str,
    resamples: int,
    title: str | None = None,
    binned_by: BinnedBy,
) -> Figure:
    """BLEU of each system at the centre of each bin with its 95% band; below it how long its translations are, as a
    share of their references, and the sentences of each bin.

    See :func:`write_length_curve` for the arguments.
    """
    bins = systems[0].rows
    lengths = [(row.low, row.high) for row in bins]
    spans = spans_of(lengths)
    with style():
        figure = Figure(figsize=(7.5, 6.8), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
        upper, middle, lower = figure.subplots(3, 1, sharex=True, height_ratios=(4, 1.3, 1))
        handles = [
            _draw_system(upper, system, series(number), centres(spans, number, len(systems)))
            for number, system in enumerate(systems)
        ]
        upper.set_ylabel("BLEU (0 to 100)")
        upper.set_ylim(0, _ceiling(systems))
        for axes in (upper, middle):
            axes.tick_params(labelbottom=False, length=0)
        _draw_ratios(middle, systems, spans)
        _draw_counts(lower, bins, spans)
        label_lengths(lower, lengths, spans, binned_by.axis)
        figure.align_ylabels()
        labels = [f"{plain(system.name, 40)} (BLEU {system.scores[0].value:.1f})" for system in systems]
        legend_above(figure, handles, labels, title)
        figure.supxlabel(_caption(systems, test_set, resamples), fontsize=7.5, color=GREY, x=0.015, ha="left")
    return figure


def _draw_system(axes: Axes, system: SystemScores, look: dict[str, Any], places: Floats) -> Line2D:
    bleu, low, high = (
        np.array([getattr(row, column) for row in system.rows]) for column in ("bleu", "bleu_low", "bleu_high")
    )
    for seed in system.seeds:  # each training, faintly, around their mean
        axes.plot(places, seed, color=look["color"], linewidth=0.6, alpha=0.6, marker=".", markersize=3)
    if len(places) == 1:  # through a single point goes neither a line nor a band
        axes.vlines(places, low, high, color=look["color"])
    else:
        axes.fill_between(places, low, high, color=look["color"], alpha=0.16, linewidth=0)
    (line,) = axes.plot(places, bleu, **look, markeredgecolor="white", markeredgewidth=0.6, clip_on=False, zorder=3)
    return line


def _ceiling(systems: Sequence[SystemScores]) -> float:
    """The upper end of the BLEU axis: some air above the highest band."""
    highest = max(max(row.bleu, row.bleu_high) for system in systems for row in system.rows)
    highest = max([highest, *(value for system in systems for seed in system.seeds for value in seed)])
    return min(max(highest * 1.06, 1.0), 100.0)


def _draw_ratios(axes: Axes, systems: Sequence[SystemScores], spans: Sequence[Span]) -> None:
    """Words of the hypotheses over words of the references: who stops early is below 1."""
    axes.axhline(1.0, color=GREY, linewidth=0.8)
    for number, system in enumerate(systems):
        ratios = np.array([row.length_ratio for row in system.rows])
        axes.plot(centres(spans, number, len(systems)), ratios, **series(number), markersize=4, clip_on=False)
    values = [row.length_ratio for system in systems for row in system.rows]
    axes.set_ylim(min(0.8, *values) - 0.05, max(1.2, *values) + 0.05)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3))
    axes.set_ylabel("Length ratio")


def _draw_counts(axes: Axes, bins: Sequence[LengthRow], spans: Sequence[Span]) -> None:
    counts = [row.n for row in bins]
    left, right = np.transpose(spans)
    bars = axes.bar(left, counts, width=right - left, align="edge", color="#BBBBBB", edgecolor="white", linewidth=1.0)
    axes.grid(False)
    axes.set_ylabel("Sentences")
    axes.set_ylim(0, max(counts) * 1.4)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    if wide_enough(spans):
        axes.bar_label(bars, labels=[f"{count:,}" for count in counts], padding=1.5, fontsize=8, color="#333333")


def _caption(systems: Sequence[SystemScores], test_set: str, resamples: int) -> str:
    sentences = sum(row.n for row in systems[0].rows)
    several = " Thick lines: means over seeds, thin ones: each." if any(system.seeds for system in systems) else ""
    return (
        f"{plain(test_set, 60)}: {sentences:,} sentences. Bands: 95% bootstrap intervals ({resamples:,} resamples)."
        f"{several}\n"
        f"sacreBLEU {systems[0].scores[0].signature}"
    )


def _numbers(
    systems: Sequence[SystemScores],
    test_set: str,
    resamples: int,
    comparisons: Sequence[Comparison],
    binned_by: BinnedBy,
) -> dict[str, Any]:
    return {
        "test_set": test_set,
        "sentences": sum(row.n for row in systems[0].rows),
        "binned_by": str(binned_by),
        "interval": {"level": 0.95, "method": "percentile bootstrap", "resamples": resamples, "seed": SEED},
        "signature": systems[0].scores[0].signature,
        "systems": {system.name: system.as_dict() for system in systems},
        "comparisons": [each.as_dict() for each in comparisons],
    }
