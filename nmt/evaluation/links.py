"""Word alignments as sets of links: gold alignments, their scores, and the combination of two directions.

A link (i, j) joins source word i and target word j, both counted from 0.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.data.corpus import Pair
from nmt.data.lines import read_lines
from nmt.data.links import Link, parse_links, refuse_missing_words
from nmt.errors import DataError
from nmt.evaluation.alignment import likeliest_links

Links = frozenset[Link]
NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True)
class Gold:
    """Gold alignment of one pair of sentences."""

    sure: Links
    possible: Links
    """Includes the sure links."""


def parse_gold(line: str, place: str, *, first: int = 0) -> Gold:
    """Parse links such as ``1-2 2p3``: ``i-j`` is sure, ``ipj`` is possible; words are counted from ``first``.

    Raises DataError, which names ``place``, for any other text.
    """
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

    Raises DataError for an unreadable file, different line counts, an invalid link (see :func:`parse_gold`), and a link
    to a word beyond the end of its sentence.
    """
    columns = [list(islice(read_lines(path), limit)) for path in (source, target, links)]
    if len(set(map(len, columns))) > 1 or not columns[0]:
        counts = ", ".join(f"{path} {len(c):,}" for path, c in zip((source, target, links), columns, strict=True))
        raise DataError(f"{counts} lines: line n of each file must belong to line n of the others")
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
    """Number of proposed links."""


def score_alignments(gold: Sequence[Gold], proposed: Sequence[Set[Link]]) -> AlignmentScore:
    """Compute AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), precision and recall of links A, sure S and possible P.

    A precision or recall without any links is 1.
    """
    links = sum(map(len, proposed))
    sure = sum(len(each.sure) for each in gold)
    right = sum(len(each.possible & one) for each, one in zip(gold, proposed, strict=True))
    right_sure = sum(len(each.sure & one) for each, one in zip(gold, proposed, strict=True))
    rate = 1.0 - (right + right_sure) / (links + sure) if links + sure else 0.0
    return AlignmentScore(rate, right / links if links else 1.0, right_sure / sure if sure else 1.0, links)


def links_from(weights: npt.NDArray[np.floating], threshold: float) -> Links:
    """Return the links whose attention between words, (J, I), is at least the threshold."""
    return frozenset((int(i), int(j)) for j, i in np.argwhere(weights >= threshold))


def diagonal(source_words: int, target_words: int) -> Links:
    """Link each target word to the source word at the same relative position: a baseline."""
    return frozenset(((2 * j + 1) * source_words // (2 * target_words), j) for j in range(target_words) if source_words)


def grow_diag_final_and(forward: Set[Link], backward: Set[Link]) -> Links:
    """Combine two directions (Koehn et al. 2003): their intersection, grown by neighbors in the union with at least one
    unaligned word, then by links of either direction between two unaligned words.

    Links are (source, target) in both ``forward`` and ``backward``.
    """
    union, links = forward | backward, set(forward & backward)

    def free(link: Link) -> tuple[bool, bool]:
        return all(i != link[0] for i, _ in links), all(j != link[1] for _, j in links)

    rows, columns = (range(max((link[side] for link in union), default=-1) + 1) for side in (0, 1))
    grown = True
    while grown:
        grown = False
        for i in rows:
            for j in columns:
                if (i, j) not in links:
                    continue  # new links grow, too
                for down, right in NEIGHBORS:
                    link = i + down, j + right
                    if link in union and link not in links and any(free(link)):
                        links.add(link)
                        grown = True
    for direction in (forward, backward):
        for link in sorted(direction):
            if all(free(link)):
                links.add(link)
    return frozenset(links)


# --- attention --------------------------------------------------------------------------------------------------------

THRESHOLDS = tuple(round(0.05 * k, 2) for k in range(1, 20))


def likeliest(weights: Sequence[npt.NDArray[np.floating]]) -> list[Links]:
    """Link each target word to the source word it attends to most, given attention between words (J, I)."""
    return [frozenset(likeliest_links(each)) for each in weights]


def alignment_report(
    gold: GoldPairs,
    weights: Sequence[npt.NDArray[np.floating]],
    reverse: Sequence[npt.NDArray[np.floating]] | None = None,
) -> dict[str, Any]:
    """Score attention between words as word alignment, as a JSON object.

    The links are each target word's most attended source word, all weights above a threshold, and the diagonal. With
    the ``reverse`` attention of a model of the opposite direction, its links, the intersection and
    :func:`grow_diag_final_and` are scored, too. For each pair, ``weights`` are (J, I) and ``reverse`` (I, J).
    """
    forward = likeliest(weights)
    proposed = {"likeliest": forward}
    if reverse is not None:
        backward: list[Links] = [frozenset((i, j) for j, i in links) for links in likeliest(reverse)]
        both = list(zip(forward, backward, strict=True))
        proposed |= {
            "reverse": backward,
            "intersection": [one & other for one, other in both],
            "grow_diag_final_and": [grow_diag_final_and(one, other) for one, other in both],
        }
    proposed["diagonal"] = [diagonal(len(pair.source.split()), len(pair.target.split())) for pair in gold.pairs]
    by_threshold = [
        {"threshold": each} | asdict(score_alignments(gold.links, [links_from(one_pair, each) for one_pair in weights]))
        for each in THRESHOLDS
    ]
    scores = {name: asdict(score_alignments(gold.links, links)) for name, links in proposed.items()}
    links = {name: sum(len(getattr(each, name)) for each in gold.links) for name in ("sure", "possible")}
    return {**scores, "thresholds": by_threshold, "gold": {"pairs": len(gold.pairs), **links}}


def best_threshold(report: Mapping[str, Any]) -> dict[str, float]:
    """Return the threshold row of :func:`alignment_report` with the lowest error rate."""
    best: dict[str, float] = min(report["thresholds"], key=lambda row: float(row["error_rate"]))
    return best


def format_alignment(report: Mapping[str, Any]) -> str:
    """Format the error rates as text."""
    names = {
        "likeliest": "most attended source word",
        "reverse": "most attended target word, opposite direction",
        "intersection": "intersection of both directions",
        "grow_diag_final_and": "grow-diag-final-and of both directions",
        "diagonal": "diagonal",
    }
    rows = {name: report[key] for key, name in names.items() if key in report}
    best = best_threshold(report)
    last = rows.popitem()
    rows |= {f"weights of at least {best['threshold']:.2f}": best, last[0]: last[1]}
    return "\n".join(
        f"AER {row['error_rate']:.3f}  precision {row['precision']:.3f}  recall {row['recall']:.3f}  {name}"
        for name, row in rows.items()
    )
