"""Figures of the diagnosis: why translations of long sentences are worse."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from nmt.evaluation.by_length import MIN_SENTENCES
from nmt.evaluation.diagnosis import LONG, MEASURES, REPEATED, SHORT, Diagnosis
from nmt.evaluation.figures.length_curve import About, centers, draw_counts, draw_points, label_lengths, spans_of
from nmt.evaluation.figures.style import legend_above, plain, series, style, write_caption
from nmt.evaluation.writing import Unit

PART_TITLES = {"early": "First third of the reference", "middle": "Second third", "late": "Last third"}
FIGURES = {
    "recall": (("Recall of content {unit}",), {f"recall_{part}": name for part, name in PART_TITLES.items()}),
    "probability": (
        ("Log-probability (nats)",),
        {f"log_probability_{part}": name for part, name in PART_TITLES.items()},
    ),
    "attention": (
        ("Bits", "Share of the source"),
        {"entropy": "Entropy of the attention", "distance_from_diagonal": "Distance from the diagonal"},
    ),
    "failures": (
        ("Share of the hypotheses",),
        {
            "stops_early": f"Under {SHORT} of the reference's {{unit}}",
            "runs_on": f"Over {LONG} of the reference's {{unit}}",
            "repeats": f"The same four {{unit}} {REPEATED} times",
        },
    ),
}
"""File ending to the labels of the panels (one shared label or one each) and their measures with headings.
``{unit}`` is the unit of the target language, words or characters."""
TITLES = {
    "recall": "Recall of content words by third of the reference",
    "probability": "Log-probability of the reference by third",
    "attention": "Spread of the attention",
    "failures": "Translations that fail",
}
ENDINGS = (*(f".{name}.{kind}" for name in FIGURES for kind in ("png", "svg")), ".json", ".csv")
"""Endings of all files that may be written."""


def draw_diagnoses(diagnoses: Sequence[Diagnosis], *, about: About, unit: Unit) -> dict[str, Figure]:
    """Draw each of FIGURES, by its name; there is no attention figure if no system has attention."""
    names = [name for name in FIGURES if name != "attention" or any(each.has("entropy") for each in diagnoses)]
    return {name: draw_diagnosis(diagnoses, name, about=about, unit=unit) for name in names}


def draw_diagnosis(diagnoses: Sequence[Diagnosis], name: str, *, about: About, unit: Unit) -> Figure:
    """Draw one of FIGURES: its measures side by side against source length, a line with a 95% band for each system, and
    below them the number of sentences of each bin."""
    labels, measures = FIGURES[name]
    bins = diagnoses[0].bins
    lengths, counts = [(each.low, each.high) for each in bins], [len(each.members) for each in bins]
    spans, solid = spans_of(lengths), np.array(counts) >= MIN_SENTENCES
    with style():
        layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)
        figure = Figure(figsize=(3.1 * len(measures) + 0.6, 4.3), layout=layout)
        shared: dict[str, Any] = {"sharex": "col", "sharey": "row" if len(labels) == 1 else False}
        panels, bars = figure.subplots(2, len(measures), squeeze=False, height_ratios=(4, 1), **shared)
        handles: dict[str, Line2D] = {}
        for axes, below, (measure, heading) in zip(panels, bars, measures.items(), strict=True):
            for number, each in enumerate(diagnoses):
                if each.has(measure):
                    column = MEASURES.index(measure)
                    means, *interval = (values[:, column] for values in (each.means, each.lows, each.highs))
                    places = centers(spans, number, len(diagnoses), apart=True)
                    look = series(number) | {"markersize": 4, "linewidth": 1.4}
                    handles[each.system] = draw_points(axes, places, means, solid, look, interval)
            axes.set_title(heading.format(unit=unit))
            axes.tick_params(labelbottom=False, length=0)
            draw_counts(below, counts, spans, fontsize=6)
            label_lengths(below, lengths, spans, about.unit)
            below.tick_params(axis="x", labelsize=7, rotation=45)
            below.tick_params(axis="y", labelsize=7)
        for below in bars[1:]:
            below.set_ylabel("")
        if name != "probability":
            _begin_at_zero(panels, shared=len(labels) == 1)
        for axes, label in zip(panels, labels, strict=False):  # a shared label is written once
            axes.set_ylabel(label.format(unit=unit))
        figure.align_ylabels()
        legend_above(figure, list(handles.values()), [plain(system, 40) for system in handles])
        write_caption(figure, about.caption(counts))
    return figure


def _begin_at_zero(panels: Sequence[Axes], *, shared: bool) -> None:
    """Scale each axis from 0 to above its highest point, so that no marker is cut off; all panels alike if shared."""
    highest = [axes.dataLim.y1 if np.isfinite(axes.dataLim.y1) else 0.0 for axes in panels]  # a panel may be empty
    for axes, own in zip(panels, highest, strict=True):
        axes.set_ylim(0, (max(highest) if shared else own) * 1.06 or 1.0)
