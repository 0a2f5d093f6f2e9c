"""The length curve: BLEU against sentence length (after Bahdanau et al. 2015, Fig. 2), and its numbers."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nmt.evaluation.by_length import SystemScores
from nmt.evaluation.metrics import Floats
from nmt.evaluation.retention import Retention
from nmt.evaluation.significance import Comparison, OverallComparison
from nmt.plots.about import About, write_caption
from nmt.plots.bins import centers, draw_counts, draw_points, label_lengths, spans_of
from nmt.plots.files import KINDS, numbers, table, write_all
from nmt.plots.style import GREY, legend_above, looks, plain, png, style, svg

ROOM_FOR_A_MARKER = 104.0
"""Maximum of the BLEU axis, with room for a marker at 100."""


def write_length_curve(
    systems: Sequence[SystemScores],
    stem: str | Path,
    *,
    about: About,
    title: str | None = None,
    comparisons: Sequence[Comparison] = (),
    overall: Sequence[OverallComparison] = (),
    retention: Retention | None = None,
) -> list[Path]:
    """Write ``stem``.png, .svg, .json and .csv, and return the paths.

    The systems are scored on the same sentences in the same bins; comparisons and retention are for the JSON.

    Raises DataError if they cannot be written.
    """
    figure = draw_length_curve(systems, about=about, title=title)
    facts = about.as_dict() | {
        "sentences": sum(row.n for row in systems[0].rows),
        "signature": systems[0].scores[0].signature,
        "systems": {system.name: system.as_dict() for system in systems},
        "comparisons": [asdict(each) for each in comparisons],
        "overall": [asdict(each) for each in overall],
        "kept": None if retention is None else asdict(retention),
    }
    rows = [asdict(row) for system in systems for row in system.rows]
    contents = png(figure), svg(figure), numbers(facts), table(rows)
    return write_all(stem, dict(zip(KINDS, contents, strict=True)))


def draw_length_curve(systems: Sequence[SystemScores], *, about: About, title: str | None = None) -> Figure:
    """Draw BLEU of each system by bin with a 95% band, and below it the length ratio and the sentences of each bin."""
    bins = systems[0].rows
    lengths, counts = [(row.low, row.high) for row in bins], [row.n for row in bins]
    spans, solid = spans_of(lengths), np.array(counts) >= about.min_sentences
    look = looks(system.name for system in systems)
    with style():
        figure = Figure(figsize=(7.5, 6.8), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
        upper, middle, lower = figure.subplots(3, 1, sharex=True, height_ratios=(4, 1.3, 1))
        handles = []
        middle.axhline(1.0, color=GREY, linewidth=0.8)
        for number, system in enumerate(systems):
            places = centers(spans, number, len(systems))
            handles.append(_draw_bleu(upper, system, look[system.name], places, solid))
            ratios = np.array([row.length_ratio for row in system.rows])
            draw_points(middle, places, ratios, solid, look[system.name] | {"markersize": 4})
        upper.set_ylabel("BLEU (0 to 100)")
        upper.set_ylim(0, _ceiling(systems, solid))
        for axes in (upper, middle):
            axes.tick_params(labelbottom=False, length=0)
        every_ratio = [row.length_ratio for system in systems for row in system.rows]
        middle.set_ylim(min(0.8, *every_ratio) - 0.05, max(1.2, *every_ratio) + 0.05)
        middle.yaxis.set_major_locator(MaxNLocator(nbins=3))
        middle.set_ylabel("Length ratio")
        draw_counts(lower, counts, spans)
        label_lengths(lower, lengths, spans, about.binned_by.axis)
        figure.align_ylabels()
        labels = [f"{plain(system.name, 40)} (BLEU {system.scores[0].value:.1f})" for system in systems]
        legend_above(figure, handles, labels, title)
        several_seeds = any(system.seeds for system in systems)
        signature = f"sacreBLEU {systems[0].scores[0].signature}"
        write_caption(figure, [*about.caption(counts, several_seeds), signature])
    return figure


def _draw_bleu(
    axes: Axes, system: SystemScores, look: dict[str, Any], places: Floats, solid: npt.NDArray[np.bool_]
) -> Line2D:
    bleu, low, high = np.transpose([(row.bleu, row.bleu_low, row.bleu_high) for row in system.rows])
    for seed in system.seeds:  # thin lines around their mean
        values = np.where(solid, seed, np.nan)
        axes.plot(places, values, color=look["color"], linewidth=0.6, alpha=0.6, marker=".", markersize=3)
    edges = {"markeredgecolor": "white", "markeredgewidth": 0.6}
    return draw_points(axes, places, bleu, solid, look | edges, (low, high))


def _ceiling(systems: Sequence[SystemScores], solid: npt.NDArray[np.bool_]) -> float:
    """Return the maximum of the BLEU axis, which leaves room above the highest point and interval."""
    points = [row.bleu for system in systems for row in system.rows]
    intervals = [row.bleu_high for system in systems for row, drawn in zip(system.rows, solid, strict=True) if drawn]
    seeds = [value for system in systems for seed in system.seeds for value in seed]
    return max(min(max([*points, *intervals, *seeds]) * 1.06, ROOM_FOR_A_MARKER), 1.0)
