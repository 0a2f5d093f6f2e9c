"""Pieces joined to words, and gold links between these words."""

from collections.abc import Iterable, Sequence

from nmt.data.links import Link, piece_words
from nmt.evaluation.writing import Unit, units
from nmt.report.records import Words


def grouped(pieces: Sequence[str], text: str, unit: Unit, end: str) -> tuple[Words, list[int]]:
    """Join the pieces of each whitespace word of ``text``, in order; return them with the index of each one's word.

    Where the unit is characters, because the language has no spaces, each piece is a group of its own. The symbol
    ``end``, if it is last, is a group without a word: -1.
    """
    ended = bool(pieces) and pieces[-1] == end
    inner = pieces[: len(pieces) - ended]
    groups: Words = []
    words: list[int] = []
    for piece, word in zip(inner, piece_words(inner, text), strict=True):
        if unit == "words" and words and words[-1] == word:
            groups[-1].append(piece)
        else:
            groups.append([piece])
            words.append(word)
    return ([*groups, [end]], [*words, -1]) if ended else (groups, words)


def gold_groups(links: Iterable[Link], words: Sequence[int], reference: str, unit: Unit) -> list[list[int]]:
    """Return links of whitespace words as links of source groups and reference words, sorted.

    ``words`` has the word of each source group. Where the unit of the target is characters, a link of a word is one of
    each of its characters. A word that was cut off has no group.
    """
    places: dict[int, list[int]] = {}
    for group, word in enumerate(words):
        places.setdefault(word, []).append(group)
    targets, begin = [], 0
    for text in reference.split():
        size = len(units(text, unit))
        targets.append(range(begin, begin + size))
        begin += size
    return sorted([group, target] for i, j in links for group in places.get(i, ()) for target in targets[j])
