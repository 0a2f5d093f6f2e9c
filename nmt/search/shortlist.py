"""Search among a few tokens of each sentence, with log-probabilities normalized over these.

A model between the network's step and the search's, as rules are. Search sees a vocabulary of each sentence's own, in
which a token is its place in the sentence's list; what search returns is translated back. The network computes the
logits of all tokens of the batch's lists in one product, of which each row takes those of its own sentence: the result
depends on no neighbour.

Shapes: B sentences, R rows, the same number of each sentence, L tokens of the longest list, N tokens that any list has,
S source positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.foundation.records import Record
from nmt.search.types import Hypothesis, Limits, S, Searchable

ALIKE = 128
"""The tokens of a batch are filled up to a multiple: oneDNN prepares a product of a new shape, which takes as long as
the product itself."""


@dataclass(frozen=True)
class Lists(Record):
    """The tokens that each of B sentences may have; the places of a list are its rows' vocabulary."""

    tokens: Tensor
    """(B, L) ids; what is beyond a list is not read."""
    columns: Tensor
    """(B, L) where the batch's N tokens have them."""
    padding: Tensor
    """(B, L), True beyond a list."""


@dataclass(frozen=True)
class ListedState(Generic[S]):
    """A model's state of R rows, and the lists of their B sentences."""

    state: S
    lists: Lists
    width: int
    """Rows of each sentence."""

    def expand(self, width: int) -> "ListedState[S]":
        """As ``StepState`` has it."""
        return ListedState(self.state.expand(width), self.lists, self.width * width)

    def select(self, rows: Tensor) -> "ListedState[S]":
        """As ``StepState`` has it."""
        sentences = rows[:: self.width] // self.width
        unmoved = torch.equal(sentences, torch.arange(len(self.lists.tokens), device=rows.device))
        lists = self.lists if unmoved else self.lists.select(sentences)
        return ListedState(self.state.select(rows), lists, self.width)


class ListedModel(Generic[S]):
    """A model that knows only the tokens in each sentence's list: log p(y) - log of the sum of p over the list.

    Args:
        model: a network or its fast twin; an ensemble raises ConfigError.
        lists: token ids of each of B sentences, each once. BOS, EOS and the forbidden tokens need not be among them.
        limits: of the search, in ids of the whole vocabulary.
    """

    def __init__(self, model: Searchable[S], lists: Sequence[NDArray[np.integer[Any]]], limits: Limits) -> None:
        device = limits.max_lengths.device
        special = list(dict.fromkeys((limits.bos_id, limits.eos_id, *limits.forbidden)))
        rows = [np.concatenate((special, each[np.isin(each, special, invert=True)])) for each in lists]
        self.lengths = [len(row) for row in rows]
        listed = np.arange(max(self.lengths)) < np.array(self.lengths)[:, None]  # (B, L)
        tokens = np.full(listed.shape, limits.eos_id, np.int64)
        tokens[listed] = np.concatenate(rows)
        present = np.bincount(tokens.ravel()) > 0
        union = np.flatnonzero(present)
        filled = np.pad(union, (0, -len(union) % ALIKE), mode="edge")  # (N,)
        columns = np.cumsum(present)[tokens] - 1
        arrays = (torch.from_numpy(each).to(device) for each in (tokens, columns, ~listed))
        self.lists = Lists(*arrays)
        self.model = model.among(torch.from_numpy(filled).to(device))
        place = {token: number for number, token in enumerate(special)}
        self.limits = replace(
            limits,
            bos_id=place[limits.bos_id],
            eos_id=place[limits.eos_id],
            forbidden=tuple(place[token] for token in limits.forbidden),
        )
        """Of the search, in places of the lists: the special tokens have the same place in each."""

    def start(self, state: S) -> ListedState[S]:
        """Add the lists to the network's state before the first token, which has a row for each sentence."""
        return ListedState(state, self.lists, 1)

    def step(self, previous: Tensor, state: ListedState[S], /) -> tuple[Tensor, ListedState[S], Tensor | None]:
        """As ``StepModel`` has it, for places in the lists: (R,) -> (R, L); -inf beyond the list of the sentence."""
        lists, width = state.lists, state.width
        tokens = lists.tokens.gather(1, previous.view(-1, width)).flatten()
        logits, after, attention = self.model.step(tokens, state.state)
        columns = lists.columns.unsqueeze(1).expand(-1, width, -1)
        own = logits.unflatten(0, (-1, width)).gather(2, columns)  # (B, R / B, L)
        own = own.masked_fill_(lists.padding.unsqueeze(1), -torch.inf).flatten(0, 1)
        return torch.log_softmax(own, -1, out=own), ListedState(after, lists, width), attention

    def places(self, tokens: Sequence[Sequence[int]]) -> list[list[int]]:
        """Translate tokens of each of B sentences, all in its list, into places of the list."""
        found = []
        for row, length, each in zip(self.lists.tokens.tolist(), self.lengths, tokens, strict=True):
            place = {token: number for number, token in enumerate(row[:length])} if each else {}
            found.append([place[token] for token in each])
        return found

    def restored(self, found: Sequence[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
        """Translate the places in the hypotheses of each sentence back into tokens."""
        return [
            [replace(each, tokens=tuple(row[place] for place in each.tokens)) for each in hypotheses]
            for row, hypotheses in zip(self.lists.tokens.tolist(), found, strict=True)
        ]
