"""Which sentences of a test set the page shows: some of every length, and those that tell the most."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt

from nmt.evaluation.metrics import Floats, Integers

Booleans = npt.NDArray[np.bool_]
SEED = 1
"""Of the random sentences: the same test set gives the same sentences."""
TELLING = 0.5
"""Share of the sentences that are chosen for what happens in them; the others are random, as many of each length."""


@dataclass(frozen=True)
class Selection:
    """Sentences of a test set."""

    indices: list[int]
    """Ascending, from 0."""
    described: str
    """How they were chosen, in words."""


def choose(
    count: int,
    lengths: Integers,
    bins: Sequence[Sequence[int]],
    bleu: Floats,
    failing: Booleans,
) -> Selection:
    """Choose ``count`` sentences, the same at each call.

    Args:
        count: how many; all if there are no more.
        lengths: of each of N sources, (N,); a blank source is left out.
        bins: the sentences of each bin of length.
        bleu: sentence-level BLEU of each system, (systems, N).
        failing: whether the translation stops early, runs on or repeats itself, (systems, N).
    """
    usable = np.flatnonzero(lengths > 0)
    total = len(lengths)
    if len(usable) <= count:
        blank = "" if len(usable) == total else " that are not blank"
        return Selection(usable.tolist(), f"all {len(usable):,} sentences{blank}")
    generator = np.random.default_rng(SEED)
    shuffled = [generator.permutation([each for each in members if lengths[each]]).tolist() for members in bins]
    chosen: dict[int, None] = {}
    random = count - round(TELLING * count)
    _take(chosen, _in_turn(shuffled), random)
    _take(chosen, _in_turn([list(_in_turn(kind)) for kind in _telling(usable, lengths, bleu, failing)]), count)
    several = len(bleu) > 1
    described = (
        f"{count:,} of {total:,} sentences: {random:,} at random, as many of each length (seed {SEED}), and "
        f"{count - random:,} whose translations fail, are the worst or the best by sentence BLEU"
        + (", or differ most between two systems" if several else "")
    )
    return Selection(sorted(chosen), described)


def _telling(usable: Integers, lengths: Integers, bleu: Floats, failing: Booleans) -> Iterator[list[list[int]]]:
    """Rank the sentences by each reason to show them: failures, worst, best, and differences, each once for a system or
    a pair of systems. Of equal sentences the longer comes first."""

    def ranked(values: Floats, among: Integers) -> list[int]:
        order = np.lexsort((among, -lengths[among], -values[among]))
        return [int(each) for each in among[order]]

    yield [ranked(-one, usable[fails[usable]]) for one, fails in zip(bleu, failing, strict=True)]
    yield [ranked(-one, usable) for one in bleu]
    yield [ranked(one, usable) for one in bleu]
    yield [ranked(one - other, usable[(one > other)[usable]]) for one, other in permutations(bleu, 2)]


def _in_turn(lists: Sequence[Sequence[int]]) -> Iterator[int]:
    """Yield the first of each list, then the second of each, and so on."""
    for place in range(max(map(len, lists), default=0)):
        yield from (each[place] for each in lists if place < len(each))


def _take(chosen: dict[int, None], candidates: Iterable[int], count: int) -> None:
    """Add candidates until there are ``count``."""
    for each in candidates:
        if len(chosen) >= count:
            return
        chosen[each] = None


def typical(members: Sequence[int], bleu: Floats, shown: Sequence[int], most: int = 2) -> list[int]:
    """Return the indices in ``shown`` of the bin's sentences whose BLEU, (N,), is nearest to the median of the bin."""
    inside = set(members)
    median = float(np.median(bleu[list(members)]))
    places = [place for place, each in enumerate(shown) if each in inside]
    return sorted(places, key=lambda place: (abs(bleu[shown[place]] - median), place))[:most]
