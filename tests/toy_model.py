"""A model for tests of search: a table of probabilities, so that every score can be checked."""

import itertools
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nmt.records import Record
from nmt.search.interface import Hypothesis, Limits, Searchable

PAD, BOS, EOS, A, B, C = range(6)


@dataclass(frozen=True)
class ToyState(Record):
    """Each row's sentence and what it has emitted so far, newest last."""

    sentences: Tensor
    history: Tensor


class ToyModel(Searchable[ToyState]):
    """p(next | sentence, previous, position), from a seed; remembers how many rows each step had."""

    attends = True

    def __init__(self, seed: int, sentences: int, size: int = 6, sharpness: float = 2.0, positions: int = 8) -> None:
        generator = torch.Generator().manual_seed(seed)
        table = torch.randn(sentences, positions, size, size, generator=generator) * sharpness
        self.table = table.log_softmax(-1)
        self.rows: list[int] = []

    def encode(self, source: Tensor, lengths: Tensor) -> int:
        return len(source)

    def start(self, sentences: int, beam_size: int = 1) -> ToyState:
        return ToyState(torch.arange(sentences), torch.zeros(sentences, 0, dtype=torch.long))

    def step(self, previous: Tensor, state: ToyState, /) -> tuple[Tensor, ToyState, Tensor | None]:
        self.rows.append(len(state.sentences))
        position = min(state.history.size(1), self.table.size(1) - 1)
        log_probs = self.table[state.sentences, position, previous]
        # "Attention" that tells which sentence, position and previous token it was computed for.
        attention = torch.stack((state.sentences, torch.full_like(previous, position), previous), 1).float()
        return log_probs, replace(state, history=torch.cat((state.history, previous.unsqueeze(1)), 1)), attention

    def score(self, sentence: int, emitted: tuple[int, ...]) -> float:
        """Forced decoding: log p of these tokens, in fp64."""
        steps = zip(itertools.count(), (BOS, *emitted), emitted, strict=False)
        last = self.table.size(1) - 1
        return sum(float(self.table[sentence, min(place, last), before, token]) for place, before, token in steps)


class RememberingModel(ToyModel):
    """p(next | sentence, all previous tokens, position): it depends on the state, as a network's does."""

    def step(self, previous: Tensor, state: ToyState, /) -> tuple[Tensor, ToyState, Tensor | None]:
        remembered = (state.history.sum(1) + previous) % self.table.size(2)
        log_probs, after, attention = super().step(remembered, state)
        return log_probs, replace(after, history=torch.cat((state.history, previous.unsqueeze(1)), 1)), attention

    def score(self, sentence: int, emitted: tuple[int, ...]) -> float:
        sums = itertools.accumulate((BOS, *emitted[:-1]))
        return sum(
            float(self.table[sentence, min(position, self.table.size(1) - 1), total % self.table.size(2), token])
            for position, (total, token) in enumerate(zip(sums, emitted, strict=True))
        )


def limits(max_lengths: list[int]) -> Limits:
    return Limits(BOS, EOS, (PAD, BOS), torch.tensor(max_lengths))


def emitted(hypothesis: Hypothesis) -> tuple[int, ...]:
    return (*hypothesis.tokens, EOS) if hypothesis.ended else hypothesis.tokens
