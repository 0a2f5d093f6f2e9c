"""Word alignment: attention between words, its likeliest links, gold links, and their scores.

Shapes: S source pieces, T target pieces, I source words, J target words. A link (i, j) joins source word i and target
word j, both counted from 0 among the whitespace words of the raw text.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.data.corpus import Pair, read_lines
from nmt.data.links import NO_WORD, Link, added_tag, parse_links, piece_words, refuse_missing_words
from nmt.data.tokenizer import END
from nmt.errors import DataError

Weights = npt.NDArray[np.floating]
Alignment = frozenset[Link]

NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
"""Steps from a link to those beside it, the direct ones first, as Koehn et al. order them."""


def likeliest_links(weights: Weights) -> list[Link]:
    """Link each target word to the source word with the largest weight, given weights (J, I); to none if all are 0."""
    return [(int(row.argmax()), j) for j, row in enumerate(weights) if row.any()]


def symmetrized(ahead: Alignment, back: Alignment) -> Alignment:
    """Join the links of two directions by ``grow-diag-final-and`` (Koehn et al. 2003).

    It begins with the links that both have. It adds those of one direction that are next to a link, also diagonally,
    and have a word without links, until there are no more; then those of which both words have none.
    """
    either, links = ahead | back, set(ahead & back)

    def free(link: Link) -> list[bool]:
        return [word not in {each[side] for each in links} for side, word in enumerate(link)]

    before = -1
    while len(links) > before:
        before = len(links)
        # also of links that are added meanwhile
        for near in ((i + up, j + right) for i, j in sorted(either) if (i, j) in links for up, right in NEIGHBORS):
            if near in either and any(free(near)):
                links.add(near)
    for link in (*sorted(ahead), *sorted(back)):
        if all(free(link)):
            links.add(link)
    return frozenset(links)


class LabelledWeights(NamedTuple):
    """Attention between the labels of two sides, with the end symbol: (target labels, source labels)."""

    weights: Weights
    source: Sequence[str]
    target: Sequence[str]


def labelled_weights(
    attention: Weights,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    source: str,
    target: str,
    *,
    words: tuple[bool, bool] = (True, True),
) -> LabelledWeights:
    """Join pieces to the words of the source, of the target, or of both; the end symbol stays.

    ``attention`` is (T, S), ``source`` the raw line, and ``target`` the detokenized translation. Weights are added over
    a source word's pieces and averaged over a target word's: rows that sum to one still do.
    """
    columns, source_labels = _labels(source_pieces, source, words[0])
    rows, target_labels = _labels(target_pieces, target, words[1])
    inner = attention[: len(target_pieces), : len(source_pieces)]
    weights = (rows.T @ inner @ columns) / np.maximum(rows.sum(axis=0), 1)[:, None]
    return LabelledWeights(np.asarray(weights), source_labels, target_labels)


def word_weights(
    attention: Weights, source_pieces: Sequence[str], target_pieces: Sequence[str], source: str, target: str
) -> Weights:
    """Compute the attention between words, (J, I): :func:`labelled_weights` without the end symbols, so that rows sum
    to less than one. A word that was cut off has no row or column, nor has a tag that is not part of the line."""
    joined = labelled_weights(attention, source_pieces, target_pieces, source, target)
    rows, columns = (
        len(labels) - (len(pieces) - len(without_end(pieces)))
        for labels, pieces in ((joined.target, target_pieces), (joined.source, source_pieces))
    )
    return joined.weights[:rows, added_tag(source_pieces, source) : columns]


def _labels(pieces: Sequence[str], text: str, by_word: bool) -> tuple[Weights, list[str]]:
    """Return (pieces, labels), 1 where the piece is part of the label, and the labels: pieces, or words that the model
    has read, between a tag that is not part of the line and the end symbol."""
    if not by_word:
        return np.eye(len(pieces)), list(pieces)
    inner = without_end(pieces)
    words = piece_words(inner, text)
    tags, count = words.count(NO_WORD), max(words, default=NO_WORD) + 1
    names = [*pieces[:tags], *text.split(maxsplit=count)[:count]]
    whole = np.zeros((len(pieces), len(names) + len(pieces) - len(inner)))
    if names:
        whole[np.arange(len(words)), np.array(words) + tags] = 1
    whole[len(inner) :, len(names) :] = 1
    return whole, [*names, *pieces[len(inner) :]]


def without_end(pieces: Sequence[str]) -> Sequence[str]:
    """Return pieces without the end symbol, if that is the last."""
    return pieces[:-1] if pieces and pieces[-1] == END else pieces


def format_pharaoh(links: Iterable[Link]) -> str:
    """Format links as ``i-j i-j ...``, in the given order."""
    return " ".join(f"{i}-{j}" for i, j in links)


# --- gold links and their scores --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gold:
    """Gold alignment of one pair of sentences."""

    sure: Alignment
    possible: Alignment
    """Includes the sure links."""


def parse_gold(line: str, place: str, *, first: int = 0) -> Gold:
    """Parse the links of a line; arguments and errors as of :func:`~nmt.data.links.parse_links`."""
    links = list(parse_links(line, place, first=first))
    return Gold(frozenset(link for link, sure in links if sure), frozenset(link for link, _ in links))


@dataclass(frozen=True)
class GoldPairs:
    """Pairs of sentences and their gold alignments."""

    pairs: list[Pair]
    links: list[Gold]


def read_gold(
    source: str | Path, target: str | Path, links: str | Path, *, first: int = 0, limit: int | None = None
) -> GoldPairs:
    """Read the first ``limit`` lines, or all, of three files that are aligned line by line.

    Raises DataError for an unreadable file, different line counts, and links that are malformed or of missing words.
    """
    columns = [list(islice(read_lines(path), limit)) for path in (source, target, links)]
    if len(set(map(len, columns))) > 1 or not columns[0]:
        counts = ", ".join(f"{path} {len(c):,}" for path, c in zip((source, target, links), columns, strict=True))
        raise DataError(f"{counts} lines: each file must have as many, at least one")
    pairs, gold = [], []
    for number, (source_line, target_line, line) in enumerate(zip(*columns, strict=True), 1):
        place = f"{links}:{number}"
        pairs.append(Pair(source_line, target_line))
        gold.append(parse_gold(line, place, first=first))
        refuse_missing_words(gold[-1].possible, pairs[-1], place, first=first)
    return GoldPairs(pairs, gold)


@dataclass(frozen=True)
class AlignmentScore:
    """Scores over all sentences (Och & Ney 2003)."""

    error_rate: float
    """AER: 0 is perfect."""
    precision: float
    """Share of the proposed links that are possible."""
    recall: float
    """Share of the sure links that were proposed."""
    links: int


def score_alignments(gold: Sequence[Gold], proposed: Sequence[Collection[Link]]) -> AlignmentScore:
    """Compute AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), precision and recall of links A, sure S and possible P.

    A precision or recall without any links is 1.
    """
    links = sum(map(len, proposed))
    sure = sum(len(each.sure) for each in gold)
    right = sum(len(each.possible.intersection(one)) for each, one in zip(gold, proposed, strict=True))
    right_sure = sum(len(each.sure.intersection(one)) for each, one in zip(gold, proposed, strict=True))
    rate = 1.0 - (right + right_sure) / (links + sure) if links + sure else 0.0
    return AlignmentScore(rate, right / links if links else 1.0, right_sure / sure if sure else 1.0, links)


def diagonal(source_words: int, target_words: int) -> Alignment:
    """Link each target word to the source word at the same relative position: a baseline."""
    return frozenset(((2 * j + 1) * source_words // (2 * target_words), j) for j in range(target_words) if source_words)


# --- attention --------------------------------------------------------------------------------------------------------


def alignment_report(gold: GoldPairs, weights: Sequence[Weights]) -> dict[str, Any]:
    """Score attention between words, (J, I) for each pair, and the diagonal as word alignments: a JSON object."""
    diagonals = [diagonal(len(pair.source.split()), len(pair.target.split())) for pair in gold.pairs]
    links = {name: sum(len(getattr(each, name)) for each in gold.links) for name in ("sure", "possible")}
    return {
        "likeliest": asdict(score_alignments(gold.links, list(map(likeliest_links, weights)))),
        "diagonal": asdict(score_alignments(gold.links, diagonals)),
        "gold": {"pairs": len(gold.pairs), **links},
    }


def format_error_rates(report: Mapping[str, Any]) -> str:
    """Format the error rates as text."""
    rows = {"most attended source word": report["likeliest"], "diagonal": report["diagonal"]}
    return "\n".join(
        f"AER {row['error_rate']:.3f}  precision {row['precision']:.3f}  recall {row['recall']:.3f}  {name}"
        for name, row in rows.items()
    )
