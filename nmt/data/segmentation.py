"""BPE-dropout: segmentations at random, each a pure function of (model, dropout, text, seed) in every process.

SentencePiece samples too, but its generator gives other pieces for the same seed in another process.
"""

import random
import re
from collections.abc import Callable
from itertools import groupby, pairwise

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
        """Merge the characters of a word (algorithm 1).

        Each round draws which merges are left out, and makes the one of the highest score, the leftmost of equals.
        """
        symbols = list(word)
        while merges := [
            (score, -place)
            for place, pair in enumerate(pairwise(symbols))
            if (score := self._scores.get("".join(pair))) is not None and uniform() >= self._dropout
        ]:
            place = -max(merges)[1]
            symbols[place : place + 2] = ["".join(symbols[place : place + 2])]
        return symbols
