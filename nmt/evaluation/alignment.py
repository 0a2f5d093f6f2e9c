"""Attention as word alignment.

Shapes: S source pieces, T target pieces, I source words, J target words. A link (i, j) joins source word i and target
word j, both counted from 0 among the whitespace words of the raw text.
"""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

import numpy as np
import numpy.typing as npt

Link = tuple[int, int]
Weights = npt.NDArray[np.floating]

MARK = "▁"
"""SentencePiece's mark for the beginning of a word."""
END, UNKNOWN = "</s>", "<unk>"
"""SentencePiece's end symbol and unknown symbol."""


def likeliest_links(weights: Weights) -> list[Link]:
    """Link each target word to the source word with the largest weight, given weights (J, I)."""
    return [(int(i), j) for j, i in enumerate(weights.argmax(axis=1))] if weights.size else []


def word_weights(
    attention: Weights, source_pieces: Sequence[str], target_pieces: Sequence[str], source: str, target: str
) -> Weights:
    """Compute the attention between words, (J, I): the sum over a source word's pieces, averaged over a target word's.

    ``attention`` is (T, S), ``source`` the raw line, and ``target`` the detokenized translation. If a list of pieces
    ends with the end symbol, its row or column is left out, so rows sum to less than one. A word that was cut off,
    because the model read only the beginning of the line, has no row or column.
    """
    source_pieces, target_pieces = _without_end(source_pieces), _without_end(target_pieces)
    columns = _membership(piece_words(source_pieces, source), source)
    rows = _membership(piece_words(target_pieces, target), target)
    inner = attention[: len(target_pieces), : len(source_pieces)]
    return np.asarray((rows.T @ inner @ columns) / np.maximum(rows.sum(axis=0), 1)[:, None])


def _without_end(pieces: Sequence[str]) -> Sequence[str]:
    return pieces[:-1] if pieces and pieces[-1] == END else pieces


def _membership(words: Sequence[int], text: str) -> Weights:
    """Return (pieces, words): 1 where the piece is part of the word; words after the last piece have no column."""
    most = max(words, default=-1) + 1
    count = len(text.split(maxsplit=most)[:most])
    member = np.zeros((len(words), count))
    if count:
        member[np.arange(len(words)), words] = 1
    return member


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


def format_pharaoh(links: Iterable[Link]) -> str:
    """Format links as ``i-j i-j ...``, in the given order."""
    return " ".join(f"{i}-{j}" for i, j in links)
