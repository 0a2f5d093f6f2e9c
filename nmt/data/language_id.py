"""Language identification by frequent words, to detect swapped files.

A text is compared with the two languages that a configuration names. There is no answer for a short text, for one in a
third language, and for languages that are alike or unknown here.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import islice
from pathlib import Path

from nmt.data.corpus import Pair

JUDGED_LINES, LONGEST_LINE = 500, 1000
"""Lines of a corpus that are judged, and characters of a line."""
LEAST_LETTERS = 150
"""Minimum of letters for an answer, about thirty words."""
SHARE = 0.1
"""Minimum share of the words of a text that must be frequent words of its language and not of the other one."""
TIMES_AS_MANY = 4
"""How many frequent words of its language there must be for one of the other language."""
WORD = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\W\d_]+")
"""Letters between other characters; in Thai, Chinese, Japanese and Korean each letter."""


@cache
def frequent_words() -> Mapping[str, set[str]]:
    """The frequent words of each language, by ISO 639 code."""
    lines = Path(__file__).with_name("frequent_words.txt").read_text("utf-8").splitlines()
    return {code: {*WORD.findall(words)} for code, words in (line.split(" ", 1) for line in lines)}


def language_of(lines: Iterable[str], languages: tuple[str, str]) -> int | None:
    """Return which of two languages, 0 or 1, a text is written in; None if that cannot be known."""
    first, second = (frequent_words().get(re.split("[-_]", name)[0].lower(), set()) for name in languages)
    words = WORD.findall(" ".join(line[:LONGEST_LINE] for line in lines).lower())
    if not (first and second) or sum(map(len, words)) < LEAST_LETTERS:
        return None
    found = [sum(word in only for word in words) for only in (first - second, second - first)]
    side = int(found[1] > found[0])
    return side if found[side] >= max(SHARE * len(words), TIMES_AS_MANY * found[1 - side]) else None


def swapped_sides(pairs: Iterable[Pair], languages: tuple[str, str]) -> str:
    """Return a warning if a side of a corpus is in the language of the other, else nothing."""
    judged = list(islice(pairs, JUDGED_LINES))
    wrong = [
        f"the {name} looks like {languages[1 - side]} (data.{name}_language: {languages[side]})"
        for side, name in enumerate(("source", "target"))
        if language_of((pair[side] for pair in judged), languages) == 1 - side
    ]
    swapped = "source and target seem to be swapped: " if len(wrong) == 2 else ""
    return f"{swapped}{', '.join(wrong)}"
