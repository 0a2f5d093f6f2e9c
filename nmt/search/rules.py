"""Rules that translations must obey: no repeated n-grams, a least length, and tokens that occur exactly once.

A model with rules is searched as any other: its steps exclude tokens. What is not excluded keeps its log-probability;
nothing is normalized again.

Shapes: B sentences, R rows, T tokens of each row from BOS on, V vocabulary, P tokens that may occur once.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nmt.records import Record
from nmt.search.interface import Limits, Searchable


@dataclass(frozen=True)
class RuledState(Record):
    """A model's state, and what its R rows have emitted."""

    state: Any
    sentences: Tensor
    """Index of the sentence of each row, (R,)."""
    history: Tensor
    """Tokens so far, from BOS, (R, T)."""


@dataclass(frozen=True)
class Once:
    """Tokens that a translation has exactly once, or never."""

    tokens: Tensor
    """(P,)"""
    wanted: Tensor
    """(B, P) whether the translation of a sentence has each of them."""
    space: int
    """The token that comes before one that is due, if there is room."""


class Ruled(Searchable[RuledState]):
    """A model whose translations obey rules. If they exclude every token, the row may end.

    A row emits ``no_repeat_ngram`` tokens in a row only once; 0: any may repeat. ``least`` (B,) is the fewest tokens of
    each sentence's translation, EOS not counted. Those of ``once`` occur exactly once: one is due when a row would end
    without it, or has little room left.
    """

    def __init__(
        self, model: Searchable[Any], limits: Limits, no_repeat_ngram: int, least: Tensor, once: Once | None
    ) -> None:
        self.model, self.limits, self.no_repeat_ngram, self.least = model, limits, no_repeat_ngram, least
        self.once = once
        self.attends = model.attends

    def encode(self, source: Tensor, lengths: Tensor) -> Any:
        return self.model.encode(source, lengths)

    def start(self, memory: Any, beam_size: int = 1) -> RuledState:
        sentences = torch.arange(self.limits.sentences, device=self.limits.max_lengths.device)
        return RuledState(self.model.start(memory, beam_size), sentences, sentences.new_empty(len(sentences), 0))

    def step(self, previous: Tensor, state: RuledState, /) -> tuple[Tensor, RuledState, Tensor | None]:
        own, after, attention = self.model.step(previous, state.state)
        history = torch.cat((state.history, previous.unsqueeze(1)), 1)
        eos = self.limits.eos_id
        ruled = own.index_fill(1, own.new_tensor(self.limits.forbidden, dtype=torch.long), -torch.inf)
        if self.no_repeat_ngram:
            ruled = without_repeats(ruled, history, self.no_repeat_ngram)
        early = history.size(1) <= self.least[state.sentences]
        ruled[:, eos] = ruled[:, eos].masked_fill(early, -torch.inf)
        if self.once is not None:
            ruled = self._with_each_once(ruled, state.sentences, history, self.once)
        stuck = ruled.amax(1) == -torch.inf
        ruled[:, eos] = torch.where(stuck, own[:, eos], ruled[:, eos])
        return ruled, RuledState(after, state.sentences, history), attention

    def _with_each_once(self, log_probs: Tensor, sentences: Tensor, history: Tensor, once: Once) -> Tensor:
        """Exclude tokens that a row does not need, its end while it needs one, and all others if one is due: (R, V)."""
        eos, room = self.limits.eos_id, self.limits.max_lengths[sentences] - history.size(1) + 1  # (R,)
        left = once.wanted[sentences] & ~(history.unsqueeze(2) == once.tokens).any(1)  # (R, P)
        log_probs[:, once.tokens] = log_probs[:, once.tokens].masked_fill(~left, -torch.inf)
        due = left.any(1) & ((log_probs.argmax(1) == eos) | (room <= 2 * left.sum(1)))  # (R,)
        space = log_probs[:, once.space]
        spaced = (history[:, -1] == once.space) | (room <= left.sum(1)) | (space == -torch.inf)  # (R,)
        only = torch.full_like(log_probs, -torch.inf)
        only[:, once.tokens] = log_probs[:, once.tokens].masked_fill(~spaced.unsqueeze(1), -torch.inf)
        only[:, once.space] = space.masked_fill(spaced, -torch.inf)
        log_probs = torch.where(due.unsqueeze(1), only, log_probs)
        log_probs[:, eos] = log_probs[:, eos].masked_fill(left.any(1), -torch.inf)
        return log_probs

    def searching(self) -> AbstractContextManager[object]:
        return self.model.searching()


def without_repeats(log_probs: Tensor, history: Tensor, n: int) -> Tensor:
    """Exclude tokens that would repeat n tokens in a row (Paulus et al. 2018, 2.5): (R, V), (R, T) -> (R, V)."""
    length = history.size(1)
    if length < n:
        return log_probs
    ngrams = history.unfold(1, n, 1)  # (R, T - n + 1, n)
    latest = history[:, length - n + 1 :].unsqueeze(1)  # (R, 1, n - 1)
    seen = (ngrams[:, :, :-1] == latest).all(2)
    highest = torch.full_like(seen, torch.inf, dtype=log_probs.dtype).masked_fill(seen, -torch.inf)
    return log_probs.scatter_reduce(1, ngrams[:, :, -1], highest, "amin")
