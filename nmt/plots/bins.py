"""An axis of lengths, cut into bins, for every figure that has one; points and counts above it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nmt.evaluation.metrics import Floats

LEAST_LABELLED = 1 / 12
"""Share of the axis: if a bin is narrower, ticks stand at round lengths, and its bar has no number."""
Span = tuple[float, float]
Lengths = tuple[int, int]
"""The shortest and the longest sentence of a bin, both included."""


def spans_of(bins: Sequence[Lengths]) -> list[Span]:
    """Left and right end of each bin on the axis of lengths.

    The last bin reaches to the longest sentence, which may be far out: it is drawn no wider than the two widest others.
    """
    spans = [(low - 0.5, high + 0.5) for low, high in bins]
    if len(spans) > 1:
        left, right = spans[-1]
        spans[-1] = left, min(right, left + 2 * max(end - start for start, end in spans[:-1]))
    return spans


def centres(spans: Sequence[Span], number: int, systems: int) -> Floats:
    """Where a system's points stand: in the middle of the bins, or side by side if there is only one bin."""
    middles = np.mean(spans, axis=1)
    if len(spans) == 1:
        middles += (number - (systems - 1) / 2) * 0.06 * (spans[0][1] - spans[0][0])
    return np.asarray(middles)


def label_lengths(axes: Axes, bins: Sequence[Lengths], spans: Sequence[Span], label: str) -> None:
    """Name the bins by their lengths, or, if some are too narrow for that, the axis by round lengths."""
    axes.set_xlabel(label)
    first, last = spans[0][0], spans[-1][1]
    axes.set_xlim(first, last)
    ticks = {(left + right) / 2: _name(each) for each, (left, right) in zip(bins, spans, strict=True)}
    if not wide_enough(spans):
        lengths = MaxNLocator(nbins=10, integer=True).tick_values(first, last)
        to_scale, named = last, {}
        if last < bins[-1][1]:  # the last bin is not drawn to scale: it keeps its name
            middle, name = list(ticks.items())[-1]
            to_scale, named = middle - LEAST_LABELLED * (last - first), {middle: name}
        ticks = {length: f"{length:.0f}" for length in lengths if first <= length <= to_scale} | named
    axes.set_xticks(list(ticks), labels=list(ticks.values()))


def wide_enough(spans: Sequence[Span]) -> bool:
    """Whether every bin has room for a label."""
    narrowest = min(right - left for left, right in spans)
    return narrowest >= LEAST_LABELLED * (spans[-1][1] - spans[0][0])


def _name(lengths: Lengths) -> str:
    low, high = lengths
    return f"{low}" if low == high else f"{low}–{high}"


def draw_points(
    axes: Axes,
    places: Floats,
    values: Floats,
    solid: npt.NDArray[np.bool_],
    look: dict[str, Any],
    interval: tuple[Floats, Floats] | None = None,
) -> Line2D:
    """A point for each bin; those that are ``solid`` are joined by the line that is returned, within their intervals.

    The others are hollow: no line leads to them, and they have no interval. All arrays are (bins,).
    """
    colour, drawn = look["color"], np.where(solid, values, np.nan)
    if interval is not None:
        low, high = (np.where(solid, ends, np.nan) for ends in interval)
        axes.fill_between(places, low, high, color=colour, alpha=0.16, linewidth=0)
        alone = solid & ~np.append(solid[1:], False) & ~np.append(False, solid[:-1])
        if alone.any():
            axes.vlines(places[alone], low[alone], high[alone], color=colour)  # a band would have no width
    whole = {"clip_on": False, "zorder": 3, "in_layout": False}  # a point at the end of an axis, too
    if not solid.all():
        hollow = {"linestyle": "", "markerfacecolor": "white", "markeredgecolor": colour, "markeredgewidth": 1.0}
        axes.plot(places[~solid], values[~solid], **look | whole | hollow)
    (line,) = axes.plot(places, drawn, **look | whole)
    return line


def draw_counts(axes: Axes, counts: Sequence[int], spans: Sequence[Span], fontsize: float = 8) -> None:
    """A bar for the sentences of each bin, with its number if the bar is wide enough."""
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
