"""Learning curves: the training loss and the metrics of the validation set of several runs, by update and by time."""

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

from nmt.evaluation.metrics import METRICS, Floats, Metric
from nmt.plots.about import write_caption
from nmt.plots.files import numbers, write_all
from nmt.plots.style import DPI, legend_above, looks, plain, png, style, svg

KINDS = (".png", ".svg", ".json")
"""Endings of the files of :func:`write_learning`."""
TRAINING = "training"
"""Name of the curve of the training loss."""
STEEP = 10
"""A metric that falls by a larger factor, such as perplexity, has a logarithmic axis."""


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
    """The curves of a run: the training loss by the name ``TRAINING``, and metrics of the validation set by theirs."""

    name: str
    curves: Mapping[str, Curve]


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
    """Draw a row for each curve that any run has: against updates and, where hours are known, against them.

    A ring marks the best value of each run, by the direction of the metric.
    """
    names = [name for name in (TRAINING, *METRICS) if any(name in run.curves for run in runs)]
    timed = any(curve.hours is not None for run in runs for curve in run.curves.values())
    look = looks(run.name for run in runs)
    with style():
        columns = 2 if timed else 1
        figure = Figure(
            figsize=(3.9 * columns + 0.4, 1.7 * len(names) + 1.2),
            layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06),
        )
        panels = figure.subplots(len(names), columns, sharex="col", sharey="row", squeeze=False)
        handles: dict[str, Line2D] = {}
        for row, name in zip(panels, names, strict=True):
            drawn = {run.name: run.curves[name] for run in runs if name in run.curves}
            for run, curve in drawn.items():
                handles[run] = _draw_curve(row, curve, METRICS.get(name), look[run])
            metric = METRICS.get(name)
            row[0].set_ylabel("Training loss\n(nats per token)" if metric is None else f"Validation {metric.label}")
            _scale(row[0], metric, list(drawn.values()))
        for axes, label in zip(panels[-1], ("Updates", "Hours"), strict=False):
            axes.set_xlabel(label)
            axes.set_xlim(left=0)
        panels[-1][0].xaxis.set_major_formatter("{x:,.0f}")
        figure.align_ylabels()
        legend_above(figure, list(handles.values()), [plain(name, 40) for name in handles], title)
        write_caption(figure, caption)
    return figure


def _draw_curve(row: Sequence[Axes], curve: Curve, metric: Metric | None, look: dict[str, Any]) -> Line2D:
    """Draw a curve against updates and hours; of many points only some have markers."""
    marked = {"markersize": 4, "linewidth": 1.3, "markeredgecolor": "white", "markeredgewidth": 0.5}
    marked["markevery"] = max(1, len(curve.values) // 8)
    lines = []
    for axes, places in zip(row, (curve.updates, curve.hours), strict=False):
        if places is None:
            continue
        lines += axes.plot(places, curve.values, **look | marked)
        if metric is not None:
            best = int(np.argmax([metric.merit(value) for value in curve.values.tolist()]))
            ring = {"markersize": 9, "markerfacecolor": "none", "markeredgecolor": look["color"], "clip_on": False}
            axes.plot(places[best], curve.values[best], "o", **ring)
    return lines[0]


def _scale(axes: Axes, metric: Metric | None, curves: Sequence[Curve]) -> None:
    """Let scores begin at 0, and values that fall by large factors, such as perplexity, fall in equal factors."""
    values = np.concatenate([curve.values for curve in curves])
    if metric is not None and metric.higher_is_better:
        axes.set_ylim(bottom=min(0.0, values.min()))
    elif metric is not None and 0 < STEEP * values.min() < values.max():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
