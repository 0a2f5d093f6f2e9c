"""The share of a text that is written in the script of its language."""

import unicodedata
from collections.abc import Set
from functools import cache


def script_share(text: str, scripts: Set[str]) -> float:
    """Share of the letters of a text whose script is one of ``scripts``; 1 for a text without letters.

    A letter is a character of the Unicode categories L*; its script is the first word of its Unicode name, as in
    CYRILLIC SMALL LETTER A. Marks, digits and punctuation do not count.
    """
    letters = [script for script in map(_script, text) if script]
    return sum(script in scripts for script in letters) / len(letters) if letters else 1.0


@cache
def _script(character: str) -> str:
    """The script of a letter, "" for anything else."""
    if unicodedata.category(character)[0] != "L":
        return ""
    first, *others = unicodedata.name(character, "UNKNOWN").split()
    return others[0] if first in ("FULLWIDTH", "HALFWIDTH") and others else first
