"""Why translations of long sentences are worse: a small figure for each reason."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from nmt.evaluation.by_length import SEED
from nmt.evaluation.diagnosis import LONG, MEASURES, REPEATED, SHORT, Diagnosis
from nmt.evaluation.metrics import Floats
from nmt.evaluation.scripts import BinnedBy, Unit
from nmt.plots.bins import centres, label_lengths, spans_of
from nmt.plots.files import numbers, table, write_all
from nmt.plots.style import GREY, legend_above, plain, png, series, style, svg

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


def write_diagnosis(
    diagnoses: Sequence[Diagnosis], stem: str | Path, *, test_set: str, resamples: int, binned_by: BinnedBy, unit: Unit
) -> list[Path]:
    """Draw and write ``stem``.recall, .probability, .attention and .failures, each as .png and .svg, and the numbers of
    all as ``stem``.json and .csv, each of them whole. Without a system that has attention, nothing is drawn of it.

    Args:
        diagnoses: one or more, of the same sentences in the same bins.
        stem: the files' common path; its folder is made if it is missing.
        test_set: what the captions call the sentences.
        resamples: of the bootstrap behind the intervals, for the captions.
        binned_by: what the lengths are of.
        unit: what the measures count in the target language.

    Raises DataError if they cannot be written.
    """
    contents: dict[str, bytes] = {}
    for name in FIGURES:
        if name != "attention" or any(each.has("entropy") for each in diagnoses):
            figure = draw_diagnosis(
                diagnoses, name, test_set=test_set, resamples=resamples, binned_by=binned_by, unit=unit
            )
            contents |= {f".{name}.png": png(figure), f".{name}.svg": svg(figure)}
    rows = [row for each in diagnoses for row in each.rows()]
    interval = {"level": 0.95, "method": "percentile bootstrap", "resamples": resamples, "seed": SEED}
    contents[".json"] = numbers(
        {
            "test_set": test_set,
            "binned_by": str(binned_by),
            "interval": interval,
            "systems": {each.system: _numbers(each) for each in diagnoses},
        }
    )
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


def draw_diagnosis(
    diagnoses: Sequence[Diagnosis], name: str, *, test_set: str, resamples: int, binned_by: BinnedBy, unit: Unit
) -> Figure:
    """One of FIGURES: its measures side by side against source length, a line with its 95% band for each system."""
    labels, measures = FIGURES[name]
    lengths = [(each.low, each.high) for each in diagnoses[0].bins]
    spans = spans_of(lengths)
    with style():
        figure = Figure(
            figsize=(3.1 * len(measures) + 0.6, 3.4), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)
        )
        panels = figure.subplots(1, len(measures), sharey=len(labels) == 1, squeeze=False)[0]
        handles: dict[str, Line2D] = {}
        for axes, (measure, heading) in zip(panels, measures.items(), strict=True):
            for number, each in enumerate(diagnoses):
                if each.has(measure):
                    handles[each.system] = _draw(axes, each, measure, number, centres(spans, number, len(diagnoses)))
            label_lengths(axes, lengths, spans, binned_by.axis)
            axes.tick_params(axis="x", labelsize=7, rotation=45)
            axes.set_title(heading.format(unit=unit))
        for axes in panels:
            if name != "probability":
                axes.set_ylim(bottom=0)
        for axes, label in zip(panels, labels, strict=False):  # one unit: it is written once
            axes.set_ylabel(label.format(unit=unit))
        legend_above(figure, list(handles.values()), [plain(system, 40) for system in handles])
        sentences = sum(len(each.members) for each in diagnoses[0].bins)
        caption = (
            f"{plain(test_set, 60)}: {sentences:,} sentences. Bands: 95% bootstrap intervals ({resamples:,} resamples)."
        )
        figure.supxlabel(caption, fontsize=7.5, color=GREY, x=0.015, ha="left")
    return figure


def _draw(axes: Axes, diagnosis: Diagnosis, measure: str, number: int, places: Floats) -> Line2D:
    column, look = MEASURES.index(measure), series(number)
    means, lows, highs = (each[:, column] for each in (diagnosis.means, diagnosis.lows, diagnosis.highs))
    if len(places) == 1:  # a band would have no width
        axes.vlines(places, lows, highs, color=look["color"])
    else:
        axes.fill_between(places, lows, highs, color=look["color"], alpha=0.16, linewidth=0)
    (line,) = axes.plot(places, means, **look | {"markersize": 4, "linewidth": 1.4})
    return line
