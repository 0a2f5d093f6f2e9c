"""Learning curves: training loss, validation perplexity and BLEU of several runs, by update and by time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from nmt.evaluation.metrics import Floats
from nmt.plots.about import write_caption
from nmt.plots.files import numbers, write_all
from nmt.plots.style import DPI, legend_above, looks, plain, png, style, svg

KINDS = (".png", ".svg", ".json")
"""Endings of the files of :func:`write_learning`."""
MEASURES = {
    "loss": "Training loss\n(nats per token)",
    "perplexity": "Validation perplexity",
    "bleu": "Validation BLEU\n(0 to 100)",
}
"""Each measure with the label of its axis."""


@dataclass(frozen=True)
class Curve:
    """A measure of a run over its training."""

    updates: Floats
    """(points,), ascending."""
    hours: Floats | None
    """(points,), of training and validation; None if they are not known."""
    values: Floats
    """(points,)"""


@dataclass(frozen=True)
class Learning:
    """The curves of a run, by measure; a measure may be missing."""

    name: str
    curves: Mapping[str, Curve]

    @property
    def label(self) -> str:
        """The name, with the best BLEU if there is any."""
        name, bleu = plain(self.name, 40), self.curves.get("bleu")
        return name if bleu is None else f"{name} (best BLEU {bleu.values.max():.1f})"


def write_learning(
    runs: Sequence[Learning],
    stem: str | Path,
    *,
    title: str | None = None,
    caption: Sequence[str] = (),
    dpi: int = DPI,
) -> list[Path]:
    """Write ``stem``.png, .svg and .json, and return the paths. Raises DataError if they cannot be written."""
    figure = draw_learning(runs, title=title, caption=caption)
    facts = {run.name: {measure: _numbers(curve) for measure, curve in run.curves.items()} for run in runs}
    return write_all(stem, dict(zip(KINDS, (png(figure, dpi), svg(figure), numbers({"runs": facts})), strict=True)))


def _numbers(curve: Curve) -> dict[str, Any]:
    hours = None if curve.hours is None else np.round(curve.hours, 5).tolist()
    return {"updates": curve.updates.tolist(), "hours": hours, "values": np.round(curve.values, 5).tolist()}


def draw_learning(runs: Sequence[Learning], *, title: str | None = None, caption: Sequence[str] = ()) -> Figure:
    """Draw a row for each measure that any run has: against updates and, where hours are known, against them.

    A ring marks the best BLEU of each run.
    """
    measures = [name for name in MEASURES if any(name in run.curves for run in runs)]
    timed = any(curve.hours is not None for run in runs for curve in run.curves.values())
    look = looks(run.name for run in runs)
    with style():
        columns = 2 if timed else 1
        figure = Figure(
            figsize=(3.9 * columns + 0.4, 1.9 * len(measures) + 1.2),
            layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06),
        )
        panels = figure.subplots(len(measures), columns, sharex="col", sharey="row", squeeze=False)
        handles: dict[str, Line2D] = {}
        for row, measure in zip(panels, measures, strict=True):
            for run in runs:
                if measure in run.curves:
                    handles[run.name] = _draw_curve(row, run.curves[measure], measure, look[run.name])
            row[0].set_ylabel(MEASURES[measure])
            _scale(row[0], measure, runs)
        for axes, label in zip(panels[-1], ("Updates", "Hours"), strict=False):
            axes.set_xlabel(label)
            axes.set_xlim(left=0)
        panels[-1][0].xaxis.set_major_formatter("{x:,.0f}")
        figure.align_ylabels()
        drawn = [run for run in runs if run.name in handles]
        legend_above(figure, [handles[run.name] for run in drawn], [run.label for run in drawn], title)
        write_caption(figure, caption)
    return figure


def _draw_curve(row: Sequence[Axes], curve: Curve, measure: str, look: dict[str, Any]) -> Line2D:
    """Draw a curve against updates and hours; points that are many have no markers."""
    marked = {"markersize": 4, "linewidth": 1.3, "markeredgecolor": "white", "markeredgewidth": 0.5}
    marked["markevery"] = max(1, len(curve.values) // 8)
    lines = []
    for axes, places in zip(row, (curve.updates, curve.hours), strict=False):
        if places is None:
            continue
        lines += axes.plot(places, curve.values, **look | marked)
        if measure == "bleu":
            best = int(curve.values.argmax())
            ring = {"markersize": 9, "markerfacecolor": "none", "markeredgecolor": look["color"], "clip_on": False}
            axes.plot(places[best], curve.values[best], "o", **ring)
    return lines[0]


def _scale(axes: Axes, measure: str, runs: Sequence[Learning]) -> None:
    """Let BLEU begin at 0, and perplexity rise in equal factors, with plain numbers."""
    if measure == "bleu":
        axes.set_ylim(bottom=0)
    elif measure == "perplexity":
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
