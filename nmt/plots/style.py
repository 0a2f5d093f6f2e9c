"""One look for all figures, and how they become bytes.

Text stays text: whatever a sentence or a name contains, ``$`` included, is shown as it is; characters that no font has
are shown as boxes, and control characters as ``·``.
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

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe & Ito (2008): told apart with every kind of colour vision; their yellow is left out, being faint on white."""
MARKERS = ("o", "s", "^", "D", "v", "<", ">")
LINES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
GREY = "#666666"
FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans", "Noto Sans Arabic", "Noto Sans Devanagari")
"""Tried in this order for each character; those that are not installed are passed over."""

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
    """Build and render figures inside this context; matplotlib's own settings are as before afterwards."""
    installed = set(font_manager.get_font_names())
    fonts = [name for name in FONTS if name in installed]
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # whatever a matplotlibrc says
        matplotlib.rcParams.update({**LOOK, "font.family": fonts})
        warnings.filterwarnings("ignore", message=r"(?s).*[Gg]lyph.* missing from")
        yield


def series(number: int) -> dict[str, Any]:
    """Colour, marker and line of the ``number``-th series: 28 that differ, any two neighbours in all three."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number % len(LINES)],
    }


def looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A :func:`series` for each name: the same in every figure that is given the same names in the same order."""
    return {name: series(number) for number, name in enumerate(dict.fromkeys(names))}


def plain(text: str, longest: int) -> str:
    """Text for one line of a figure: control characters made visible, the end left out if it is too long."""
    shown = "".join(
        "·" if unicodedata.category(character)[0] in "CZ" and character != " " else character for character in text
    )
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def legend_above(figure: Figure, handles: Sequence[Line2D], labels: Sequence[str], title: str | None = None) -> None:
    """Name the lines above their figure, in as many columns as there is room for."""
    heading = plain(title, 80) if title else None
    for columns in range(min(3, len(labels)), 0, -1):
        legend = figure.legend(handles, labels, loc="outside upper center", ncols=columns, title=heading)
        if legend.get_window_extent().width < 0.97 * figure.bbox.width or columns == 1:
            break
        legend.remove()


def png(figure: Figure, dpi: int = 200) -> bytes:
    """The figure as a PNG file with ``dpi`` pixels an inch."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def svg(figure: Figure) -> bytes:
    """The figure as an SVG file: the same bytes for the same figure."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
