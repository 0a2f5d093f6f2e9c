"""Why translations of long sentences are worse: a small figure for each reason."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from nmt.evaluation.diagnosis import LONG, MEASURES, REPEATED, SHORT, Diagnosis
from nmt.evaluation.metrics import Floats
from nmt.evaluation.writing import Unit
from nmt.plots.about import About, write_caption
from nmt.plots.bins import centres, draw_counts, draw_points, label_lengths, spans_of
from nmt.plots.files import numbers, table, write_all
from nmt.plots.style import legend_above, looks, plain, png, style, svg

THIRDS = {"early": "First third of the reference", "middle": "Second third", "late": "Last third"}
FIGURES = {
    "recall": (("Recall of content {unit}",), {f"recall_{part}": name for part, name in THIRDS.items()}),
    "probability": (
        ("Log-probability (nats a piece)",),
        {f"log_probability_{part}": name for part, name in THIRDS.items()},
    ),
    "attention": (
        ("Nats", "Share of the source"),
        {"entropy": "Entropy of the attention", "distance_from_diagonal": "Its distance from the diagonal"},
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
"""Ending of the file: the unit of its panels, or of each, and the measure of each with its heading.
``{unit}`` is what is counted in the target language, words or characters."""
ENDINGS = (*(f".{name}.{kind}" for name in FIGURES for kind in ("png", "svg")), ".json", ".csv")
"""Of the files that may be written."""


def write_diagnosis(diagnoses: Sequence[Diagnosis], stem: str | Path, *, about: About, unit: Unit) -> list[Path]:
    """Draw and write ``stem``.recall, .probability, .attention and .failures, each as .png and .svg, and the numbers of
    all as ``stem``.json and .csv, each of them whole. Without a system that has attention, nothing is drawn of it.

    Args:
        diagnoses: one or more, of the same sentences in the same bins.
        stem: the files' common path; its folder is made if it is missing.
        about: what the captions say, and which bins are drawn hollow.
        unit: what the measures count in the target language.

    Raises DataError if they cannot be written.
    """
    contents: dict[str, bytes] = {}
    for name in FIGURES:
        if name != "attention" or any(each.has("entropy") for each in diagnoses):
            figure = draw_diagnosis(diagnoses, name, about=about, unit=unit)
            contents |= {f".{name}.png": png(figure), f".{name}.svg": svg(figure)}
    rows = [row for each in diagnoses for row in each.rows()]
    contents[".json"] = numbers(about.as_dict() | {"systems": {each.system: _numbers(each) for each in diagnoses}})
    contents[".csv"] = table(rows)
    return write_all(stem, contents)


def _numbers(diagnosis: Diagnosis) -> list[dict[str, object]]:
    """The rows, with an interval beside each mean."""
    rows: list[dict[str, object]] = []
    for row, lows, highs in zip(diagnosis.rows(), diagnosis.lows.tolist(), diagnosis.highs.tolist(), strict=True):
        intervals = {
            f"{name}_interval": [low, high]
            for name, low, high in zip(MEASURES, lows, highs, strict=True)
            if row[name] is not None
        }
        rows.append(row | intervals)
    return rows


def draw_diagnosis(diagnoses: Sequence[Diagnosis], name: str, *, about: About, unit: Unit) -> Figure:
    """One of FIGURES: its measures side by side against source length, a line with its 95% band for each system; below
    them the sentences of each bin."""
    labels, measures = FIGURES[name]
    bins = diagnoses[0].bins
    lengths, counts = [(each.low, each.high) for each in bins], [len(each.members) for each in bins]
    spans, solid = spans_of(lengths), np.array(counts) >= about.min_sentences
    look = looks(each.system for each in diagnoses)
    with style():
        figure = Figure(
            figsize=(3.1 * len(measures) + 0.6, 4.3), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)
        )
        panels, bars = figure.subplots(
            2,
            len(measures),
            sharex="col",
            sharey="row" if len(labels) == 1 else False,
            squeeze=False,
            height_ratios=(4, 1),
        )
        handles: dict[str, Line2D] = {}
        for axes, below, (measure, heading) in zip(panels, bars, measures.items(), strict=True):
            for number, each in enumerate(diagnoses):
                if each.has(measure):
                    places = centres(spans, number, len(diagnoses))
                    handles[each.system] = _draw(axes, each, measure, look[each.system], places, solid)
            axes.set_title(heading.format(unit=unit))
            axes.tick_params(labelbottom=False, length=0)
            draw_counts(below, counts, spans, fontsize=6)
            label_lengths(below, lengths, spans, about.binned_by.axis)
            below.tick_params(axis="x", labelsize=7, rotation=45)
            below.tick_params(axis="y", labelsize=7)
        for below in bars[1:]:
            below.set_ylabel("")
        if name != "probability":
            _begin_at_zero(panels, shared=len(labels) == 1)
        for axes, label in zip(panels, labels, strict=False):  # one unit: it is written once
            axes.set_ylabel(label.format(unit=unit))
        figure.align_ylabels()
        legend_above(figure, list(handles.values()), [plain(system, 40) for system in handles])
        write_caption(figure, about.caption(counts))
    return figure


def _begin_at_zero(panels: Sequence[Axes], *, shared: bool) -> None:
    """From 0 to some air above the highest point, of all panels if they share the axis: no marker is cut off there."""
    highest = [axes.dataLim.y1 if np.isfinite(axes.dataLim.y1) else 0.0 for axes in panels]  # nothing is in some
    for axes, own in zip(panels, highest, strict=True):
        axes.set_ylim(0, (max(highest) if shared else own) * 1.06 or 1.0)


def _draw(
    axes: Axes,
    diagnosis: Diagnosis,
    measure: str,
    look: dict[str, Any],
    places: Floats,
    solid: npt.NDArray[np.bool_],
) -> Line2D:
    column = MEASURES.index(measure)
    means, lows, highs = (each[:, column] for each in (diagnosis.means, diagnosis.lows, diagnosis.highs))
    return draw_points(axes, places, means, solid, look | {"markersize": 4, "linewidth": 1.4}, (lows, highs))
