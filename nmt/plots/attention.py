"""Attention as pictures: weights as grey, source along the top, target down the side (Bahdanau et al. 2015, Fig. 3).

Shapes: S source positions, T target positions, words or pieces with the end symbol.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from nmt.plots.about import write_caption
from nmt.plots.files import numbers, write_all
from nmt.plots.fonts import families
from nmt.plots.style import DPI, GREY, pixels, plain, png, style, svg

KINDS = (".png", ".svg", ".json")
"""Endings of the files of :func:`write_attention`."""
Weights = npt.NDArray[np.floating]
Side = Literal["words", "pieces"]

CELL, LONGEST_SIDE = 0.21, 8.4
"""Inches of a cell, and of the longest side of a heat map: a longer sentence has smaller cells."""
LABEL, SMALLEST_LABEL, SMALL = 8.5, 5.0, 7.5
"""Points of a label, at most and at least, and of the names of axes. Where even the smallest is taller than a cell,
only some positions have a label."""
WIDEST = 10.0
"""Inches of systems side by side; more go below."""
LONGEST_LABEL = 24
LINE_SPACING = 0.95
MARGIN, TITLE, NAME = 0.12, 0.2, 0.16
"""Inches around each heat map; of a title; of a note or the name of an axis."""
BAR = 0.42
"""Inches of the scale of the weights."""


@dataclass(frozen=True)
class AttentionMap:
    """The attention of a system to a sentence. Raises ValueError if the weights do not fit the labels."""

    weights: Weights
    """(T, S), in [0, 1]."""
    source: Sequence[str]
    target: Sequence[str]
    system: str = ""
    """The title."""
    note: str = ""
    """A smaller line below the title."""
    units: tuple[Side, Side] = ("pieces", "pieces")
    """What the labels of source and target are."""

    def __post_init__(self) -> None:
        expected = len(self.target), len(self.source)
        if self.weights.shape != expected or not self.weights.size:
            what = f"{expected[0]} target and {expected[1]} source {self.units[1]}"
            raise ValueError(f"attention of shape {self.weights.shape} for {what}")


def write_attention(
    maps: Sequence[AttentionMap],
    stem: str | Path,
    *,
    title: str | None = None,
    caption: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
    dpi: int = DPI,
) -> list[Path]:
    """Write ``stem``.png, .svg and, with the weights and ``facts``, .json; return the paths.

    Raises DataError if they cannot be written.
    """
    figure = draw_attention(maps, title=title, caption=caption)
    weights = [asdict(each) | {"weights": np.round(each.weights.astype(float), 4).tolist()} for each in maps]
    contents = png(figure, dpi), svg(figure), numbers({**(facts or {}), "systems": weights})
    return write_all(stem, dict(zip(KINDS, contents, strict=True)))


def draw_attention(maps: Sequence[AttentionMap], *, title: str | None = None, caption: Sequence[str] = ()) -> Figure:
    """Draw heat maps side by side, in as many rows as needed, with one scale of grey and the paragraphs of a caption.

    A source that is written from right to left runs from right to left.
    """
    with style():
        figure = Figure(figsize=(WIDEST, WIDEST))
        FigureCanvasAgg(figure)  # which measures text without drawing the figure
        cell = min(CELL, LONGEST_SIDE / max(max(each.weights.shape) for each in maps))
        rows, columns = _table([_Panel(figure, each, cell) for each in maps])
        heading = TITLE + MARGIN if title else 0.0
        least = _inches(figure, [plain(title, 80)], 11)[0] + 2 * MARGIN if title else 2.6
        width = max(least, sum(map(_width, columns))) + 2 * MARGIN
        figure.set_size_inches(width, WIDEST)
        below = MARGIN + (write_caption(figure, caption) / figure.dpi if caption else 0.0)
        height = heading + sum(map(_height, rows)) + BAR + MARGIN + below
        figure.set_size_inches(width, height)
        if title:
            figure.text(2 * MARGIN / width, 1 - MARGIN / height, plain(title, 80), fontsize=11, va="top")
        top = heading
        for row in rows:
            left = MARGIN
            for panel, column in zip(row, columns, strict=False):
                panel.draw(figure, left, top, max(each.left for each in column), max(each.above for each in row))
                left += _width(column)
            top += _height(row)
        _draw_scale(figure, below)
    return figure


def attention_image(
    weights: Weights, source_pieces: Sequence[str], target_pieces: Sequence[str]
) -> npt.NDArray[np.uint8]:
    """Render :func:`draw_attention` of one system as RGB pixels, (height, width, 3)."""
    return pixels(draw_attention([AttentionMap(weights, source_pieces, target_pieces)]))


class _Panel:
    """A heat map with its labels, measured in inches.

    Args:
        figure: to measure text in.
        content: what is drawn.
        cell: inches of a cell.
    """

    def __init__(self, figure: Figure, content: AttentionMap, cell: float) -> None:
        self.content, self.cell = content, cell
        self.fontsize = max(SMALLEST_LABEL, min(LABEL, 0.8 * 72 * cell))
        self.step = int(np.ceil(1.1 * self.fontsize / 72 / cell))  # a label at each or only at some positions
        self.columns, self.rows = ([plain(each, LONGEST_LABEL) for each in side] for side in self._sides())
        self.columns = ["\n".join(each) if _is_upright(each) else each for each in self.columns]
        fonts = [families("".join(side)) for side in self._sides()]
        self.column_fonts, self.row_fonts = fonts
        turned, upright = ([each for each in self.columns if _is_upright(each) == down] for down in (False, True))
        wide = _inches(figure, turned, self.fontsize, self.column_fonts)[0]
        tall = _inches(figure, upright, self.fontsize, self.column_fonts)[1]
        self.labels = max(wide, tall) + 0.08
        self.above = self.labels + NAME + (TITLE if content.system else 0.0) + (NAME if content.note else 0.0)
        self.left = _inches(figure, self.rows, self.fontsize, self.row_fonts)[0] + NAME + 0.1
        self.title = max(_inches(figure, [plain(content.system, 40)], 10)[0], _inches(figure, [content.note], SMALL)[0])
        self.names = [f"{side} {unit}" for side, unit in zip(("Source", "Target"), content.units, strict=True)]
        self.backwards = _is_right_to_left("".join(content.source))
        if self.backwards:
            self.names[0] += ", right to left"
        across, down = (_inches(figure, [name], SMALL)[0] for name in self.names)
        self.right, self.below = max(cell * len(content.source), across), max(cell * len(content.target), down)

    def _sides(self) -> tuple[Sequence[str], Sequence[str]]:
        return self.content.source, self.content.target

    def draw(self, figure: Figure, left: float, top: float, aside: float, above: float) -> None:
        """Draw the panel at (left, top) inches from the upper left corner of the figure, and its heat map at (aside,
        above) from there."""
        width, height = figure.get_size_inches()
        size = self.cell * len(self.content.source) / width, self.cell * len(self.content.target) / height
        corner = (left + MARGIN + aside) / width, 1 - (top + MARGIN + above) / height - size[1]
        axes = figure.add_axes((*corner, *size))
        axes.imshow(self.content.weights, cmap="Greys", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
        self._lines(axes)
        self._label(axes)
        x, y = (left + MARGIN) / width, 1 - (top + MARGIN) / height
        figure.text(x, y, plain(self.content.system, 40), fontsize=10, va="top")
        y -= TITLE / height if self.content.system else 0.0
        figure.text(x, y, self.content.note, va="top", fontsize=SMALL, color=GREY)

    def _lines(self, axes: Axes) -> None:
        """Rule thin lines between the cells, if they are not too small."""
        axes.grid(False)
        axes.spines[:].set(visible=True, color="#999999", linewidth=0.5)
        if self.cell > 0.06:
            for axis, count in zip((axes.yaxis, axes.xaxis), self.content.weights.shape, strict=True):
                axis.set_ticks(np.arange(count - 1) + 0.5, minor=True)
                axis.grid(True, which="minor", color="#DDDDDD", linewidth=min(0.4, 2.5 * self.cell))
            axes.tick_params(which="minor", length=0)

    def _label(self, axes: Axes) -> None:
        """Label the positions, and name both axes."""
        axes.xaxis.set_ticks_position("top")
        sides = (axes.xaxis, self.columns, self.column_fonts), (axes.yaxis, self.rows, self.row_fonts)
        for axis, labels, fonts in sides:
            places = range(0, len(labels), self.step)
            look: dict[str, Any] = {"fontsize": self.fontsize, "fontfamily": fonts}
            axis.set_ticks(places, labels=[labels[place] for place in places], **look)
            axis.set_tick_params(length=0, pad=3)
        for label in axes.get_xticklabels():
            label.set(rotation=0 if _is_upright(label.get_text()) else 90, linespacing=LINE_SPACING)
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": SMALL}
        place["color"] = GREY
        source, target = self.names
        aside, higher = (-72 * (self.left - NAME), 0), (0, 72 * self.labels)
        axes.annotate(target, (0, 1), aside, ha="right", va="top", rotation=90, **place)
        axes.annotate(source, (self.backwards, 1), higher, ha="right" if self.backwards else "left", **place)
        if self.backwards:
            axes.invert_xaxis()


def _table(panels: Sequence[_Panel]) -> tuple[list[Sequence[_Panel]], list[Sequence[_Panel]]]:
    """Arrange panels as a table no wider than WIDEST, in as few rows as possible; return its rows and columns."""
    for rows in range(1, len(panels) + 1):
        count = -(-len(panels) // rows)
        columns = [panels[first::count] for first in range(count)]
        if sum(map(_width, columns)) <= WIDEST:
            break
    return [panels[first : first + count] for first in range(0, len(panels), count)], columns


def _width(column: Sequence[_Panel]) -> float:
    """Return the inches of panels whose heat maps begin at the same distance from the left."""
    left = max(panel.left for panel in column)
    return 2 * MARGIN + max(left + max(panel.right for panel in column), *(panel.title for panel in column))


def _height(row: Sequence[_Panel]) -> float:
    """Return the inches of panels whose heat maps begin at the same distance from the top."""
    return 2 * MARGIN + max(panel.above for panel in row) + max(panel.below for panel in row)


def _draw_scale(figure: Figure, below: float) -> None:
    """Draw the scale of grey, ``below`` inches above the lower end of the figure."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((2 * MARGIN / width, (below + BAR - MARGIN) / height, 1.1 / width, 0.09 / height))
    bar = figure.colorbar(ScalarMappable(Normalize(0, 1), "Greys"), cax=axes, orientation="horizontal")
    bar.set_ticks([0, 0.5, 1], labels=["0", "0.5", "1"])
    axes.tick_params(length=2, labelsize=7.5)
    bar.outline.set(color="#999999", linewidth=0.5)
    axes.annotate("Attention weight", (1, 0.5), (8, 0), "axes fraction", "offset points", va="center", fontsize=8)


def _inches(
    figure: Figure, texts: Sequence[str], fontsize: float, fonts: Sequence[str] | None = None
) -> tuple[float, float]:
    """Measure texts: the greatest width and the greatest height, in inches."""
    assert isinstance(figure.canvas, FigureCanvasAgg)
    renderer = figure.canvas.get_renderer()  # type: ignore[no-untyped-call]
    drawn, sizes = figure.text(0, 0, "", fontsize=fontsize, fontfamily=fonts, linespacing=LINE_SPACING), []
    for text in set(texts):
        drawn.set_text(text)
        box = drawn.get_window_extent(renderer)
        sizes.append((box.width / figure.dpi, box.height / figure.dpi))
    drawn.remove()
    return max((width for width, _ in sizes), default=0.0), max((height for _, height in sizes), default=0.0)


def _is_right_to_left(text: str) -> bool:
    """Whether the first letter of a text is written from right to left."""
    directions = map(unicodedata.bidirectional, text)
    return next((each != "L" for each in directions if each in ("L", "R", "AL")), False)


def _is_upright(label: str) -> bool:
    """Whether a label has Chinese, Japanese or Korean characters: written from top to bottom, not turned."""
    return any(unicodedata.east_asian_width(character) in "WF" for character in label)
