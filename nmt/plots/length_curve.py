"""BLEU against source length: the figure of the length decay (after Bahdanau et al. 2015, Fig. 2), and its numbers."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nmt.errors import DataError
from nmt.evaluation.by_length import COLUMNS, SEED, LengthRow, SystemScores
from nmt.evaluation.metrics import Floats
from nmt.evaluation.significance import Comparison
from nmt.plots.style import GREY, plain, png, series, style, svg

WHITESPACE = "whitespace words of the raw {} line"
BINNED_BY = {
    "source": (WHITESPACE.format("source"), "Source length (words)"),
    "reference": (WHITESPACE.format("reference"), "Reference length (words)"),
    "pieces": ("pieces of the source, as the first run's tokenizer cuts it", "Source length (pieces)"),
}
"""What sentences are binned by: in a sentence, and as the name of an axis."""
LEAST_LABELLED = 1 / 12
"""Of the axis: if a bin is narrower, ticks stand at round lengths instead of naming bins, and bars have no number."""
Span = tuple[float, float]


def write_length_curve(
    systems: Sequence[SystemScores],
    stem: str | Path,
    *,
    test_set: str,
    resamples: int,
    title: str | None = None,
    comparisons: Sequence[Comparison] = (),
    binned_by: str = "source",
) -> list[Path]:
    """Draw and write ``stem``.png, .svg, .json and .csv, each whole or not at all; returns their paths.

    Args:
        systems: one or more, all scored on the same sentences in the same bins.
        stem: the files' common path; its folder is made if it is missing.
        test_set: what the caption calls the sentences.
        resamples: of the bootstrap behind the intervals, for the caption.
        title: above the figure.
        comparisons: of the systems, for the JSON.
        binned_by: a key of ``BINNED_BY``.

    Raises DataError if they cannot be written.
    """
    figure = draw_length_curve(systems, test_set=test_set, resamples=resamples, title=title, binned_by=binned_by)
    contents = {
        ".png": png(figure),
        ".svg": svg(figure),
        ".json": (
            json.dumps(_numbers(systems, test_set, resamples, comparisons, binned_by), ensure_ascii=False, indent=1)
            + "\n"
        ).encode(errors="replace"),
        ".csv": _csv([row for system in systems for row in system.rows]).encode(errors="replace"),
    }
    make_folder(stem)
    files = {Path(f"{stem}{ending}"): content for ending, content in contents.items()}
    _write(files)
    return list(files)


def draw_length_curve(
    systems: Sequence[SystemScores],
    *,
    test_set: str,
    resamples: int,
    title: str | None = None,
    binned_by: str = "source",
) -> Figure:
    """BLEU of each system at the centre of each bin with its 95% band; below it how long its translations are, as a
    share of their references, and the sentences of each bin.

    See :func:`write_length_curve` for the arguments.
    """
    bins = systems[0].rows
    spans = _spans(bins)
    with style():
        figure = Figure(figsize=(7.5, 6.8), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
        upper, middle, lower = figure.subplots(3, 1, sharex=True, height_ratios=(4, 1.3, 1))
        handles = [
            _draw_system(upper, system, series(number), _centres(spans, number, len(systems)))
            for number, system in enumerate(systems)
        ]
        upper.set_ylabel("BLEU (0 to 100)")
        upper.set_ylim(0, _ceiling(systems))
        for axes in (upper, middle):
            axes.tick_params(labelbottom=False, length=0)
        _draw_ratios(middle, systems, spans)
        _draw_counts(lower, bins, spans)
        _label_lengths(lower, bins, spans, BINNED_BY[binned_by][1])
        figure.align_ylabels()
        _draw_legend(figure, systems, handles, title)
        figure.supxlabel(_caption(systems, test_set, resamples), fontsize=7.5, color=GREY, x=0.015, ha="left")
    return figure


def _spans(bins: Sequence[LengthRow]) -> list[Span]:
    """Left and right end of each bin on the axis of lengths.

    The last bin reaches to the longest sentence, which may be far out: it is drawn no wider than the two widest others.
    """
    spans = [(row.low - 0.5, row.high + 0.5) for row in bins]
    if len(spans) > 1:
        left, right = spans[-1]
        spans[-1] = left, min(right, left + 2 * max(end - start for start, end in spans[:-1]))
    return spans


def _centres(spans: Sequence[Span], number: int, systems: int) -> Floats:
    """Where a system's points stand: in the middle of the bins, or side by side if there is only one bin."""
    centres = np.mean(spans, axis=1)
    if len(spans) == 1:
        centres += (number - (systems - 1) / 2) * 0.06 * (spans[0][1] - spans[0][0])
    return np.asarray(centres)


def _draw_system(axes: Axes, system: SystemScores, look: dict[str, Any], centres: Floats) -> Line2D:
    bleu, low, high = (
        np.array([getattr(row, column) for row in system.rows]) for column in ("bleu", "bleu_low", "bleu_high")
    )
    for seed in system.seeds:  # each training, faintly, around their mean
        axes.plot(centres, seed, color=look["color"], linewidth=0.6, alpha=0.6, marker=".", markersize=3)
    if len(centres) == 1:  # through a single point goes neither a line nor a band
        axes.vlines(centres, low, high, color=look["color"])
    else:
        axes.fill_between(centres, low, high, color=look["color"], alpha=0.16, linewidth=0)
    (line,) = axes.plot(centres, bleu, **look, markeredgecolor="white", markeredgewidth=0.6, clip_on=False, zorder=3)
    return line


def _ceiling(systems: Sequence[SystemScores]) -> float:
    """The upper end of the BLEU axis: some air above the highest band."""
    highest = max(max(row.bleu, row.bleu_high) for system in systems for row in system.rows)
    highest = max([highest, *(value for system in systems for seed in system.seeds for value in seed)])
    return min(max(highest * 1.06, 1.0), 100.0)


def _draw_ratios(axes: Axes, systems: Sequence[SystemScores], spans: Sequence[Span]) -> None:
    """Words of the hypotheses over words of the references: who stops early is below 1."""
    axes.axhline(1.0, color=GREY, linewidth=0.8)
    for number, system in enumerate(systems):
        ratios = np.array([row.length_ratio for row in system.rows])
        axes.plot(_centres(spans, number, len(systems)), ratios, **series(number), markersize=4, clip_on=False)
    values = [row.length_ratio for system in systems for row in system.rows]
    axes.set_ylim(min(0.8, *values) - 0.02, max(1.2, *values) + 0.02)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3))
    axes.set_ylabel("Length ratio")


def _draw_counts(axes: Axes, bins: Sequence[LengthRow], spans: Sequence[Span]) -> None:
    counts = [row.n for row in bins]
    left, right = np.transpose(spans)
    bars = axes.bar(left, counts, width=right - left, align="edge", color="#BBBBBB", edgecolor="white", linewidth=1.0)
    axes.grid(False)
    axes.set_ylabel("Sentences")
    axes.set_ylim(0, max(counts) * 1.4)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    if _labelled(spans):
        axes.bar_label(bars, labels=[f"{count:,}" for count in counts], padding=1.5, fontsize=8, color="#333333")


def _label_lengths(axes: Axes, bins: Sequence[LengthRow], spans: Sequence[Span], label: str) -> None:
    """Name the bins by their lengths, or, if some are too narrow for that, the axis by round lengths."""
    axes.set_xlabel(label)
    first, last = spans[0][0], spans[-1][1]
    axes.set_xlim(first, last)
    ticks = {(left + right) / 2: _lengths(row) for row, (left, right) in zip(bins, spans, strict=True)}
    if not _labelled(spans):
        lengths = MaxNLocator(nbins=10, integer=True).tick_values(first, last)
        to_scale, named = last, {}
        if last < bins[-1].high:  # the last bin is not drawn to scale: it keeps its name
            middle, name = list(ticks.items())[-1]
            to_scale, named = middle - LEAST_LABELLED * (last - first), {middle: name}
        ticks = {length: f"{length:.0f}" for length in lengths if first <= length <= to_scale} | named
    axes.set_xticks(list(ticks), labels=list(ticks.values()))


def _labelled(spans: Sequence[Span]) -> bool:
    narrowest = min(right - left for left, right in spans)
    return narrowest >= LEAST_LABELLED * (spans[-1][1] - spans[0][0])


def _lengths(row: LengthRow) -> str:
    return f"{row.low}" if row.low == row.high else f"{row.low}–{row.high}"


def _draw_legend(figure: Figure, systems: Sequence[SystemScores], handles: Sequence[Line2D], title: str | None) -> None:
    """Above the curves, in as many columns as there is room for."""
    labels = [f"{plain(system.name, 40)} (BLEU {system.scores[0].value:.1f})" for system in systems]
    heading = plain(title, 80) if title else None
    for columns in range(min(3, len(labels)), 0, -1):
        legend = figure.legend(handles, labels, loc="outside upper center", ncols=columns, title=heading)
        if legend.get_window_extent().width < 0.97 * figure.bbox.width or columns == 1:
            break
        legend.remove()


def _caption(systems: Sequence[SystemScores], test_set: str, resamples: int) -> str:
    sentences = sum(row.n for row in systems[0].rows)
    several = " Thick lines: means over seeds, thin ones: each." if any(system.seeds for system in systems) else ""
    return (
        f"{plain(test_set, 60)}: {sentences:,} sentences. Bands: 95% bootstrap intervals ({resamples:,} resamples)."
        f"{several}\n"
        f"sacreBLEU {systems[0].scores[0].signature}"
    )


def _numbers(
    systems: Sequence[SystemScores],
    test_set: str,
    resamples: int,
    comparisons: Sequence[Comparison],
    binned_by: str,
) -> dict[str, Any]:
    return {
        "test_set": test_set,
        "sentences": sum(row.n for row in systems[0].rows),
        "binned_by": BINNED_BY[binned_by][0],
        "interval": {"level": 0.95, "method": "percentile bootstrap", "resamples": resamples, "seed": SEED},
        "signature": systems[0].scores[0].signature,
        "systems": {system.name: system.as_dict() for system in systems},
        "comparisons": [each.as_dict() for each in comparisons],
    }


def _csv(rows: Sequence[LengthRow]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(round(value, 4) if isinstance(value, float) else value for value in row.as_dict().values())
    return text.getvalue()


def make_folder(stem: str | Path) -> None:
    """Make the folder that the files of a figure go to. Raises DataError if that cannot be done."""
    folder = Path(f"{stem}.png").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made a folder: {error.strerror}") from error


def _write(files: Mapping[Path, bytes]) -> None:
    """All files aside, then all in place."""
    asides = {path: path.with_name(f".{path.name}.new") for path in files}
    try:
        for path, content in files.items():
            asides[path].write_bytes(content)
        for path, aside in asides.items():
            aside.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        for aside in asides.values():
            aside.unlink(missing_ok=True)
