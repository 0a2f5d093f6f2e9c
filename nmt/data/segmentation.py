"""Sampled segmentations: a pure function of (model, alpha, text, seed), in every process.

SentencePiece samples too, but its generator gives other pieces for the same seed in another process. Here SentencePiece
normalizes a text, and its words are sampled one after the other: the segmentation of one does not depend on another.
Where a piece spans several words, the whole text counts as a word. User-defined symbols stay whole.
"""

import random
import re
from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import accumulate, chain, groupby, pairwise
from math import exp, inf, log

from nmt.data.links import MARK
from nmt.data.tokenizer import Tokenizer

REMEMBERED = 1 << 15
"""Words, or states of their segmentation, whose table is remembered: about 2 kB each."""
LONGEST_REMEMBERED = 32
"""Characters of a word whose table is remembered; a longer one hardly ever returns."""
MERGES = 32
"""Merges that are looked at together."""
UNKNOWN_PENALTY = 10.0
"""How much less than the least probable piece an unknown character scores, as in SentencePiece."""
Uniform = Callable[[], float]
"""Draws from [0, 1)."""


def sampled_segmentation(tokenizer: Tokenizer, alpha: float) -> "Segmentation":
    """The segmentation by a model, which must be of type bpe or unigram."""
    kind = MergeDropout if tokenizer.model_type == "bpe" else SubwordRegularization
    return kind(tokenizer, alpha)


class Segmentation(ABC):
    """How the texts of one side are cut into pieces at random: their words are sampled one after the other.

    Attributes:
        scores: of each piece that a word is cut into; user-defined symbols have none.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._normalized, proto = tokenizer.normalized, tokenizer.proto
        numbers = {piece.piece: number for number, piece in enumerate(proto.pieces)}
        self.scores: dict[str, float] = {
            piece.piece: piece.score for piece in proto.pieces if piece.type == piece.NORMAL
        }
        symbols = [piece.piece for piece in proto.pieces if piece.type == piece.USER_DEFINED]
        self._symbols = {symbol: [numbers[symbol]] for symbol in sorted(symbols, key=len, reverse=True)}
        spanning = any(MARK in piece[1:] for piece in self.scores)
        self._word = re.compile("(?s:.+)" if spanning else f"{MARK}[^{MARK}]*|[^{MARK}]+")
        self._symbol = re.compile(f"({'|'.join(map(re.escape, self._symbols)) or '(?!)'})")
        self._ids = {piece: (numbers[piece],) for piece in self.scores}
        self._unknown = tokenizer.unk_id
        fallback = proto.trainer_spec.byte_fallback
        self._bytes = [numbers[f"<0x{byte:02X}>"] for byte in range(256)] if fallback else None

    def sample(self, text: str, seed: int) -> list[int]:
        """The ids of a sampled segmentation, without BOS and EOS."""
        uniform = random.Random(seed).random
        ids: list[int] = []
        for word in self._words(self._normalized(text)):
            ids += self._symbols.get(word) or self._cut(word, uniform)
        if self._bytes or self._unknown not in ids:
            return ids
        runs = groupby(ids)
        return [number for each, run in runs for number in ([each] if each == self._unknown else run)]

    @abstractmethod
    def _cut(self, word: str, uniform: Uniform) -> list[int]:
        """Sample the ids of a word; an unknown character is a piece."""

    def _words(self, text: str) -> Iterable[str]:
        """The words of a normalized text; user-defined symbols are words of their own."""
        parts = self._symbol.split(text)  # every second one is a symbol
        return chain.from_iterable([part] if i % 2 else self._word.findall(part) for i, part in enumerate(parts))

    def _ids_of(self, piece: str) -> tuple[int, ...]:
        if (ids := self._ids.get(piece)) is not None:
            return ids
        return tuple(self._bytes[byte] for byte in piece.encode()) if self._bytes else (self._unknown,)


class SubwordRegularization(Segmentation):
    """Any segmentation x, with probability p(x)^alpha / Z (Kudo 2018, section 3.2).

    Forward filtering, backward sampling over the lattice of a word of n characters: F(0) = 1 and
    F(j) = sum_i F(i) p(piece from i to j)^alpha. Backwards from j = n, the last piece begins at i with probability
    F(i) p(piece from i to j)^alpha / F(j).
    """

    def __init__(self, tokenizer: Tokenizer, alpha: float) -> None:
        super().__init__(tokenizer)
        self._alpha = alpha
        self._longest = max(map(len, self.scores), default=1)
        self._unknown_score = min(self.scores.values(), default=0.0) - UNKNOWN_PENALTY
        self._remembered = lru_cache(REMEMBERED)(self._last_pieces)

    def _cut(self, word: str, uniform: Uniform) -> list[int]:
        table = (self._remembered if len(word) <= LONGEST_REMEMBERED else self._last_pieces)(word)
        ids: list[int] = []
        end = len(word)
        while end:
            bounds, choices = table[end]
            end, piece = choices[bisect(bounds, uniform()) if bounds else 0]
            ids += piece
        return ids[::-1]

    def _last_pieces(self, word: str) -> list[tuple[list[float], list[tuple[int, tuple[int, ...]]]]]:
        """For each position the pieces that may end there: where each begins, and its ids in reverse, with the bounds
        between their cumulative probabilities."""
        forward = [0.0]  # log F
        table = [(list[float](), list[tuple[int, tuple[int, ...]]]())]
        for end in range(1, len(word) + 1):
            pieces = [(start, word[start:end]) for start in range(max(0, end - self._longest), end)]
            found = [(start, piece) for start, piece in pieces if piece in self.scores or start == end - 1]
            weights = [
                forward[start] + self._alpha * self.scores.get(piece, self._unknown_score) for start, piece in found
            ]
            highest = max(weights)
            cumulative = list(accumulate(exp(weight - highest) for weight in weights))
            forward.append(highest + log(cumulative[-1]))
            bounds = [each / cumulative[-1] for each in cumulative[:-1]]
            table.append((bounds, [(start, self._ids_of(piece)[::-1]) for start, piece in found]))
        return table


State = tuple[tuple[str, ...], tuple[float, ...]]
"""Symbols of a word, and the score of merging each with the next; -inf where they cannot be merged or were left out."""


class MergeDropout(Segmentation):
    """Byte-pair encoding that leaves out each merge with probability ``dropout`` (Provilkov et al. 2020).

    Merges come in order of their scores, then from left to right. A merge that was left out comes again if one of its
    symbols has been merged with its other neighbor. The number of merges before the next one that is left out is drawn
    at once: it is at most k with probability 1 - (1 - dropout)^(k + 1).
    """

    def __init__(self, tokenizer: Tokenizer, dropout: float) -> None:
        super().__init__(tokenizer)
        self._bounds = [1 - (1 - dropout) ** (count + 1) for count in range(MERGES)]
        self._first = lru_cache(REMEMBERED)(lambda word: self._merges(self._start(word)))
        self._next = lru_cache(REMEMBERED)(self._merges)

    def _cut(self, word: str, uniform: Uniform) -> list[int]:
        remembered = len(word) <= LONGEST_REMEMBERED
        states, ids = self._first(word) if remembered else self._merges(self._start(word))
        while True:
            made = bisect(self._bounds, uniform())
            if made < len(states) - 1:
                state = _left_out(states[made])
            elif ids is None:
                state = states[-1]
            else:
                return ids
            states, ids = self._next(state) if remembered else self._merges(state)

    def _score(self, first: str, second: str) -> float:
        return self.scores.get(first + second, -inf)

    def _start(self, word: str) -> State:
        return tuple(word), tuple(self._score(*each) for each in pairwise(word))

    def _merges(self, state: State) -> tuple[list[State], list[int] | None]:
        """The state and those after each of the next merges, at most ``MERGES``; the ids of the last if it is final."""
        states = [state]
        symbols, scores = state
        while (best := max(scores, default=-inf)) > -inf:
            if len(states) > MERGES:
                return states, None
            place = scores.index(best)
            symbols = (*symbols[:place], symbols[place] + symbols[place + 1], *symbols[place + 2 :])
            around = range(max(0, place - 1), min(place + 1, len(symbols) - 1))
            changed = (self._score(symbols[first], symbols[first + 1]) for first in around)
            scores = (*scores[: max(0, place - 1)], *changed, *scores[place + 2 :])
            states.append((symbols, scores))
        return states, [number for symbol in symbols for number in self._ids_of(symbol)]


def _left_out(state: State) -> State:
    """The state without its best merge."""
    symbols, scores = state
    place = scores.index(max(scores))
    return symbols, (*scores[:place], -inf, *scores[place + 1 :])
