"""Word links in the Pharaoh format, the words that pieces belong to, and links spread from words to pieces.

A link (i, j) joins source word i and target word j, both counted from 0 among the whitespace words of the raw text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice, zip_longest

from nmt.config.schema import TAG, AnyCorpus
from nmt.data.corpus import Pair, corpus_name, read_lines
from nmt.data.tokenizer import MARK, UNKNOWN
from nmt.errors import DataError

Link = tuple[int, int]
NO_WORD = -1
"""In place of a word, for the piece of an added tag."""


def parse_links(line: str, place: str, *, first: int = 0) -> Iterator[tuple[Link, bool]]:
    """Parse links such as ``1-2 2p3``, words counted from ``first``; each comes with whether it is sure (``i-j``).

    Raises DataError, which names ``place``, for any other text.
    """
    for token in line.split():
        match = re.fullmatch(r"([0-9]{1,9})([-p])([0-9]{1,9})", token)
        if match is None or min(int(match[1]), int(match[3])) < first:
            raise DataError(f"{place}: '{token[:40]}' is not a link of words counted from {first}, such as 1-1 or 2p3")
        yield (int(match[1]) - first, int(match[3]) - first), match[2] == "-"


def refuse_missing_words(links: Iterable[Link], pair: Pair, place: str, *, first: int = 0) -> None:
    """Raise DataError, which names ``place``, for a link to a word beyond the end of its sentence."""
    sizes = len(pair.source.split()), len(pair.target.split())
    for i, j in sorted(links):
        if i >= sizes[0] or j >= sizes[1]:
            problem = f"{place}: {i + first}-{j + first} links a missing word"
            raise DataError(f"{problem}: the pair has {sizes[0]} and {sizes[1]} words, counted from {first}")


def linked_pairs(pairs: Iterable[Pair], corpus: AnyCorpus) -> Iterator[tuple[Pair, set[Link]]]:
    """Read the links of each pair of a corpus, sure and possible ones alike; none if it names no file of links.

    Raises DataError if the file cannot be read, has more or fewer lines than there are pairs, or holds anything but
    links of words that are there.
    """
    if corpus.links is None:
        yield from ((pair, set()) for pair in pairs)
        return
    lines = ((f"{corpus.links}:{number}", line) for number, line in enumerate(read_lines(corpus.links), 1))
    for read, (pair, placed) in enumerate(zip_longest(pairs, islice(lines, corpus.limit))):
        if pair is None or placed is None:
            found = f"{'more than ' if pair is None else ''}{read:,} lines"
            raise DataError(f"{corpus.links}: has {found}; must have one for each pair of {corpus_name(corpus)}")
        place, line = placed
        links = {link for link, _ in parse_links(line, place)}
        refuse_missing_words(links, pair, place)
        yield pair, links


def piece_links(links: set[Link], source_words: Sequence[int], target_words: Sequence[int]) -> list[int]:
    """Link all pieces of linked words, given the word of each piece: -> source piece, target piece, ..."""
    pieces = ((s, t) for t, j in enumerate(target_words) for s, i in enumerate(source_words) if (i, j) in links)
    return [piece for link in pieces for piece in link]


def added_tag(pieces: Sequence[str], text: str) -> bool:
    """Whether the first piece is a tag, such as ``<2fr>``, that the text does not begin with."""
    tag = re.fullmatch(TAG, pieces[0]) if pieces and pieces[0] != UNKNOWN else None
    return tag is not None and not text.lstrip().startswith(tag[0])


def piece_words(pieces: Sequence[str], text: str) -> list[int]:
    """Return for each piece the index of its whitespace word in ``text``.

    The tokenizer's normalization may split or join words of the raw text, and a long line may have been cut off. Then
    equal words are matched in order, and the words between them in proportion. An added tag has ``NO_WORD``.
    """
    if added_tag(pieces, text):
        return [NO_WORD, *piece_words(pieces[1:], text)]
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
