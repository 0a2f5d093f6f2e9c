"""A statistical word aligner: IBM model 2 with the diagonal prior of fast_align (Dyer et al. 2013), its tension fixed.

Shapes: I source words and J target words of a pair, E and F words of the two vocabularies. Source word 0 is the null
word.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from nmt.data.corpus import Pair
from nmt.evaluation.alignment import Alignment

NULL = 0.08
"""Probability that a target word is linked to no source word."""
TENSION = 4.0
"""How strongly links stay near the diagonal."""

Ids = npt.NDArray[np.int64]


def align(pairs: Sequence[Pair], *, iterations: int = 5) -> list[Alignment]:
    """Link each target word to a source word or to none, after expectation maximization on these pairs."""
    sources = _ids(pair.source for pair in pairs)
    targets = [ids[1:] for ids in _ids(pair.target for pair in pairs)]
    shape = tuple(1 + max(int(each.max()) for each in side) for side in (targets, sources))
    probability = np.ones(shape, np.float32)  # t(f | e), (F, E)
    for _ in range(iterations):
        counts = np.zeros(shape, np.float32)
        for source, target in zip(sources, targets, strict=True):
            joint = _joint(probability, source, target)
            np.add.at(counts, np.ix_(target, source), joint / joint.sum(axis=1, keepdims=True))
        probability = counts / counts.sum(axis=0).clip(1e-9)
    best = (_joint(probability, *ids).argmax(axis=1) for ids in zip(sources, targets, strict=True))
    return [frozenset((int(i) - 1, j) for j, i in enumerate(each) if i) for each in best]


def _joint(probability: npt.NDArray[np.float32], source: Ids, target: Ids) -> npt.NDArray[np.float32]:
    """p(a_j = i) t(f_j | e_i), (J, 1 + I)."""
    return probability[np.ix_(target, source)] * _prior(len(target), len(source) - 1)


@cache
def _prior(targets: int, sources: int) -> npt.NDArray[np.float32]:
    """p(a_j = i), (J, 1 + I)."""
    places = ((np.arange(count) + 0.5) / count for count in (targets, sources))
    near = np.exp(-TENSION * np.abs(np.subtract.outer(*places)))
    near *= (1 - NULL) / near.sum(axis=1, keepdims=True)
    return np.hstack([np.full((targets, 1), NULL), near]).astype(np.float32)


def _ids(lines: Iterable[str]) -> list[Ids]:
    """Number the words of each line, in lower case and without punctuation at their ends, behind the null word."""
    known: dict[str, int] = {}
    words = ([re.sub(r"\W+$", "", word.lower()) for word in line.split()] for line in lines)
    return [np.array([0, *(known.setdefault(word, len(known) + 1) for word in each)]) for each in words]
