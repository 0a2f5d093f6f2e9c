"""The length curve: BLEU against sentence length (after Bahdanau et al. 2015, Fig. 2), and its numbers."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nmt.errors import DataError, tried
from nmt.evaluation.by_length import COLUMNS, MIN_SENTENCES, UNTRAINED, LengthRow, SystemScores
from nmt.evaluation.metrics import Floats
from nmt.evaluation.retention import Retention
from nmt.evaluation.significance import Comparison, OverallComparison
from nmt.plots.about import About, write_caption
from nmt.plots.bins import centers, draw_counts, draw_points, label_lengths, spans_of
from nmt.plots.files import KINDS, numbers, table, write_all
from nmt.plots.style import GREY, legend_above, plain, png, series, style, svg

ROOM_FOR_A_MARKER = 104.0
"""Maximum of the BLEU axis, with room for a marker at 100."""


def write_length_curve(
    systems: Sequence[SystemScores],
    stem: str | Path,
    *,
    about: About,
    title: str | None = None,
    comparisons: Sequence[Comparison] = (),
    overall: Sequence[OverallComparison] = (),
    retention: Retention | None = None,
) -> list[Path]:
    """Write ``stem``.png, .svg, .json and .csv, and return the paths.

    The systems are scored on the same sentences in the same bins; comparisons and retention are for the JSON.

    Raises DataError if they cannot be written.
    """
    figure = draw_length_curve(systems, about=about, title=title)
    facts = about.as_dict() | {
        "sentences": sum(row.n for row in systems[0].rows),
        "signature": systems[0].bleu.signature,
        "systems": {system.name: system.as_dict() for system in systems},
        "comparisons": [asdict(each) for each in comparisons],
        "overall": [asdict(each) for each in overall],
        "kept": None if retention is None else asdict(retention),
    }
    rows = [asdict(row) for system in systems for row in system.rows]
    contents = png(figure), svg(figure), numbers(facts), table(rows)
    return write_all(stem, dict(zip(KINDS, contents, strict=True)))


@dataclass(frozen=True)
class Curve:
    """One line of the figure."""

    label: str
    rows: Sequence[LengthRow]
    """Its points, in the bins of all other curves."""
    seeds: Sequence[Sequence[float]] = ()
    """BLEU of each seed in each bin, if the rows are means over several."""


def draw_length_curve(systems: Sequence[SystemScores], *, about: About, title: str | None = None) -> Figure:
    """Draw BLEU of each system by bin with a 95% band, and below it the length ratio and the sentences of each bin."""
    curves = [
        Curve(f"{plain(system.name, 40)} (BLEU {system.bleu.value:.1f})", system.rows, system.seeds)
        for system in systems
    ]
    counts = [row.n for row in systems[0].rows]
    several_seeds = any(system.seeds for system in systems)
    caption = [*about.caption(counts, several_seeds), f"sacreBLEU {systems[0].bleu.signature}"]
    if untrained := [plain(each.name, 24) for each in systems if not each.comparable]:
        caption.append(f"{', '.join(untrained)}: {UNTRAINED}.")
    return draw_curves(
        curves, axis=about.binned_by.axis, min_sentences=about.min_sentences, caption=caption, title=title
    )


def draw_curves(
    curves: Sequence[Curve], *, axis: str, min_sentences: int, caption: Sequence[str], title: str | None = None
) -> Figure:
    """Draw curves that have the same bins; ``axis`` names the lengths, ``caption`` has the paragraphs below."""
    bins = curves[0].rows
    lengths, counts = [(row.low, row.high) for row in bins], [row.n for row in bins]
    spans, solid = spans_of(lengths), np.array(counts) >= min_sentences
    with style():
        figure = Figure(figsize=(7.5, 6.8), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
        upper, middle, lower = figure.subplots(3, 1, sharex=True, height_ratios=(4, 1.3, 1))
        handles = []
        middle.axhline(1.0, color=GREY, linewidth=0.8)
        for number, curve in enumerate(curves):
            places = centers(spans, number, len(curves))
            handles.append(_draw_bleu(upper, curve, series(number), places, solid))
            ratios = np.array([row.length_ratio for row in curve.rows])
            draw_points(middle, places, ratios, solid, series(number) | {"markersize": 4})
        upper.set_ylabel("BLEU (0 to 100)")
        upper.set_ylim(0, _ceiling(curves, solid))
        for axes in (upper, middle):
            axes.tick_params(labelbottom=False, length=0)
        every_ratio = [row.length_ratio for curve in curves for row in curve.rows]
        middle.set_ylim(min(0.8, *every_ratio) - 0.05, max(1.2, *every_ratio) + 0.05)
        middle.yaxis.set_major_locator(MaxNLocator(nbins=3))
        middle.set_ylabel("Length ratio")
        draw_counts(lower, counts, spans)
        label_lengths(lower, lengths, spans, axis)
        figure.align_ylabels()
        legend_above(figure, handles, [curve.label for curve in curves], title)
        write_caption(figure, caption)
    return figure


def read_rows(path: str | Path) -> dict[str, list[LengthRow]]:
    """Read the CSV file of a length curve: the rows of each system, by its name.

    Raises DataError if it is not there or has another form.
    """
    form = f"a CSV file of nmt-length-curve or nmt-experiment, with the columns {', '.join(COLUMNS)}"
    found: dict[str, list[LengthRow]] = {}
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file)
            if tuple(lines.fieldnames or ()) != COLUMNS:
                raise DataError(f"{path}: is not {form}")
            for line in lines:
                whole = [int(line[name]) for name in COLUMNS[1:4]]
                row = LengthRow(line["system"], *whole, *(float(line[name]) for name in COLUMNS[4:]))
                found.setdefault(row.system, []).append(row)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}{tried(path)}") from error
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: line {lines.line_num} is not a row of {form}") from error
    if not found:
        raise DataError(f"{path}: has no rows; it should be {form}")
    return found


def _draw_bleu(axes: Axes, curve: Curve, look: dict[str, Any], places: Floats, solid: npt.NDArray[np.bool_]) -> Line2D:
    bleu, low, high = np.transpose([(row.bleu, row.bleu_low, row.bleu_high) for row in curve.rows])
    for seed in curve.seeds:  # thin lines around their mean
        values = np.where(solid, seed, np.nan)
        axes.plot(places, values, color=look["color"], linewidth=0.6, alpha=0.6, marker=".", markersize=3)
    edges = {"markeredgecolor": "white", "markeredgewidth": 0.6}
    return draw_points(axes, places, bleu, solid, look | edges, (low, high))


def _ceiling(curves: Sequence[Curve], solid: npt.NDArray[np.bool_]) -> float:
    """Return the maximum of the BLEU axis, which leaves room above the highest point and interval."""
    points = [row.bleu for curve in curves for row in curve.rows]
    intervals = [row.bleu_high for curve in curves for row, drawn in zip(curve.rows, solid, strict=True) if drawn]
    seeds = [value for curve in curves for seed in curve.seeds for value in seed]
    return max(min(max([*points, *intervals, *seeds]) * 1.06, ROOM_FOR_A_MARKER), 1.0)


SMALL_DPI = 80
"""Pixels per inch of the picture of a validation."""


def bleu_by_length_image(rows: Sequence[LengthRow], axis: str, title: str) -> npt.NDArray[np.uint8]:
    """Render :func:`draw_bleu_by_length`: RGB pixels, (height, width, 3)."""
    shares = imread(io.BytesIO(png(draw_bleu_by_length(rows, axis, title), SMALL_DPI)), format="png")[..., :3]
    return np.round(shares * 255).astype(np.uint8)


def draw_bleu_by_length(rows: Sequence[LengthRow], axis: str, title: str) -> Figure:
    """Draw BLEU in each bin of lengths, and the number of sentences; bins of few sentences as in every figure.

    The axis of BLEU always goes from 0 to 100, so that the pictures of several validations compare.
    """
    bins, counts = [(row.low, row.high) for row in rows], [row.n for row in rows]
    spans, solid = spans_of(bins), np.array(counts) >= MIN_SENTENCES
    note = "" if solid.all() else f"\nHollow points: fewer than {MIN_SENTENCES} sentences"
    with style():
        figure = Figure(figsize=(6, 4))
        figure.subplots_adjust(left=0.12, right=0.97, top=0.92, bottom=0.18 if note else 0.14, hspace=0.08)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        bleu = np.array([row.bleu for row in rows])
        draw_points(upper, centers(spans, 0, 1), bleu, solid, series(0))
        upper.set(ylabel="BLEU (0 to 100)", ylim=(0, 100), title=title)
        upper.tick_params(labelbottom=False, length=0)
        draw_counts(lower, counts, spans)
        label_lengths(lower, bins, spans, axis + note)
    return figure
