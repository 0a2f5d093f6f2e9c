"""Word links in the Pharaoh format, the words that pieces belong to, and links spread from words to pieces.

Shapes: S source pieces, T target pieces. A link (i, j) joins source word i and target word j, both counted from 0 among
the whitespace words of the raw text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice, zip_longest

import numpy as np
import numpy.typing as npt

from nmt.config.schema import AnyCorpus
from nmt.data.corpus import Pair, corpus_name
from nmt.data.lines import matching, read_lines
from nmt.errors import DataError

Link = tuple[int, int]
LONGEST_SHOWN = 40
"""Maximum number of characters of an invalid link in a message."""
MARK = "▁"
"""SentencePiece's mark for the beginning of a word."""
UNKNOWN = "<unk>"
"""SentencePiece's unknown symbol."""


def parse_links(line: str, place: str, *, first: int = 0) -> Iterator[tuple[Link, bool]]:
    """Parse links such as ``1-2 2p3``, words counted from ``first``; each comes with whether it is sure (``i-j``).

    Raises DataError, which names ``place``, for any other text.
    """
    for token in line.split():
        match = re.fullmatch(r"([0-9]{1,9})([-p])([0-9]{1,9})", token)
        if match is None or min(int(match[1]), int(match[3])) < first:
            shown = token if len(token) <= LONGEST_SHOWN else f"{token[:LONGEST_SHOWN]}..."
            raise DataError(f"{place}: '{shown}' is not a link of words counted from {first}, such as 1-1 or 2p3")
        yield (int(match[1]) - first, int(match[3]) - first), match[2] == "-"


def refuse_missing_words(links: Iterable[Link], pair: Pair, place: str, *, first: int = 0) -> None:
    """Raise DataError, which names ``place``, for a link to a word beyond the end of its sentence."""
    sizes = len(pair.source.split()), len(pair.target.split())
    for i, j in sorted(links):
        if i >= sizes[0] or j >= sizes[1]:
            raise DataError(
                f"{place}: {i + first}-{j + first} links a missing word: the pair has {sizes[0]} and "
                f"{sizes[1]} words, counted from {first}"
            )


def linked_pairs(pairs: Iterable[Pair], corpus: AnyCorpus, links: str) -> Iterator[tuple[Pair, list[Link]]]:
    """Read the links of each pair of a corpus, sure and possible ones alike, from the lines of the file ``links``.

    Raises DataError if the file cannot be read, has more or fewer lines than there are pairs, or holds anything but
    links of words that are there.
    """
    places = ((f"{path}:{number}", line) for path in matching(links) for number, line in enumerate(read_lines(path), 1))
    rows = zip_longest(pairs, islice(places, corpus.limit))
    for number, (pair, found_line) in enumerate(rows, 1):
        if pair is None or found_line is None:
            longer = number + sum(1 for _ in rows)
            counts = (number - 1, longer) if pair is None else (longer, number - 1)
            raise DataError(
                f"{corpus_name(corpus)}: {counts[0]:,} pairs, but {links} has {counts[1]:,} lines: "
                "line n must hold the links of pair n"
            )
        place, line = found_line
        found = sorted({link for link, _ in parse_links(line, place)})
        refuse_missing_words(found, pair, place)
        yield pair, found


def piece_links(
    links: npt.NDArray[np.int32], source_words: Sequence[int], target_words: Sequence[int]
) -> npt.NDArray[np.float32]:
    """Spread links from words to pieces: (links, 2) -> (T, S).

    Each target piece whose word is linked has a row that is even over all pieces of the source words it is linked to,
    and sums to 1; the other rows are zero. ``source_words`` and ``target_words`` are the word of each piece.
    """
    size = 1 + max(*source_words, *target_words, int(links.max(initial=0)))
    words = np.zeros((size, size))
    words[links[:, 1], links[:, 0]] = 1
    pieces = words[np.ix_(target_words, source_words)]
    return np.asarray(pieces / np.maximum(pieces.sum(1, keepdims=True), 1), np.float32)


def piece_words(pieces: Sequence[str], text: str) -> list[int]:
    """Return for each piece the index of its whitespace word in ``text``.

    The tokenizer's normalization may split or join words of the raw text, and a long line may have been cut off. Then
    equal words are matched in order, and the words between them in proportion.
    """
    marked: list[str] = []
    places: list[int] = []
    begins = True
    for piece in pieces:
        begins = begins or piece == UNKNOWN  # decoded as a separate word
        place = None
        for number, part in enumerate(piece.split(MARK)):
            begins = begins or number > 0
            if part and begins:
                marked.append("")
                begins = False
            if part:
                marked[-1] += part
                place = len(marked) - 1 if place is None else place
        places.append(len(marked) if place is None else place)  # a lone mark is part of the next word
        begins = begins or piece == UNKNOWN
    if not marked:
        return [0] * len(pieces)
    within = 2 * len(marked)  # a much longer line was cut off there
    words = _match(marked, text.split(maxsplit=within)[:within])
    return [words[min(place, len(words) - 1)] for place in places]


def _match(marked: Sequence[str], words: Sequence[str]) -> list[int]:
    """Return for each marked word the index of its counterpart, monotone; exact if the counts are equal."""
    if len(marked) == len(words):
        return list(range(len(words)))
    matched = []
    for tag, i, i_end, j, j_end in SequenceMatcher(None, marked, words, autojunk=False).get_opcodes():
        for k in range(i_end - i):
            within = k if tag == "equal" else k * (j_end - j) // (i_end - i)
            matched.append(j + within if j_end > j else max(j - 1, 0))
    return matched
