"""Which sentences one system translates better than another: a point for each sentence, means and counts by length."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator

from nmt.evaluation.gains import NAMES, GainRow, Gains, SentenceMetric
from nmt.evaluation.metrics import Integers
from nmt.plots.about import About, write_caption
from nmt.plots.bins import Span, draw_points, label_lengths, spans_of
from nmt.plots.files import numbers, write_all
from nmt.plots.style import COLORS, DPI, GREY, legend_above, plain, png, style, svg

KINDS = (".png", ".svg", ".json")
"""Endings of the files of :func:`write_gains`."""
SHOWN = 0.45
"""Share of a bin's width over which the points of equal lengths are spread."""


@dataclass(frozen=True)
class Compared:
    """Two systems and the differences of their sentence scores."""

    first: str
    second: str
    metric: SentenceMetric
    signature: str
    lengths: Integers
    """(sentences,)"""
    gains: Gains


def write_gains(
    compared: Compared, stem: str | Path, *, about: About, title: str | None = None, dpi: int = DPI
) -> list[Path]:
    """Write ``stem``.png, .svg and .json, and return the paths. Raises DataError if they cannot be written."""
    figure = draw_gains(compared, about=about, title=title)
    facts = about.as_dict() | {
        "first": compared.first,
        "second": compared.second,
        "metric": NAMES[compared.metric],
        "signature": compared.signature,
        "all": asdict(compared.gains.whole),
        "by_length": [asdict(row) for row in compared.gains.rows],
        "differences": np.round(compared.gains.differences, 4).tolist(),
    }
    return write_all(stem, dict(zip(KINDS, (png(figure, dpi), svg(figure), numbers(facts)), strict=True)))


def draw_gains(compared: Compared, *, about: About, title: str | None = None) -> Figure:
    """Draw the difference of each sentence and the mean of each bin with a 95% interval, and below them how many
    sentences of each bin gained and lost."""
    rows = compared.gains.rows
    bins = [(row.low, row.high) for row in rows]
    spans, solid = spans_of(bins), np.array([row.n for row in rows]) >= about.min_sentences
    name = NAMES[compared.metric]
    with style():
        figure = Figure(figsize=(7.5, 5.8), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.2))
        handles = {
            **_draw_differences(upper, compared, spans, solid),
            **_draw_counts(lower, rows, spans),
        }
        upper.set_ylabel(f"Difference in {name} of a sentence")
        upper.tick_params(labelbottom=False, length=0)
        label_lengths(lower, bins, spans, about.binned_by.axis)
        figure.align_ylabels()
        heading = title or f"{plain(compared.second, 30)} minus {plain(compared.first, 30)}"
        legend_above(figure, list(handles.values()), list(handles), heading)
        write_caption(figure, [*about.caption([row.n for row in rows]), _summary(compared)])
    return figure


def _summary(compared: Compared) -> str:
    whole, name = compared.gains.whole, NAMES[compared.metric]
    return (
        f"All {whole.n:,} sentences: {whole.gained:,} gained, {whole.lost:,} lost; mean difference {whole.mean:+.2f} "
        f"{name} [{whole.mean_low:+.2f}, {whole.mean_high:+.2f}]. sacreBLEU {compared.signature}"
    )


def _draw_differences(axes: Axes, compared: Compared, spans: Sequence[Span], solid: Any) -> dict[str, Any]:
    rows, differences = compared.gains.rows, compared.gains.differences
    spread = np.random.default_rng(0).uniform(-SHOWN, SHOWN, len(differences))  # equal lengths would hide one another
    places = np.clip(compared.lengths + spread, spans[0][0], spans[-1][1])
    (points,) = axes.plot(
        places, differences, ".", color=GREY, markersize=2.5, alpha=0.35, linestyle="", rasterized=True
    )
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    middles = np.mean(spans, axis=1)
    means, lows, highs = np.transpose([(row.mean, row.mean_low, row.mean_high) for row in rows])
    look = {"color": COLORS[0], "marker": "o", "linestyle": "-"}
    line = draw_points(axes, middles, means, solid, look, (lows, highs))
    axes.vlines(middles[solid], lows[solid], highs[solid], color=COLORS[0], linewidth=1.2, zorder=3)
    least, most = float(differences.min()), float(differences.max())
    room = max(1.0, 0.05 * (most - least))
    axes.set_ylim(min(0.0, least) - room, max(0.0, most) + room)
    return {"each sentence": points, "mean and its 95% interval": line}


def _draw_counts(axes: Axes, rows: Sequence[GainRow], spans: Sequence[Span]) -> dict[str, Any]:
    """Draw the sentences of each bin that gained as bars above zero, and those that lost as hatched bars below it."""
    left, right = np.transpose(spans)
    gained, lost = np.array([row.gained for row in rows]), np.array([row.lost for row in rows])
    look: dict[str, Any] = {"width": right - left, "align": "edge", "edgecolor": "white", "linewidth": 1.0}
    above = axes.bar(left, gained, color=COLORS[5], **look)
    below = axes.bar(left, -lost, color=COLORS[4], hatch="////", **look)
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    axes.grid(False)
    room = 0.3 * max(1, int(gained.max() + lost.max()))
    axes.set_ylim(-lost.max() - room, gained.max() + room)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    axes.set_ylabel("Sentences")
    wide = (right - left) >= (right[-1] - left[0]) / 16
    for bars, counts in ((above, gained), (below, lost)):
        shown = [f"{count:,}" if count and label else "" for count, label in zip(counts, wide, strict=True)]
        axes.bar_label(bars, labels=shown, padding=1.5, fontsize=8, color="#333333")
    return {"sentences that gained": above, "sentences that lost": below}
