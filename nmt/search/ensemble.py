"""Several models that translate together.

Shapes: B sentences, R rows, S source positions, V vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nmt.search.types import Searchable, StepState


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members, of R rows each."""

    members: tuple[StepState, ...]

    def expand(self, width: int) -> "EnsembleState":
        """Repeat each row of every member ``width`` times."""
        return EnsembleState(tuple(member.expand(width) for member in self.members))

    def select(self, rows: Tensor) -> "EnsembleState":
        """Reorder or drop the rows of every member."""
        return EnsembleState(tuple(member.select(rows) for member in self.members))


class Ensemble(Searchable[EnsembleState]):
    """The mean of the probabilities of its members: p(y) = 1/M sum_m p_m(y).

    The arithmetic mean is a distribution as it stands, and a member that has never seen a token vetoes nothing, as it
    would in a geometric mean. Members read the same source pieces and share the target vocabulary; else they may differ
    in everything. Attention is the mean over the members that attend.
    """

    def __init__(self, members: Sequence[Searchable[Any]]) -> None:
        self.members = members
        self.attends = any(member.attends for member in members)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Any, ...]:
        """Read the sentences with every member."""
        memories = []
        for member in self.members:
            with member.searching():
                memories.append(member.encode(source, lengths))
        return tuple(memories)

    def start(self, memory: tuple[Any, ...]) -> EnsembleState:
        """Make the first states of all members."""
        states = []
        for member, each in zip(self.members, memory, strict=True):
            with member.searching():
                states.append(member.start(each))
        return EnsembleState(tuple(states))

    def step(self, previous: Tensor, state: EnsembleState, /) -> tuple[Tensor, EnsembleState, Tensor | None]:
        """Take one step of every member: (R,) -> (R, V), state, attention (R, S) or None."""
        log_probs, states, attentions = [], [], []
        for member, each in zip(self.members, state.members, strict=True):
            with member.searching():
                of_member, after, attention = member.step(previous, each)
            log_probs.append(of_member)
            states.append(after)
            if attention is not None:
                attentions.append(attention)
        mean = torch.stack(log_probs).logsumexp(0) - math.log(len(log_probs))  # fp32: (M, R, V) -> (R, V)
        attention = torch.stack(attentions).mean(0) if attentions else None
        return mean, EnsembleState(tuple(states)), attention


def together(members: Sequence[Searchable[Any]]) -> Searchable[Any]:
    """Return what translates as all members together: one member itself, several as an ensemble."""
    return members[0] if len(members) == 1 else Ensemble(members)
