"""Inline tags: taken out of a line, and put around the words of its translation that attend to the tagged ones."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, repeat, tee

import numpy as np

from nmt.data.protection import ATTRIBUTES, Protection
from nmt.errors import DataError, noted
from nmt.evaluation.alignment import Weights, word_weights
from nmt.translation.results import TranslatedHypothesis, Translation

TAG = re.compile(rf"<(/?)([A-Za-z][\w:.-]*+){ATTRIBUTES}(/?)>")
ALONE = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
"""Tags that HTML does not close."""


@dataclass
class Element:
    """An opening and a closing tag around characters of a text without tags, or a tag that stands alone."""

    parent: int
    """Number of the element around it; -1: none."""
    opening: str
    begin: int
    end: int
    closing: str = ""


def without_tags(line: str, place: str = "", first: int = 0) -> tuple[str, list[Element]]:
    """Take the tags out of a line, from character ``first`` on; return the text, and the elements in the order of their
    beginnings.

    Raises DataError, beginning with ``place``, for tags that overlap, or that nothing opens or closes.
    """
    text, elements, opened, read = "", list[Element](), [("", -1)], 0
    for tag in TAG.finditer(line, first):
        text, read = text + line[read : tag.start()], tag.end()
        name, number = opened[-1]
        if not tag[1]:
            elements.append(Element(number, tag[0], len(text), len(text)))
            opened += [] if tag[3] or tag[2].casefold() in ALONE else [(tag[2], len(elements) - 1)]
        elif name.casefold() == tag[2].casefold():
            elements[number].closing, elements[number].end = tag[0], len(text)
            opened.pop()
        else:
            wrong = f", where </{name}> was expected: tags may not overlap" if name else " closes nothing"
            raise DataError(f"{place}tag {tag[0]} at character {tag.start() + 1}{wrong}")
    if name := opened[-1][0]:
        raise DataError(f"{place}tag <{name}> is not closed; add </{name}>, or write <{name}/>")
    return text + line[read:], elements


def with_tags(source: str, target: str, elements: Sequence[Element], weights: Weights) -> str:
    """Put elements of the source around words of the target, given weights (J, I) between words.

    An element goes around the run of words with the largest sum of (attention to its words - 1/2), inside its parent's
    run and outside its siblings'. An element without words goes before the word of its parent that attends most to the
    next source word, and takes the elements inside it along.
    """
    reads, writes = ([word.span() for word in re.finditer(r"\S+", text)] for text in (source, target))
    share = np.zeros((len(writes), len(reads) + 1))  # the end of the source is no word
    share[: weights.shape[0], : weights.shape[1]] = weights / weights.sum(1, keepdims=True).clip(1e-9)
    owner = np.full(len(writes), -1)  # the innermost element around each word
    tags = list[tuple[int, float, str]]()  # place, order at this place, tag
    spans = {-1: (0, len(target))}
    for number, element in enumerate(elements):
        inside = [i for i, (begin, end) in enumerate(reads) if begin < element.end and end > element.begin]
        free = owner == element.parent
        if not inside or not free.any():
            continue
        gains = np.where(free, share[:, inside].sum(1) - 0.5, -len(writes))  # no run goes over words of others
        sums = np.append(0.0, gains.cumsum())
        last = int((sums[1:] - np.minimum.accumulate(sums)[:-1]).argmax()) + 1
        first = int(sums[:last].argmin())
        owner[first:last] = number
        run = begin, end = writes[first][0], writes[last - 1][1]
        begin += outside(target[slice(*writes[first])], source[reads[inside[0]][0] : element.begin])
        end -= outside(target[slice(*writes[last - 1])][::-1], source[element.end : reads[inside[-1]][1]][::-1])
        begin, end = (begin, end) if begin < end else run
        spans[number] = begin, end = max(begin, spans[element.parent][0]), min(end, spans[element.parent][1])
        tags += [(begin, number + 1, element.opening), (end, -number - 1, element.closing)]
    within = [""] * len(elements)  # elements inside one without words
    for number, element in reversed([*enumerate(elements)]):
        if number in spans:
            continue
        whole, parent = element.opening + within[number] + element.closing, element.parent
        if parent not in spans:
            within[parent] = whole + within[parent]
            continue
        after = (owner == parent) * share[:, sum(begin < element.begin for begin, _ in reads)]
        if after.any():
            tags.append((max(spans[parent][0], writes[after.argmax()][0]), number + 1, whole))
        else:  # behind all that ends inside the parent
            tags.append((spans[parent][1], -parent - 1.5, whole))
    for place, _, tag in sorted(tags, reverse=True):
        target = target[:place] + tag + target[place:]
    return target


def outside(word: str, before: str) -> int:
    """Count the characters at the beginning of a target word that stay outside an element, given those ``before`` it in
    the source word: the same punctuation, or else all punctuation, but never the whole word."""
    if word.startswith(before) and len(before) < len(word) and not re.search(r"\w", before):
        return len(before)
    found = re.search(r"\w", word)
    return found.start() if found else 0


def marked(translation: Translation, elements: Sequence[Element]) -> Translation:
    """Return a translation with the elements of its line in each of its texts."""
    source, pieces, hypotheses = translation.source, translation.source_pieces, list[TranslatedHypothesis]()
    for each in translation.hypotheses:
        attention = np.zeros((0, 0), np.float32) if each.attention is None else each.attention  # a blank line has none
        weights = word_weights(attention, pieces, each.pieces, source, each.text)
        hypotheses.append(replace(each, text=with_tags(source, each.text, elements, weights)))
    return replace(translation, hypotheses=hypotheses)


def translate_marked(
    translate: Callable[[Iterator[str]], Iterator[Translation]],
    lines: Iterable[str],
    name: str,
    first: int = 1,
    protection: Protection | None = None,
) -> Iterator[Translation]:
    """Translate lines with markup by ``translate``, which keeps the attention. A tag that ``protection`` knows stays.

    Raises DataError as :func:`without_tags` does, beginning with ``name`` and the line number from ``first`` on.
    """

    places = (f"{name}:{number}: " for number in count(first))
    texts, elements = tee(map(_parsed, lines, places, repeat(protection or Protection())))
    return map(marked, translate(text for text, _ in texts), (each for _, each in elements))


def refuse_wrong_tags(lines: Iterable[str], name: str, protection: Protection) -> None:
    """Raise DataError that names all lines for which :func:`translate_marked` would raise one."""
    problems = list[str]()
    for number, line in enumerate(lines, 1):
        with noted(problems):
            _parsed(line, f"{name}:{number}: ", protection)
    DataError.raise_if_any(problems)


def _parsed(line: str, place: str, protection: Protection) -> tuple[str, list[Element]]:
    _, behind = protection.parted(line)
    return without_tags(line, place, len(line) - len(behind))
