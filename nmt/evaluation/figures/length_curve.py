"""The length curve: BLEU against sentence length (after Bahdanau et al. 2015, Fig. 2), and its numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nmt.evaluation.by_length import MIN_SENTENCES, SEED, UNTRAINED, SystemScores
from nmt.evaluation.figures.style import GREY, legend_above, plain, series, style, write_caption
from nmt.evaluation.metrics import Floats
from nmt.evaluation.writing import Unit, source_length

LEAST_LABELLED = 1 / 12
"""Share of the axis: if a bin is narrower, not every bin has a label, and its bar has no number."""
Span = tuple[float, float]
Lengths = tuple[int, int]
"""Shortest and longest length of a bin, both included."""
Solid = npt.NDArray[np.bool_]
"""(bins,): whether a bin has enough sentences."""
ROOM_FOR_A_MARKER = 104.0
"""Maximum of the BLEU axis, with room for a marker at 100."""
LOWEST_CEILING = 10.0
"""The least maximum: on a shorter axis, tiny differences between untrained systems would look large."""


@dataclass(frozen=True)
class About:
    """The content of a caption, the same for all figures of a command."""

    test_set: str
    resamples: int
    unit: Unit
    """The unit of source length."""
    runs: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    """For the files of numbers: the run of each seed, by system; none for a file of translations."""
    untrained: Sequence[str] = ()
    """The systems whose BLEU is too low to compare."""

    def caption(self, counts: Sequence[int], several_seeds: bool = False) -> list[str]:
        """Return the paragraphs of every figure over bins; ``counts`` are the numbers of sentences in the bins."""
        drawn = []
        if max(counts) >= MIN_SENTENCES:
            shown = "Bands" if len(counts) > 1 else "Upright lines"
            drawn.append(f"{shown}: 95% bootstrap intervals over sentences, not seeds ({self.resamples:,} resamples)")
        if min(counts) < MIN_SENTENCES:
            drawn.append(f"Hollow points: fewer than {MIN_SENTENCES} sentences, no interval")
        if several_seeds:
            drawn.append("Thick lines: mean over seeds; thin lines: each seed")
        paragraphs = [f"{plain(self.test_set, 60)}: {sum(counts):,} sentences.", " ".join(f"{each}." for each in drawn)]
        if self.untrained:
            paragraphs.append(f"{', '.join(plain(name, 24) for name in self.untrained)}: {UNTRAINED}.")
        return paragraphs

    def as_dict(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        return {
            "test_set": self.test_set,
            "binned_by": source_length(self.unit),
            "min_sentences": MIN_SENTENCES,
            "runs": self.runs,
            "interval": {"level": 0.95, "method": "percentile bootstrap", "resamples": self.resamples, "seed": SEED},
        }


def draw_length_curve(systems: Sequence[SystemScores], *, about: About) -> Figure:
    """Draw BLEU of each system by bin with a 95% band, and below it the length ratio and the sentences of each bin."""
    bins = systems[0].rows
    lengths, counts = [(row.low, row.high) for row in bins], [row.n for row in bins]
    spans, solid = spans_of(lengths), np.array(counts) >= MIN_SENTENCES
    with style():
        figure = Figure(figsize=(7.5, 6.8), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
        upper, middle, lower = figure.subplots(3, 1, sharex=True, height_ratios=(4, 1.3, 1))
        middle.axhline(1.0, color=GREY, linewidth=0.8)
        handles, labels = [], []
        for number, system in enumerate(systems):
            places = centers(spans, number, len(systems))
            handles.append(_draw_bleu(upper, system, series(number), places, solid))
            labels.append(f"{plain(system.name, 40)} (BLEU {system.bleu.value:.1f})")
            ratios = np.array([row.length_ratio for row in system.rows])
            draw_points(middle, places, ratios, solid, series(number) | {"markersize": 4})
        upper.set(ylabel="BLEU (0 to 100)", ylim=(0, _ceiling(systems, solid)))
        for axes in (upper, middle):
            axes.tick_params(labelbottom=False, length=0)
        every_ratio = [row.length_ratio for system in systems for row in system.rows]
        middle.set(ylabel="Length ratio", ylim=(min(0.8, *every_ratio) - 0.05, max(1.2, *every_ratio) + 0.05))
        middle.yaxis.set_major_locator(MaxNLocator(nbins=3))
        draw_counts(lower, counts, spans)
        label_lengths(lower, lengths, spans, about.unit)
        figure.align_ylabels()
        legend_above(figure, handles, labels)
        caption = about.caption(counts, several_seeds=any(system.seeds for system in systems))
        if np.isnan([row.bleu for row in bins]).any():
            caption.append("No point: no reference has four tokens, so that BLEU is undefined.")
        write_caption(figure, [*caption, f"sacreBLEU {systems[0].bleu.signature}"])
    return figure


def _draw_bleu(axes: Axes, system: SystemScores, look: dict[str, Any], places: Floats, solid: Solid) -> Line2D:
    bleu, low, high = np.transpose([(row.bleu, row.bleu_low, row.bleu_high) for row in system.rows])
    for seed in system.seeds:  # thin lines around their mean
        values = np.where(solid, seed, np.nan)
        axes.plot(places, values, color=look["color"], linewidth=0.6, alpha=0.6, marker=".", markersize=3)
    edges = {"markeredgecolor": "white", "markeredgewidth": 0.6}
    return draw_points(axes, places, bleu, solid, look | edges, (low, high))


def _ceiling(systems: Sequence[SystemScores], solid: Solid) -> float:
    """Return the maximum of the BLEU axis, which leaves room above the highest point and interval."""
    points = [row.bleu for system in systems for row in system.rows]
    intervals = [row.bleu_high for system in systems for row, drawn in zip(system.rows, solid, strict=True) if drawn]
    seeds = [value for system in systems for seed in system.seeds for value in seed]
    return max(min(float(np.nanmax([0.0, *points, *intervals, *seeds])) * 1.06, ROOM_FOR_A_MARKER), LOWEST_CEILING)


# --- an axis of lengths in bins, for every figure by length -----------------------------------------------------------


def spans_of(bins: Sequence[Lengths]) -> list[Span]:
    """Return the left and right end of each bin on the axis of lengths.

    The last bin ends at the longest sentence, which may be very long: it is at most twice as wide as the widest other.
    """
    spans = [(low - 0.5, high + 0.5) for low, high in bins]
    if len(spans) > 1:
        left, right = spans[-1]
        spans[-1] = left, min(right, left + 2 * max(end - start for start, end in spans[:-1]))
    return spans


def centers(spans: Sequence[Span], number: int, systems: int, *, apart: bool = False) -> Floats:
    """Return the places of a system's points: the middle of each bin, or side by side if they are to stand ``apart``,
    as equal values would hide each other, or if there is only one bin."""
    left, right = np.transpose(spans)
    shift = (number - (systems - 1) / 2) * 0.06 if apart or len(spans) == 1 else 0.0
    return np.asarray((left + right) / 2 + shift * (right - left))


def label_lengths(axes: Axes, bins: Sequence[Lengths], spans: Sequence[Span], unit: Unit) -> None:
    """Label the bins with their lengths, or each second or third of them if some are too narrow."""
    axes.set_xlabel(f"Source length ({unit})")
    axes.set_xlim(spans[0][0], spans[-1][1])
    room = LEAST_LABELLED * (spans[-1][1] - spans[0][0])
    step = int(np.ceil(room / min(right - left for left, right in spans) - 1e-6))
    names = [f"{low}" if low == high else f"{low}–{high}" for low, high in bins]
    axes.set_xticks(np.mean(spans, axis=1)[::step], labels=names[::step])


def draw_points(
    axes: Axes, places: Floats, values: Floats, solid: Solid, look: dict[str, Any], interval: Sequence[Floats] = ()
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
