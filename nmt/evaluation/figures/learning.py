"""Learning curves: the training loss and the metrics of the validation set of several runs, by update."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from nmt.evaluation.figures.style import legend_above, looks, plain, style, write_caption
from nmt.evaluation.metrics import METRICS, Floats, Metric

TRAINING = "training"
"""Name of the curve of the training loss."""
STEEP = 10
"""A metric that falls by a larger factor, such as perplexity, has a logarithmic axis."""


class Curve(NamedTuple):
    """A measure of a run over its training."""

    updates: Floats
    """(points,), ascending."""
    values: Floats
    """(points,)"""


Curves = Mapping[str, Curve]
"""Of one run: the training loss by the name ``TRAINING``, and each metric of the validation set by its name."""


def learning_curves(records: Sequence[Mapping[str, Any]]) -> dict[str, Curve]:
    """Return the curves of a run, given the records of its ``metrics.jsonl``."""
    sources = {TRAINING: ("train", "loss"), **{name: ("validation", name) for name in METRICS}}
    curves = {}
    for curve, (split, name) in sources.items():
        points = [
            (record["step"], record[name])
            for record in records
            if record.get("split") == split and record.get(name) is not None
        ]
        if points:
            curves[curve] = Curve(*(np.array(each, np.float64) for each in zip(*points, strict=True)))
    return curves


def draw_learning(runs: Mapping[str, Curves]) -> Figure:
    """Draw a panel for each curve that any run has, against updates.

    A ring marks the best value of each run, by the direction of the metric.
    """
    names = [name for name in (TRAINING, *METRICS) if any(name in curves for curves in runs.values())]
    look = looks(runs)
    with style():
        figure = Figure(figsize=(7.5, 1.7 * len(names) + 1.2), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06))
        panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
        handles: dict[str, Line2D] = {}
        for axes, name in zip(panels, names, strict=True):
            drawn = {run: curves[name] for run, curves in runs.items() if name in curves}
            metric = METRICS.get(name)
            for run, curve in drawn.items():
                handles[run] = _draw_curve(axes, curve, metric, look[run])
            axes.set_ylabel("Training loss\n(nats per token)" if metric is None else f"Validation {metric.label}")
            _scale(axes, metric, list(drawn.values()))
        panels[-1].set_xlabel("Updates")
        panels[-1].set_xlim(left=0)
        panels[-1].xaxis.set_major_formatter("{x:,.0f}")
        figure.align_ylabels()
        legend_above(figure, list(handles.values()), [plain(name, 40) for name in handles])
        write_caption(figure, ["Rings: the best of each run."])
    return figure


def _draw_curve(axes: Axes, curve: Curve, metric: Metric | None, look: dict[str, Any]) -> Line2D:
    """Draw a curve; of many points only some have markers."""
    marked = {"markersize": 4, "linewidth": 1.3, "markeredgecolor": "white", "markeredgewidth": 0.5}
    marked["markevery"] = max(1, len(curve.values) // 8)
    (line,) = axes.plot(curve.updates, curve.values, **look | marked)
    if metric is not None:
        best = int(np.argmax([metric.merit(value) for value in curve.values.tolist()]))
        ring = {"markersize": 9, "markerfacecolor": "none", "markeredgecolor": look["color"], "clip_on": False}
        axes.plot(curve.updates[best], curve.values[best], "o", **ring)
    return line


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
