"""Learning curves: the training loss and the metrics of the validation set of several runs, by update and by time."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from nmt.evaluation.metrics import METRICS, Floats, Metric
from nmt.plots.style import legend_above, looks, plain, style, write_caption

TRAINING = "training"
"""Name of the curve of the training loss."""
STEEP = 10
"""A metric that falls by a larger factor, such as perplexity, has a logarithmic axis."""


class Curve(NamedTuple):
    """A measure of a run over its training."""

    updates: Floats
    """(points,), ascending."""
    hours: Floats | None
    """(points,), of training and validation; None if they are not known."""
    values: Floats
    """(points,)"""


Curves = Mapping[str, Curve]
"""Of one run: the training loss by the name ``TRAINING``, and each metric of the validation set by its name."""


def learning_curves(records: Sequence[Mapping[str, Any]]) -> dict[str, Curve]:
    """Return the curves of a run, given the records of its ``metrics.jsonl``."""
    hours = _hours(records)
    sources = {TRAINING: ("train", "loss"), **{name: ("validation", name) for name in METRICS}}
    curves = {}
    for curve, (split, name) in sources.items():
        points = [
            (record["step"], hour, record[name])
            for record, hour in zip(records, hours, strict=True)
            if record.get("split") == split and record.get(name) is not None
        ]
        if points:
            updates, at, values = (np.array(each, np.float64) for each in zip(*points, strict=True))
            curves[curve] = Curve(updates, None if np.isnan(at).any() else at, values)
    return curves


def _hours(records: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the hours of training and validation before each record; NaN if they are not known.

    Between two training lines, time is shared out evenly among the updates: a validation may lie between them.
    """
    training = [(0, 0.0)]
    training += [(each["step"], each.get("seconds", np.nan)) for each in records if each.get("split") == "train"]
    updates, seconds = zip(*training, strict=True)
    validation, hours = 0.0, []
    for record in records:
        if record.get("split") == "validation":
            validation += record.get("seconds", np.nan)
        hours.append((float(np.interp(record["step"], updates, seconds)) + validation) / 3600)
    return hours


def draw_learning(runs: Mapping[str, Curves]) -> Figure:
    """Draw a row for each curve that any run has: against updates and, where hours are known, against them.

    A ring marks the best value of each run, by the direction of the metric.
    """
    names = [name for name in (TRAINING, *METRICS) if any(name in curves for curves in runs.values())]
    timed = any(curve.hours is not None for curves in runs.values() for curve in curves.values())
    look = looks(runs)
    with style():
        columns = 2 if timed else 1
        figure = Figure(
            figsize=(3.9 * columns + 0.4, 1.7 * len(names) + 1.2),
            layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06),
        )
        panels = figure.subplots(len(names), columns, sharex="col", sharey="row", squeeze=False)
        handles: dict[str, Line2D] = {}
        for row, name in zip(panels, names, strict=True):
            drawn = {run: curves[name] for run, curves in runs.items() if name in curves}
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
        legend_above(figure, list(handles.values()), [plain(name, 40) for name in handles])
        write_caption(figure, ["Rings: the best of each run. Hours: of training and validation."])
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
