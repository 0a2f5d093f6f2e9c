"""Attention as a picture: weights as grey, source along the top, target down the side (Bahdanau et al. 2015, Fig. 3).

Shapes: S source positions, T target positions, words or pieces with the end symbol.
"""

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from nmt.evaluation.alignment import LabelledWeights, Weights, labelled_weights
from nmt.evaluation.figures.files import write_all
from nmt.evaluation.figures.style import GREY, fonts_for, plain, png, style, svg, write_caption
from nmt.evaluation.writing import has_words

Side = Literal["words", "pieces"]

CELL, LONGEST_SIDE = 0.21, 8.4
"""Inches of a cell, and of the longest side of the heat map: a longer sentence has smaller cells."""
LABEL, SMALLEST_LABEL, SMALL = 8.5, 5.0, 7.5
"""Points of a label, at most and at least, and of the names of axes. If even the smallest is taller than a cell, only
some positions have a label."""
NARROWEST = 3.0
"""Least width of a figure, in inches."""
LONGEST_LABEL = 24
MARGIN, BAR = 0.12, 0.48
"""Inches around the heat map, and of the scale of the weights."""


def draw_attention(
    content: LabelledWeights, *, units: tuple[Side, Side] = ("pieces", "pieces"), caption: Sequence[str] = ()
) -> Figure:
    """Draw a heat map with the paragraphs of a caption; the largest weight, rounded up to a tenth, is black.

    ``units`` are those of the labels of source and target. A source written from right to left runs from right to left.
    """
    cell = min(CELL, LONGEST_SIDE / max(content.weights.shape))
    across, down = cell * len(content.source), cell * len(content.target)
    with style():
        figure = Figure(figsize=(across, down))
        FigureCanvasAgg(figure)  # measures text without drawing the figure
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        scale = Normalize(0, np.ceil(content.weights.max() * 10 - 1e-6) / 10 or 1)
        axes.imshow(content.weights, cmap="Greys", norm=scale, aspect="auto", interpolation="nearest")
        _rule(axes, cell, content.weights.shape)
        _label(axes, cell, content, units)
        around, inside = axes.get_tightbbox(), axes.bbox
        assert around is not None
        left, above, below = (
            inches / figure.dpi + MARGIN
            for inches in (inside.x0 - around.x0, around.y1 - inside.y1, inside.y0 - around.y0)
        )
        width = max(NARROWEST, left + across + (around.x1 - inside.x1) / figure.dpi + MARGIN)
        figure.set_size_inches(width, down)
        under = MARGIN + (write_caption(figure, caption) / figure.dpi if caption else 0.0)
        height = above + down + below + BAR + under
        figure.set_size_inches(width, height)
        axes.set_position((left / width, (below + BAR + under) / height, across / width, down / height))
        _draw_scale(figure, scale, under)
    return figure


def write_attention(
    stem: Path,
    attention: Weights,
    pieces: tuple[Sequence[str], Sequence[str]],
    texts: tuple[str, str],
    languages: tuple[str, str],
) -> None:
    """Draw the attention (T, S) of a translation as ``stem``.png and .svg, with the weights of words where the language
    separates them by spaces; pieces, texts and languages are those of source and target.

    Raises DataError if a file cannot be written.
    """
    words = has_words(languages[0], texts[0]), has_words(languages[1], texts[1])
    labelled = labelled_weights(attention, *pieces, *texts, words=words)
    units: tuple[Side, Side] = ("words" if words[0] else "pieces", "words" if words[1] else "pieces")
    caption = f"{stem.name.replace('-', ' ').capitalize()}."
    if any(words):
        caption += " Weights of pieces are added over a source word and averaged over a target word."
    figure = draw_attention(labelled, units=units, caption=[caption])
    write_all(stem, {".png": png(figure), ".svg": svg(figure)})


def _rule(axes: Axes, cell: float, shape: Sequence[int]) -> None:
    """Rule thin lines between the cells, if they are not too small."""
    axes.grid(False)
    axes.spines[:].set(visible=True, color="#999999", linewidth=0.5)
    if cell > 0.06:
        for axis, count in zip((axes.yaxis, axes.xaxis), shape, strict=True):
            axis.set_ticks(np.arange(count - 1) + 0.5, minor=True)
            axis.grid(True, which="minor", color="#DDDDDD", linewidth=min(0.4, 2.5 * cell))
        axes.tick_params(which="minor", length=0)


def _label(axes: Axes, cell: float, content: LabelledWeights, units: tuple[Side, Side]) -> None:
    fontsize = max(SMALLEST_LABEL, min(LABEL, 0.8 * 72 * cell))
    step = int(np.ceil(1.1 * fontsize / 72 / cell))  # a label at each or only at some positions
    directions = map(unicodedata.bidirectional, "".join(content.source))
    backwards = next((each != "L" for each in directions if each in ("L", "R", "AL")), False)  # of the first letter
    for axis, side in ((axes.xaxis, content.source), (axes.yaxis, content.target)):
        labels = [plain(each, LONGEST_LABEL) for each in side]
        if axis is axes.xaxis:
            labels = ["\n".join(each) if _is_upright(each) else each for each in labels]
        places = range(0, len(labels), step)
        look: dict[str, Any] = {"fontsize": fontsize, "fontfamily": fonts_for("".join(side))}
        axis.set_ticks(places, labels=[labels[place] for place in places], **look)
        axis.set_tick_params(length=0, pad=3)
    axes.xaxis.set_ticks_position("top")
    axes.xaxis.set_label_position("top")
    for label in axes.get_xticklabels():
        label.set(rotation=0 if _is_upright(label.get_text()) else 90, linespacing=0.95)
    source, target = (f"{side} {unit}" for side, unit in zip(("Source", "Target"), units, strict=True))
    name: dict[str, Any] = {"fontsize": SMALL, "color": GREY, "labelpad": 4}
    axes.set_xlabel(f"{source}, right to left" if backwards else source, loc="right" if backwards else "left", **name)
    axes.set_ylabel(target, loc="top", **name)
    if backwards:
        axes.invert_xaxis()


def _draw_scale(figure: Figure, scale: Normalize, below: float) -> None:
    """Draw the scale of grey, ``below`` inches above the lower end of the figure."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((2 * MARGIN / width, (below + BAR - MARGIN) / height, 1.1 / width, 0.09 / height))
    bar = figure.colorbar(ScalarMappable(scale, "Greys"), cax=axes, orientation="horizontal")
    bar.set_ticks(ticks := np.linspace(0, scale.vmax or 1, 3).tolist(), labels=[f"{tick:g}" for tick in ticks])
    axes.tick_params(length=2, labelsize=7.5)
    bar.outline.set(color="#999999", linewidth=0.5)
    axes.annotate("Attention weight", (1, 0.5), (8, 0), "axes fraction", "offset points", va="center", fontsize=8)


def _is_upright(label: str) -> bool:
    """Whether a label has Chinese, Japanese or Korean characters: written from top to bottom, not turned."""
    return any(unicodedata.east_asian_width(character) in "WF" for character in label)
