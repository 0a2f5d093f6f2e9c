"""Systems whose numbers are made up, their figures, and where the text in those is."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from nmt.evaluation.by_length import Bin, LengthRow, Scoring, SystemScores
from nmt.evaluation.diagnosis import MEASURES, Diagnosis
from nmt.evaluation.figures.length_curve import About, draw_length_curve
from nmt.evaluation.figures.style import style
from nmt.evaluation.metrics import STATISTICS, Integers, Score

SCORES = {"bleu": Score(31.234, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"), "chrf": Score(55.5, "c")}
COLUMNS = ("system", "low", "high", "n", "bleu", "bleu_low", "bleu_high", "length_ratio")
"""Of the table by length, as promised."""
DECADES = [(1, 10), (11, 20), (21, 30), (31, 40), (41, 50), (51, 60), (61, 70), (71, 98)]
ABOUT = About("test_lenstrat", 1000, "words")
IGNORE_BOXES = pytest.mark.filterwarnings("ignore:no font for")
"""For tests whose characters may have no font on this machine."""
NASTY = "$x^2_{a$ & <b> \\frac \x00\n 漢字 🙂 \u202e%s"
FEW = [400, 300, 200, 100, 50, 29, 30, 2]
"""Sentences of the decades; the sixth and the last bin have too few."""


def scoring_of(
    references: Sequence[str], lengths: Sequence[int] | Integers, edges: Sequence[int] = (10,), resamples: int = 50
) -> Scoring:
    """How systems are scored on references whose sources have these lengths."""
    return Scoring(references, "13a", "words", "words", np.array(lengths), edges, resamples)


def system(name: str, bins: Sequence[tuple[int, int]] = DECADES, best: float = 40.0, n: int = 400) -> SystemScores:
    rows = [
        LengthRow(name, low, high, n, best / (1 + k / 9), best / (1 + k / 9) - 2, best / (1 + k / 9) + 2, 0.98765432)
        for k, (low, high) in enumerate(bins)
    ]
    return SystemScores(name, SCORES, tuple(rows), np.zeros((1, 0, STATISTICS), np.int64))


def systems(count: int, bins: Sequence[tuple[int, int]] = DECADES) -> tuple[SystemScores, ...]:
    return tuple(system(f"RNNsearch-{k}0", bins, 50.0 - 7 * k) for k in range(count))


def draw(several: Sequence[SystemScores], about: About = ABOUT) -> Figure:
    return draw_length_curve(several, about=about)


def boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every visible text of a figure, and the pixels it covers."""
    with style():
        figure.draw_without_rendering()
        beyond = {  # tick labels outside the limits: matplotlib keeps them, but does not draw them
            label
            for axes in figure.axes
            for axis in (axes.xaxis, axes.yaxis)
            for tick in axis.get_major_ticks()
            if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
            for label in (tick.label1, tick.label2)
        }
        texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text() and text not in beyond]
        return [(text.get_text(), text.get_window_extent()) for text in texts]


def on_the_page(figure: Figure) -> list[tuple[str, Bbox]]:
    """:func:`boxes`, none of which is cut off."""
    found = boxes(figure)
    for text, box in found:
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y0 >= 0 and box.y1 <= figure.bbox.height, text
    return found


def inside(figure: Figure) -> None:
    """Every marker lies between the ends of its axes; at the lower end it may stand out, unclipped."""
    with style():
        figure.draw_without_rendering()
    for axes in figure.axes:
        for line in axes.get_lines():
            if line.get_marker() not in ("None", ""):
                heights = axes.transData.transform(np.array(line.get_xydata(), np.float64))[:, 1]
                radius = line.get_markersize() / 2 * figure.dpi / 72
                assert np.nanmax(heights, initial=0) + radius <= axes.bbox.y1
                assert not line.get_clip_on() or np.nanmin(heights, initial=np.inf) - radius >= axes.bbox.y0


def with_few(each: SystemScores) -> SystemScores:
    rows = [replace(row, n=n) for row, n in zip(each.rows, FEW, strict=True)]
    rows[-1] = replace(rows[-1], bleu=60.0, bleu_low=5.0, bleu_high=98.0)
    return replace(each, rows=tuple(rows))


def reasons(name: str, bins: Sequence[tuple[int, int]], attention: bool = True) -> Diagnosis:
    means = np.linspace(0.1, 0.9, len(bins) * len(MEASURES)).reshape(len(bins), -1)
    for measure in ("entropy", "distance_from_diagonal") if not attention else ():
        means[:, MEASURES.index(measure)] = np.nan
    each = tuple(Bin(low, high, np.arange(40)) for low, high in bins)
    return Diagnosis(name, each, means, means - 0.05, means + 0.05)
