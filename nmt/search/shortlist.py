"""Search among a few tokens of each sentence, with log-probabilities normalized over these.

A model between the network's step and the search's, as rules are. Search sees a vocabulary of each sentence's own, in
which a token is its place in the sentence's list; what search returns is translated back. The network computes the
logits of all tokens of the batch's lists in one product, of which each row takes those of its own sentence: the result
depends on no neighbour.

Shapes: B sentences, R rows, L tokens of the longest list, N tokens that any list has, S source positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.search.types import Hypothesis, Limits, S, Searchable


@dataclass(frozen=True)
class ListedState(Generic[S]):
    """A model's state, and the sentences of its R rows."""

    state: S
    sentences: Tensor
    """(R,)"""

    def expand(self, width: int) -> "ListedState[S]":
        """As ``StepState`` has it."""
        return ListedState(self.state.expand(width), self.sentences.repeat_interleave(width, 0))

    def select(self, rows: Tensor) -> "ListedState[S]":
        """As ``StepState`` has it."""
        return ListedState(self.state.select(rows), self.sentences[rows])


class ListedModel(Generic[S]):
    """A model that knows only the tokens in each sentence's list: log p(y) - log of the sum of p over the list.

    Args:
        model: the network, its fast twin; no ensemble.
        lists: token ids of each of B sentences. BOS, EOS and the forbidden tokens need not be among them.
        limits: of the search, in ids of the whole vocabulary.
    """

    def __init__(self, model: Searchable[S], lists: Sequence[NDArray[np.integer[Any]]], limits: Limits) -> None:
        device = limits.max_lengths.device
        special = list(dict.fromkeys((limits.bos_id, limits.eos_id, *limits.forbidden)))
        rows = [np.concatenate((special, np.setdiff1d(each, special))) for each in lists]
        self.lengths = [len(row) for row in rows]
        listed = np.arange(max(self.lengths, default=0)) < np.array(self.lengths, np.int64)[:, None]  # (B, L)
        union, columns = np.unique(np.concatenate(rows) if rows else [], return_inverse=True)  # (N,)
        padded = np.zeros(listed.shape, np.int64)
        padded[listed] = columns
        self.tokens = torch.from_numpy(union.astype(np.int64)[padded]).to(device)  # (B, L)
        """Place in the sentence's list -> token."""
        self.columns = torch.from_numpy(padded).to(device)  # (B, L)
        """Place in the sentence's list -> place in the batch's."""
        self.padding = torch.from_numpy(~listed).to(device)  # (B, L)
        self.model = model.among(torch.from_numpy(union.astype(np.int64)).to(device))
        place = {token: number for number, token in enumerate(special)}
        self.limits = replace(
            limits,
            bos_id=place[limits.bos_id],
            eos_id=place[limits.eos_id],
            forbidden=tuple(place[token] for token in limits.forbidden),
        )
        """Of the search, in places of the lists: the special tokens have the same place in each."""

    def start(self, state: S) -> ListedState[S]:
        """Add the sentences to the network's state before the first token, which has a row for each of them."""
        return ListedState(state, torch.arange(self.limits.sentences, device=self.tokens.device))

    def step(self, previous: Tensor, state: ListedState[S], /) -> tuple[Tensor, ListedState[S], Tensor | None]:
        """As ``StepModel`` has it, for places in the lists: (R,) -> (R, L); -inf where a sentence's list has ended."""
        sentences = state.sentences
        logits, after, attention = self.model.step(self.tokens[sentences, previous], state.state)
        own = logits.gather(1, self.columns[sentences]).masked_fill_(self.padding[sentences], -torch.inf)
        return own.log_softmax(-1), ListedState(after, sentences), attention

    def places(self, tokens: Sequence[Sequence[int]]) -> list[list[int]]:
        """Translate tokens of each of B sentences, all in its list, into places of the list."""
        found = []
        for row, length, each in zip(self.tokens.tolist(), self.lengths, tokens, strict=True):
            place = {token: number for number, token in enumerate(row[:length])} if each else {}
            found.append([place[token] for token in each])
        return found

    def restored(self, found: Sequence[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
        """Translate the places in the hypotheses of each sentence back into tokens."""
        return [
            [replace(each, tokens=tuple(row[place] for place in each.tokens)) for each in hypotheses]
            for row, hypotheses in zip(self.tokens.tolist(), found, strict=True)
        ]
