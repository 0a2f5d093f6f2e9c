"""Attention as word alignment.

Shapes: S source pieces, T target pieces, I source words, J target words. A link (i, j) joins source word i and target
word j, both counted from 0 among the whitespace words of the raw text.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.data.links import Link, piece_words

Weights = npt.NDArray[np.floating]

END = "</s>"
"""SentencePiece's end symbol."""


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
    return _joined(rows, inner, columns)


class LabelledWeights(NamedTuple):
    """Attention between the labels of two sides, with the end symbol: (target labels, source labels)."""

    weights: Weights
    source: list[str]
    target: list[str]


def labelled_weights(
    attention: Weights,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    source: str,
    target: str,
    *,
    words: tuple[bool, bool] = (True, True),
) -> LabelledWeights:
    """Join pieces to the words of the source, of the target, or of both; the arguments are those of
    :func:`word_weights`.

    As there, weights are added over a source word's pieces and averaged over a target word's, but the end symbol stays:
    rows that sum to one still do.
    """
    columns, source_labels = _labels(source_pieces, source, words[0])
    rows, target_labels = _labels(target_pieces, target, words[1])
    return LabelledWeights(_joined(rows, attention, columns), source_labels, target_labels)


def _joined(rows: Weights, attention: Weights, columns: Weights) -> Weights:
    """Add (T, S) over the pieces of a column, average it over those of a row: (T, J), (S, I) -> (J, I)."""
    return np.asarray((rows.T @ attention @ columns) / np.maximum(rows.sum(axis=0), 1)[:, None])


def _labels(pieces: Sequence[str], text: str, words: bool) -> tuple[Weights, list[str]]:
    """Return (pieces, labels), 1 where the piece is part of the label, and the labels."""
    if not words:
        return np.eye(len(pieces)), list(pieces)
    inner = _without_end(pieces)
    member = _membership(piece_words(inner, text), text)
    count, ends = member.shape[1], len(pieces) - len(inner)
    whole = np.zeros((len(pieces), count + ends))
    whole[: len(inner), :count] = member
    whole[len(inner) :, count:] = 1
    return whole, [*text.split(maxsplit=count)[:count], *pieces[len(inner) :]]


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


def format_pharaoh(links: Iterable[Link]) -> str:
    """Format links as ``i-j i-j ...``, in the given order."""
    return " ".join(f"{i}-{j}" for i, j in links)
