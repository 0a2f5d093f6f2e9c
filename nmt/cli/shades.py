"""Attention as shades in a terminal: source words along the top, target words down the side."""

import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

SHADES = " ░▒▓█"
"""Weights from 0 to 1, in equal steps."""
LONGEST_WORD = 16
"""Columns of a target word and lines of a source word; a longer one is cut short."""
LEAST_COLUMNS = 8
"""Source words side by side, however narrow the terminal is."""


def shade(weight: float) -> str:
    """Return the shade of a weight in [0, 1]: the darkest from 0.8 on."""
    return SHADES[min(int(weight * len(SHADES)), len(SHADES) - 1)]


def draw(weights: npt.NDArray[np.floating], source: Sequence[str], target: Sequence[str], width: int) -> list[str]:
    """Draw weights (J, I) in lines of at most ``width`` columns.

    A column is two characters wide, or one if that makes the sentence fit. A source that is still too long continues
    below, in further blocks. Source words are written downwards, a letter in each line.
    """
    if not weights.size:
        return []
    rows = [cut(word, LONGEST_WORD) for word in target]
    margin = max(map(columns, rows)) + 1
    room = max(width - margin, LEAST_COLUMNS)
    cell = 2 if 2 * len(source) <= room else 1
    if any(columns(letter) > cell for word in source for letter in letters(word)):
        cell = 2
    block = max(1, room // cell)
    lines: list[str] = []
    for first in range(0, len(source), block):
        if first:
            lines.append("")
        lines += heading(source[first : first + block], cell, margin)
        for word, row in zip(rows, weights[:, first : first + block], strict=True):
            cells = "".join(shade(float(weight)) * cell for weight in row)
            lines.append(f"{word}{' ' * (margin - columns(word))}{cells}".rstrip())
    return lines


def heading(words: Sequence[str], cell: int, margin: int) -> list[str]:
    """Write words downwards, each in its column, with their ends on the lowest line."""
    spelled = [letters(cut(word, LONGEST_WORD)) for word in words]
    height = max(map(len, spelled))
    lines = []
    for place in range(height):
        line = ""
        for word in spelled:
            letter = word[place - height] if len(word) >= height - place else ""
            line += letter + " " * (cell - columns(letter))
        lines.append((" " * margin + line).rstrip())
    return lines


def letters(word: str) -> list[str]:
    """Split a word into letters, with the marks that combine with them."""
    found: list[str] = []
    for character in word:
        if found and unicodedata.category(character) in ("Mn", "Me", "Mc", "Cf"):
            found[-1] += character
        elif unicodedata.category(character)[0] != "C":
            found.append(character)
    return found


def columns(text: str) -> int:
    """Count the columns of a text in a terminal: two for a wide character, none for a combining one."""
    return sum(2 if unicodedata.east_asian_width(letter[0]) in "WF" else 1 for letter in letters(text))


def cut(word: str, most: int) -> str:
    """Cut a word to ``most`` columns, the last of which is then an ellipsis."""
    found = letters(word)
    if columns(word) <= most:
        return "".join(found)
    while columns("".join(found)) > most - 1:
        found.pop()
    return "".join(found) + "…"
