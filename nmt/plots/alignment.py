"""Attention as word alignment: the error rate against the threshold of a link's weight."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from nmt.plots.about import write_caption
from nmt.plots.style import GREY, legend_above, looks, plain, style


def draw_error_rates(
    reports: Mapping[str, Mapping[str, Any]], *, test_set: str, systems: Sequence[str] | None = None
) -> Figure:
    """Draw the error rate of each system by threshold, a dotted line for its most attended source words, and a gray
    line for the diagonal.

    The reports are those of :func:`~nmt.evaluation.links.alignment_report` on the same pairs, which the caption calls
    ``test_set``. With the ``systems`` of related figures, each system has the same colors in all of them.
    """
    any_report = next(iter(reports.values()))
    gold = any_report["gold"]
    with style():
        figure = Figure(figsize=(5.4, 4.2), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06))
        axes = figure.add_subplot()
        handles = []
        order = looks(systems or reports)
        for name, report in reports.items():
            look = order[name]
            thresholds, rates = np.transpose([(row["threshold"], row["error_rate"]) for row in report["thresholds"]])
            handles += axes.plot(thresholds, rates, **look | {"markersize": 4, "linewidth": 1.4, "clip_on": False})
            axes.axhline(report["likeliest"]["error_rate"], color=look["color"], linewidth=0.8, linestyle=":")
        handles.append(axes.axhline(any_report["diagonal"]["error_rate"], color=GREY, linewidth=1.4))
        axes.set(xlabel="Minimum weight of a link", ylabel="Alignment error rate", ylim=(0, 1.02), xlim=(0, 1))
        legend_above(figure, handles, [*(plain(name, 40) for name in reports), "diagonal"])
        size = f"{gold['pairs']:,} pairs, {gold['possible']:,} links, {gold['sure']:,} of them sure"
        dotted = "Dotted: each target word's most attended source word."
        write_caption(figure, [f"{plain(test_set, 60)}: {size}.", dotted])
    return figure
