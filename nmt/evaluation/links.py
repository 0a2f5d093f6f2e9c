"""Word alignments as sets of links: a gold standard with sure and possible links, scores, and two directions made one.

A link (i, j) joins source word i and target word j, both counted from 0.
"""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nmt.errors import DataError
from nmt.evaluation.alignment import Link, alignment_error_rate

Links = frozenset[Link]
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True)
class Gold:
    """What people linked in one pair of sentences."""

    sure: Links
    possible: Links
    """The sure ones among them."""


def parse_gold(line: str, place: str, *, first: int = 0) -> Gold:
    """Links as ``1-2 2p3``: ``i-j`` is sure, ``ipj`` is possible; words are counted from ``first``.

    Raises DataError, with ``place``, for anything else.
    """
    sure, possible = set(), set()
    for token in line.split():
        match = re.fullmatch(r"([0-9]+)([-p])([0-9]+)", token)
        if match is None or min(int(match[1]), int(match[3])) < first:
            raise DataError(f"{place}: '{token}' is not a link of words counted from {first}; as in: 1-1 2p3")
        link = int(match[1]) - first, int(match[3]) - first
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


@dataclass(frozen=True)
class AlignmentScore:
    """Of all sentences together (Och & Ney 2003)."""

    error_rate: float
    precision: float
    """Of the proposed links, those that are possible."""
    recall: float
    """Of the sure links, those that were proposed."""
    links: int
    """Proposed."""


def score_alignments(gold: Sequence[Gold], proposed: Sequence[Set[Link]]) -> AlignmentScore:
    """AER, precision and recall; a ratio of nothing is 1: no link is wrong, none is missing."""
    links = sum(map(len, proposed))
    sure = sum(len(each.sure) for each in gold)
    right = sum(len(each.possible & found) for each, found in zip(gold, proposed, strict=True))
    found_sure = sum(len(each.sure & found) for each, found in zip(gold, proposed, strict=True))
    rate = alignment_error_rate([each.sure for each in gold], [each.possible for each in gold], list(proposed))
    return AlignmentScore(rate, right / links if links else 1.0, found_sure / sure if sure else 1.0, links)


def links_from(weights: npt.NDArray[np.floating], threshold: float) -> Links:
    """From attention between words, (J, I), the links of at least this weight; i is the source word."""
    return frozenset((int(i), int(j)) for j, i in np.argwhere(weights >= threshold))


def diagonal(source_words: int, target_words: int) -> Links:
    """Each target word linked to the source word at its relative place: the aligner that knows nothing."""
    return frozenset(((2 * j + 1) * source_words // (2 * target_words), j) for j in range(target_words) if source_words)


def grow_diag_final_and(forward: Set[Link], backward: Set[Link]) -> Links:
    """Two directions made one (Koehn et al. 2003): their intersection, grown by neighbours of the union of which one
    word at least is free, then by links of either direction whose words are both free.

    ``backward`` has its links in the same order of sides as ``forward``.
    """
    union, links = forward | backward, set(forward & backward)

    def free(link: Link) -> tuple[bool, bool]:
        return all(i != link[0] for i, _ in links), all(j != link[1] for _, j in links)

    grown = True
    while grown:
        grown = False
        for i, j in sorted(links):
            for down, right in NEIGHBOURS:
                link = i + down, j + right
                if link in union and link not in links and any(free(link)):
                    links.add(link)
                    grown = True
    for direction in (forward, backward):
        for link in sorted(direction):
            if all(free(link)):
                links.add(link)
    return frozenset(links)
