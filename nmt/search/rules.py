"""Rules that translations must obey, applied to the model's log-probabilities before search selects hypotheses.

A rule is a pure function of log-probabilities and of what each row has emitted. A model with rules is a ``StepModel``
whose state holds that too, so that greedy search, beam search and sampling need to know nothing of rules. What is not
ruled out keeps its log-probability: nothing is normalized again.

Shapes: B sentences, R rows, T tokens of each row from BOS on, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol

import torch
from torch import Tensor

from nmt.records import Record
from nmt.search.interface import Limits, S, StepModel


class Rule(Protocol):
    """Changes the log-probabilities of next tokens; never raises one, because beam search bounds scores by that."""

    def __call__(self, log_probs: Tensor, history: Tensor, sentences: Tensor, /) -> Tensor:
        """log_probs (R, V), history (R, T), the sentence of each row (R,) -> log-probabilities (R, V)."""


@dataclass(frozen=True)
class NoRepeatedNgram:
    """No n tokens that the row has emitted in a row are emitted in a row again (Paulus et al. 2018, 2.5)."""

    n: int

    def __call__(self, log_probs: Tensor, history: Tensor, sentences: Tensor, /) -> Tensor:
        """(R, V), (R, T), (R,) -> (R, V)."""
        length = history.size(1)
        if length < self.n:
            return log_probs
        ngrams = history.unfold(1, self.n, 1)  # (R, T - n + 1, n)
        latest = history[:, length - self.n + 1 :].unsqueeze(1)  # (R, 1, n - 1)
        seen = (ngrams[:, :, :-1] == latest).all(2)
        highest = torch.full_like(seen, torch.inf, dtype=log_probs.dtype).masked_fill(seen, -torch.inf)
        return log_probs.scatter_reduce(1, ngrams[:, :, -1], highest, "amin")


@dataclass(frozen=True)
class LeastLength:
    """No EOS before a row has its sentence's least number of tokens."""

    lengths: Tensor
    """(B,); EOS is not counted."""
    eos_id: int

    def __call__(self, log_probs: Tensor, history: Tensor, sentences: Tensor, /) -> Tensor:
        """(R, V), (R, T), (R,) -> (R, V)."""
        short = history.size(1) - 1 < self.lengths[sentences]
        changed = log_probs.clone()
        changed[:, self.eos_id] = changed[:, self.eos_id].masked_fill(short, -torch.inf)
        return changed


@dataclass(frozen=True)
class RuledState(Record, Generic[S]):
    """A model's state, and what its R rows have emitted."""

    state: S
    sentences: Tensor
    """(R,)"""
    history: Tensor
    """(R, T)"""


class RuledModel(Generic[S]):
    """A model whose log-probabilities obey rules, applied in their order.

    A row to which the rules leave no token may end, even if it is too short.
    """

    def __init__(self, model: StepModel[S], limits: Limits, rules: Sequence[Rule]) -> None:
        self.model = model
        self.limits = limits
        self.rules = rules

    def start(self, state: S) -> RuledState[S]:
        """Add empty histories to the model's state before the first token, which has a row for each sentence."""
        sentences = torch.arange(self.limits.sentences, device=self.limits.max_lengths.device)
        return RuledState(state, sentences, sentences.new_empty(len(sentences), 0))

    def step(self, previous: Tensor, state: RuledState[S], /) -> tuple[Tensor, RuledState[S], Tensor | None]:
        """Take one step of the model and apply the rules: (R,) -> (R, V), state, attention (R, S) or None."""
        own, after, attention = self.model.step(previous, state.state)
        sentences = state.sentences
        history = torch.cat((state.history, previous.unsqueeze(1)), 1)
        ruled = own
        for rule in self.rules:
            ruled = rule(ruled, history, sentences)
        return self._with_a_way_out(own, ruled), RuledState(after, sentences, history), attention

    def _with_a_way_out(self, own: Tensor, ruled: Tensor) -> Tensor:
        """Give EOS its ``own`` log-probability where every token that may be emitted is impossible."""
        limits = self.limits
        never = torch.tensor(limits.forbidden, dtype=torch.long, device=own.device)
        ruled = ruled.index_fill(1, never, -torch.inf)
        stuck = ruled.amax(1) == -torch.inf
        ruled[:, limits.eos_id] = torch.where(stuck, own[:, limits.eos_id], ruled[:, limits.eos_id])
        return ruled


def obeying(model: StepModel[Any], state: Any, limits: Limits, rules: Sequence[Rule]) -> tuple[StepModel[Any], Any]:
    """Return the model and its state with rules, or as they are if there are none."""
    if not rules:
        return model, state
    ruled = RuledModel(model, limits, rules)
    return ruled, ruled.start(state)
