"""Fonts for every script: those to draw a text with, and a warning that names the package of those that are missing.

Matplotlib shapes text itself from 3.11 on (through libraqm and HarfBuzz): right-to-left order, joined Arabic letters,
Indic conjuncts. Fonts are all that it needs.
"""

import unicodedata
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

from nmt.errors import NmtWarning

LATIN = ("DejaVu Sans", "Noto Sans")
"""Latin, Greek, Cyrillic, Arabic, Hebrew, Armenian, Georgian; the first comes with matplotlib."""
CJK = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans CJK KR")
"""A Chinese character differs a little between Japan, China and Korea: :func:`families` chooses."""
SCRIPTS = (
    *("Arabic", "Armenian", "Bengali", "Devanagari", "Ethiopic", "Georgian", "Gujarati", "Gurmukhi", "Hebrew"),
    *("Kannada", "Khmer", "Lao", "Malayalam", "Mongolian", "Myanmar", "Oriya", "Sinhala", "Syriac", "Tamil"),
    *("Telugu", "Thaana", "Thai", "Tifinagh"),
)
"""The fonts ``Noto Sans`` of these scripts."""
OTHERS = ("Noto Serif Tibetan", "Noto Sans Symbols", "Noto Sans Symbols2", "Symbola")
FONTS = (*LATIN, *CJK, *(f"Noto Sans {script}" for script in SCRIPTS), *OTHERS)
"""Tried in this order for each character; fonts that are not installed are skipped."""
CJK_NAMES = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH")
"""First words of the Unicode names of characters in the fonts CJK."""
PACKAGES = {"Chinese, Japanese and Korean": "fonts-noto-cjk", "symbol and emoji": "fonts-symbola"}
"""Debian packages by kind of characters; all other scripts are in ``fonts-noto-core``."""
SCRIPT_PACKAGE = "fonts-noto-core"


@cache
def installed() -> tuple[str, ...]:
    """Return those of FONTS that are installed, in their order.

    Matplotlib keeps a list of fonts in a file, which does not know those that were installed later: they are added.
    """
    known = {Path(entry.fname) for entry in font_manager.fontManager.ttflist}
    names = set(font_manager.get_font_names())
    if missing := set(FONTS) - names:
        beginnings = tuple({name.replace(" ", "")[: len("NotoSansCJK")] for name in missing})
        for path in map(Path, font_manager.findSystemFonts()):
            if path not in known and path.name.startswith(beginnings) and "-Regular" in path.name:
                font_manager.fontManager.addfont(path)
    names = set(font_manager.get_font_names())
    return tuple(name for name in FONTS if name in names)


def families(text: str) -> list[str]:
    """Return the installed fonts that a text needs, beginning with that of Latin.

    Chinese characters are those of its language: kana stand for Japanese, Hangul for Korean; without either they are
    Chinese.
    """
    scripts = {_script(character) for character in text if not character.isascii()}
    language = "JP" if scripts & {"HIRAGANA", "KATAKANA"} else "KR" if "HANGUL" in scripts else "SC"
    order = sorted(installed(), key=lambda name: name in CJK and not name.endswith(language))
    needed = [LATIN[0]]
    for character in text:
        if not any(_has(name, character) for name in needed):
            needed += next(([name] for name in order if _has(name, character)), [])
    return needed


def choose_fonts(figure: Figure) -> None:
    """Give each text of a figure the fonts that it needs, if it has no fonts of its own.

    Fonts are not in matplotlib's settings, where each text would look for all of them.
    """
    for text in figure.findobj(Text):
        if not text.get_text().isascii() and text.get_fontfamily() == [LATIN[0]]:
            text.set_fontfamily(families(text.get_text()))


def warn_of_missing(texts: Iterable[str]) -> None:
    """Warn with NmtWarning, once for each Debian package that would help, of characters that no installed font has."""
    needed: dict[str, set[str]] = {}
    for character in sorted(set().union(*texts)):
        if not _drawable(character):
            kind = _kind(character)
            needed.setdefault(PACKAGES.get(kind, SCRIPT_PACKAGE), set()).add(kind)
    for package, kinds in needed.items():
        warnings.warn(
            f"no font for {' and '.join(sorted(kinds))} characters: figures show boxes in their place; install one, "
            f"on Debian and Ubuntu with: apt install {package}",
            NmtWarning,
            stacklevel=2,
        )


def _drawable(character: str) -> bool:
    """Whether an installed font has the character, or it needs none: a space, a joiner."""
    return unicodedata.category(character)[0] in "CZ" or any(_has(name, character) for name in installed())


@cache
def _has(font: str, character: str) -> bool:
    return bool(_font(font).get_char_index(ord(character)))


@cache
def _font(name: str) -> FT2Font:
    return font_manager.get_font(font_manager.findfont(name))


def _script(character: str) -> str:
    """Return the first word of the character's Unicode name: its script, for letters."""
    return unicodedata.name(character, "").partition(" ")[0].partition("-")[0]


def _kind(character: str) -> str:
    """Name a kind of characters for the user: a script, or symbols."""
    script = _script(character)
    if script in CJK_NAMES:
        return "Chinese, Japanese and Korean"
    return script.title() if unicodedata.category(character)[0] in "LMN" and script else "symbol and emoji"
