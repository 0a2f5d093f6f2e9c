"""The style of all figures, their fonts and captions, and their rendering to PNG and SVG.

All text is literal, including ``$``. Control characters are shown as ``·``. Characters without a font are shown as
boxes, with a warning. Matplotlib from 3.11 on orders right-to-left text, joins Arabic letters and Indic conjuncts.
"""

import io
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from nmt.errors import NmtWarning

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colors that are distinct with every kind of color vision (Okabe & Ito 2008), without yellow, faint on white."""
MARKERS = ("o", "s", "^", "D", "v", "<", ">", "P")
GREY = "#666666"
DPI = 200
LONGEST_LINE = 130
"""Maximum characters in a line of a caption; fewer if they are wide or the figure is narrow."""
LATIN = "DejaVu Sans"
"""Latin, Greek, Cyrillic, Arabic, Hebrew, Armenian, Georgian; comes with matplotlib."""
FONTS = ("Noto Sans", "Noto Serif Tibetan", "Symbola")
"""Beginnings of the names of fonts of other scripts: ``Noto Sans Thai``, ``Noto Sans CJK JP``."""
MISSING = r"(?s).*[Gg]lyph.* missing from"
"""Matplotlib's warning of a character without a font."""
JOINERS = "\u200c\u200d"
"""Characters without width that decide how Persian and Indic letters join."""

LOOK: dict[Any, Any] = {
    "axes.titlesize": 10,
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "legend.handlelength": 4.0,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "text.hinting": "no_hinting",  # else a text that fits at one resolution may not fit at another
    "text.parse_math": False,
    "svg.hashsalt": "nmt",
}


@contextmanager
def style() -> Iterator[None]:
    """Apply the style while figures are built and rendered; matplotlib's own settings are restored afterwards."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # ignore a user's matplotlibrc
        matplotlib.rcParams.update({**LOOK, "font.family": [LATIN]})
        warnings.filterwarnings("ignore", message=MISSING)  # rendering warns once, of all characters
        yield


def series(number: int) -> dict[str, Any]:
    """Return color and marker of the ``number``-th series: 56 differ, and neighbors differ in both."""
    return {"color": COLORS[number % len(COLORS)], "marker": MARKERS[number % len(MARKERS)]}


def plain(text: str, longest: int) -> str:
    """Prepare text for one line of a figure: make control characters visible and shorten it to ``longest``."""
    shown = "".join(
        "·" if unicodedata.category(character)[0] in "CZ" and character not in (" ", *JOINERS) else character
        for character in text
    )
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def legend_above(figure: Figure, handles: Sequence[Line2D], labels: Sequence[str]) -> None:
    """Draw a legend above the figure, in up to three columns: as many as fit, and no more than its rows need."""
    widest = -(-len(labels) // max(1, -(-len(labels) // 3)))
    for columns in range(widest, 0, -1):
        legend = figure.legend(handles, labels, loc="outside upper center", ncols=columns)
        if legend.get_window_extent().width < 0.97 * figure.bbox.width or columns == 1:
            break
        legend.remove()


def png(figure: Figure) -> bytes:
    """Render the figure as a PNG file. Warns of characters without a font."""
    return _rendered(figure, format="png", dpi=DPI)


def svg(figure: Figure, fonttype: str = "path") -> bytes:
    """Render the figure as an SVG file, with the same bytes for the same figure. Warns of characters without a font.

    ``fonttype`` "none" keeps text as text, which is smaller, in a font of the browser as wide as ``LATIN``."""
    drawn = re.sub(rb"\n +", b"\n", _rendered(figure, fonttype, format="svg", metadata={"Date": None}))
    return re.sub(rf"(font[^\"']*'{LATIN}')[^;\"]*".encode(), rb"\1, Verdana, sans-serif", drawn)


def _rendered(figure: Figure, fonttype: str = "path", **how: Any) -> bytes:
    buffer = io.BytesIO()
    for text in figure.findobj(Text):
        text.set_fontfamily(fonts_for(text.get_text()))
    with style(), warnings.catch_warnings(record=True) as caught:
        matplotlib.rcParams["svg.fonttype"] = fonttype
        warnings.filterwarnings("always", message=MISSING)
        figure.savefig(buffer, **how)
    if any(re.match(MISSING, str(each.message)) for each in caught):
        problem = "no font for some characters: figures show boxes in their place"
        fonts = "fonts-noto-core, fonts-noto-cjk (Chinese, Japanese, Korean) or fonts-symbola (symbols)"
        warnings.warn(f"{problem}; on Debian and Ubuntu, install {fonts}", NmtWarning, stacklevel=3)
    return buffer.getvalue()


def fonts_for(text: str) -> list[str]:
    """Return the families in which each character of a text is looked for: few, because each costs time."""
    return [LATIN] if text.isascii() else [LATIN, *other_fonts()]


@cache
def other_fonts() -> list[str]:
    """Return the installed fonts of scripts that ``LATIN`` does not have.

    Matplotlib keeps a list of fonts in a file, which does not know those that were installed later: they are added.
    """
    known = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known and "Regular" in path and Path(path).name.startswith(("Noto", "Symbola")):
            font_manager.fontManager.addfont(path)
    return [name for name in font_manager.get_font_names() if name.startswith(FONTS)]


def write_caption(figure: Figure, paragraphs: Sequence[str]) -> float:
    """Write paragraphs below a figure, in lines that fit its width; return the height of the text in pixels."""
    text = figure.supxlabel("", fontsize=7.5, color=GREY, x=0.015, ha="left")
    for width in range(LONGEST_LINE, 20, -10):
        lines = [line for each in paragraphs for line in textwrap.wrap(each, width, break_on_hyphens=False)]
        text.set_text("\n".join(lines))
        if text.get_window_extent().width < 0.94 * figure.bbox.width:
            break
    return float(text.get_window_extent().height)
