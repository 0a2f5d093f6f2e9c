"""BPE-dropout: segmentations at random, each a pure function of (model, dropout, text, seed) in every process.

SentencePiece samples too, but its generator gives other pieces for the same seed in another process.
"""

import random
import re
from collections.abc import Callable
from itertools import groupby, pairwise
from math import inf

from nmt.data.links import MARK
from nmt.data.tokenizer import Tokenizer

WORD = re.compile(f"{MARK}[^{MARK}]*|[^{MARK}]+")
"""A word of a normalized text; no piece of a learned model spans two."""


class BpeDropout:
    """Byte-pair encoding that leaves out each merge with probability ``dropout`` (Provilkov et al. 2020)."""

    def __init__(self, tokenizer: Tokenizer, dropout: float) -> None:
        self._tokenizer, self._dropout = tokenizer, dropout
        self._scores = tokenizer.scores()
        self._ids = {piece: tokenizer.piece_id(piece) for piece in self._scores}

    def sample(self, text: str, seed: int) -> list[int]:
        """The ids of a sampled segmentation, without BOS and EOS."""
        uniform, unknown = random.Random(seed).random, self._tokenizer.unk_id
        words = WORD.findall(self._tokenizer.normalized(text))
        ids = [self._ids.get(symbol, unknown) for word in words for symbol in self._merged(word, uniform)]
        if unknown not in ids:
            return ids
        return [number for number, run in groupby(ids) for _ in ([number] if number == unknown else run)]

    def _merged(self, word: str, uniform: Callable[[], float]) -> list[str]:
        """Merge the characters of a word, in order of the scores, then from left to right.

        A merge that was left out comes again if one of its symbols has been merged with its other neighbor.
        """
        symbols = list(word)
        scores = [self._scores.get(first + second, -inf) for first, second in pairwise(symbols)]  # of each merge
        while (best := max(scores, default=-inf)) > -inf:
            place = scores.index(best)
            if uniform() < self._dropout:
                scores[place] = -inf
                continue
            symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
            del scores[place]
            for left in range(max(0, place - 1), min(place + 1, len(scores))):
                scores[left] = self._scores.get(symbols[left] + symbols[left + 1], -inf)
        return symbols
