"""Rough text: training sources changed as careless users write, so that the network learns to read such text.

Synthetic noise (Belinkov & Bisk 2018). Targets stay as they are: whoever wants a translation in capitals can capitalize
one, but nobody can restore its normal letters. A change is a pure function of (text, random generator).
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from random import Random

from nmt.config.schema import Rough
from nmt.data.glossary import TERM_MARKS

KEYS = "qwertyuiop", "asdfghjkl", "zxcvbnm"
"""Rows of keys; each begins half a key to the right of the row above."""
AROUND = (-1, 0), (1, 0), (0, -1), (1, -1), (0, 1), (-1, 1)
MOST_TYPOS = 0.1
"""Share of mistyped letters in the worst text."""
PLACES = {key: (x, y) for y, row in enumerate(KEYS) for x, key in enumerate(row)}
NEIGHBORS = {
    key: [other for other, (ox, oy) in PLACES.items() if (ox - x, oy - y) in AROUND] for key, (x, y) in PLACES.items()
}
WORD = re.compile(r"[\w'’]+")
TERM = re.compile(f"({TERM_MARKS[0]}[^{TERM_MARKS[1]}]*{TERM_MARKS[1]})")


def mistyped(text: str, choice: Random, rate: float) -> str:
    """Mistype each letter with probability ``rate``: a key beside it, a key more, none, or the next letter first."""

    def typed(word: re.Match[str]) -> str:
        letters = list(word[0])
        for place, letter in enumerate(letters):
            if letter.isalpha() and choice.random() < rate:
                key = choice.choice(NEIGHBORS.get(unaccented(letter.lower()), letter))
                key, rest = key.upper() if letter.isupper() else key, letters[place + 1 : place + 2]
                kinds = [key, *rest], [key + letter, *rest], ["", *rest], [*rest, letter]
                letters[place : place + 2] = choice.choice(kinds)
        return "".join(letters)

    return WORD.sub(typed, text)


def unaccented(text: str) -> str:
    """Drop the accents of letters: é becomes e, ö o."""
    return unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", text)))


def readable(text: str) -> str:
    """Return what the network reads of a source: a sentence instead of two or more words of capitals, unlike ``24 V``
    or ``X-RAY OF CO2``; terms stay."""
    parts = TERM.split(text)
    own = "".join(parts[::2])
    words = [word for word in own.split() if re.fullmatch(r"\W*[^\W\d_]+\W*", word)]
    if len(words) < 2 or not all(letter.isupper() for letter in own if letter.isalpha()):
        return text
    parts[::2] = in_small_letters(parts[::2])
    return "".join(parts)


def in_small_letters(parts: Sequence[str]) -> list[str]:
    """Write the parts of a sentence in small letters after its first one, as in a sentence without names."""
    first = re.sub(r"\w", lambda letter: letter[0].upper(), parts[0].lower(), count=1)
    return [first, *(part.lower() for part in parts[1:])]


def capitalized(text: str) -> str:
    """Begin each word with a capital."""
    return WORD.sub(lambda word: word[0][0].upper() + word[0][1:], text)


CHANGES: Mapping[str, Callable[[str, Random], str]] = {
    "accents": lambda text, _: unaccented(text),
    "stop": lambda text, _: re.sub(r"[.。]$", "", text),
    "typos": lambda text, choice: mistyped(text, choice, choice.uniform(0, MOST_TYPOS)),
    "title": lambda text, _: capitalized(text),
}
"""Each by its option, in the order in which they are made; ``upper`` comes last."""


def roughened(text: str, shares: Rough, choice: Random) -> str:
    """Make each change with the probability of its option, not to marked terms, and not if no text would be left."""
    parts = TERM.split(text)
    for option, change in CHANGES.items():
        if choice.random() < getattr(shares, option):
            parts[::2] = [change(part, choice) for part in parts[::2]]
    if choice.random() < shares.upper:
        parts[::2] = in_small_letters(parts[::2])
    return changed if (changed := "".join(parts)).strip() else text
