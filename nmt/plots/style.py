"""The style of all figures, and their rendering to PNG and SVG.

All text is literal, including ``$``. Characters without a font are shown as boxes, and control characters as ``·``.
"""

import io
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colors that are distinct with every kind of color vision (Okabe & Ito 2008), without yellow, faint on white."""
MARKERS = ("o", "s", "^", "D", "v", "<", ">")
LINES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
GREY = "#666666"
FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans", "Noto Sans Arabic", "Noto Sans Devanagari")
"""Tried in this order for each character; fonts that are not installed are skipped."""

LOOK: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "legend.title_fontsize": 12,
    "legend.handlelength": 4.0,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "text.parse_math": False,
    "svg.hashsalt": "nmt",
}


@contextmanager
def style() -> Iterator[None]:
    """Apply the style while figures are built and rendered; matplotlib's own settings are restored afterwards."""
    installed = set(font_manager.get_font_names())
    fonts = [name for name in FONTS if name in installed]
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # ignore a user's matplotlibrc
        matplotlib.rcParams.update({**LOOK, "font.family": fonts})
        warnings.filterwarnings("ignore", message=r"(?s).*[Gg]lyph.* missing from")
        yield


def series(number: int) -> dict[str, Any]:
    """Return color, marker and line of the ``number``-th series: 28 differ, and neighbors differ in all three."""
    return {
        "color": COLORS[number % len(COLORS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number % len(LINES)],
    }


def looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Assign a :func:`series` to each name; the same names in the same order look the same in every figure."""
    return {name: series(number) for number, name in enumerate(dict.fromkeys(names))}


def plain(text: str, longest: int) -> str:
    """Prepare text for one line of a figure: make control characters visible and shorten it to ``longest``."""
    shown = "".join(
        "·" if unicodedata.category(character)[0] in "CZ" and character != " " else character for character in text
    )
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def legend_above(figure: Figure, handles: Sequence[Line2D], labels: Sequence[str], title: str | None = None) -> None:
    """Draw a legend above the figure, in as many columns as fit."""
    heading = plain(title, 80) if title else None
    for columns in range(min(3, len(labels)), 0, -1):
        legend = figure.legend(handles, labels, loc="outside upper center", ncols=columns, title=heading)
        if legend.get_window_extent().width < 0.97 * figure.bbox.width or columns == 1:
            break
        legend.remove()


def png(figure: Figure, dpi: int = 200) -> bytes:
    """Render the figure as a PNG file with ``dpi`` pixels per inch."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def svg(figure: Figure) -> bytes:
    """Render the figure as an SVG file, with the same bytes for the same figure."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
