"""An axis of lengths in bins, with points and counts above it, shared by all figures by length."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nmt.evaluation.metrics import Floats

LEAST_LABELLED = 1 / 12
"""Share of the axis: if a bin is narrower, ticks are at round lengths and its bar has no number."""
Span = tuple[float, float]
Lengths = tuple[int, int]
"""Shortest and longest length of a bin, both included."""


def spans_of(bins: Sequence[Lengths]) -> list[Span]:
    """Return the left and right end of each bin on the axis of lengths.

    The last bin ends at the longest sentence, which may be very long: it is at most twice as wide as the widest other.
    """
    spans = [(low - 0.5, high + 0.5) for low, high in bins]
    if len(spans) > 1:
        left, right = spans[-1]
        spans[-1] = left, min(right, left + 2 * max(end - start for start, end in spans[:-1]))
    return spans


def centers(spans: Sequence[Span], number: int, systems: int) -> Floats:
    """Return the places of a system's points: the middle of each bin, or side by side if there is only one bin."""
    middles = np.mean(spans, axis=1)
    if len(spans) == 1:
        middles += (number - (systems - 1) / 2) * 0.06 * (spans[0][1] - spans[0][0])
    return np.asarray(middles)


def label_lengths(axes: Axes, bins: Sequence[Lengths], spans: Sequence[Span], label: str) -> None:
    """Label the bins with their lengths or, if some are too narrow, the axis with round lengths."""
    axes.set_xlabel(label)
    first, last = spans[0][0], spans[-1][1]
    axes.set_xlim(first, last)
    names = [f"{low}" if low == high else f"{low}–{high}" for low, high in bins]
    ticks = {(left + right) / 2: name for name, (left, right) in zip(names, spans, strict=True)}
    if min(right - left for left, right in spans) < LEAST_LABELLED * (last - first):
        lengths = MaxNLocator(nbins=10, integer=True).tick_values(first, last)
        to_scale, named = last, {}
        if last < bins[-1][1]:  # the last bin is not to scale: keep its label
            middle = max(ticks)
            to_scale, named = middle - LEAST_LABELLED * (last - first), {middle: ticks[middle]}
        ticks = {length: f"{length:.0f}" for length in lengths if first <= length <= to_scale} | named
    axes.set_xticks(list(ticks), labels=list(ticks.values()))


def draw_points(
    axes: Axes,
    places: Floats,
    values: Floats,
    solid: npt.NDArray[np.bool_],
    look: dict[str, Any],
    interval: Sequence[Floats] = (),
) -> Line2D:
    """Draw a point for each bin, and return the line through the ``solid`` points, which have an interval.

    The other points are hollow, without line and interval. All arrays are (bins,).
    """
    color, drawn = look["color"], np.where(solid, values, np.nan)
    if interval:
        low, high = (np.where(solid, ends, np.nan) for ends in interval)
        axes.fill_between(places, low, high, color=color, alpha=0.16, linewidth=0)
        alone = solid & ~np.append(solid[1:], False) & ~np.append(False, solid[:-1])
        if alone.any():
            axes.vlines(places[alone], low[alone], high[alone], color=color)  # a band would have no width
    whole = {"clip_on": False, "zorder": 3, "in_layout": False}  # also at the end of an axis
    if not solid.all():
        hollow = {"linestyle": "", "markerfacecolor": "white", "markeredgecolor": color, "markeredgewidth": 1.0}
        axes.plot(places[~solid], values[~solid], **look | whole | hollow)
    (line,) = axes.plot(places, drawn, **look | whole)
    return line


def draw_counts(axes: Axes, counts: Sequence[int], spans: Sequence[Span], fontsize: float = 8) -> None:
    """Draw a bar for the number of sentences of each bin, with a label if the bar is wide enough."""
    left, right = np.transpose(spans)
    bars = axes.bar(left, counts, width=right - left, align="edge", color="#BBBBBB", edgecolor="white", linewidth=1.0)
    axes.grid(False)
    axes.set_ylabel("Sentences")
    axes.set_ylim(0, max(counts) * 1.4)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    room = LEAST_LABELLED * (spans[-1][1] - spans[0][0])
    labels = [f"{n:,}" if end - start >= room else "" for n, (start, end) in zip(counts, spans, strict=True)]
    axes.bar_label(bars, labels=labels, padding=1.5, fontsize=fontsize, color="#333333")
