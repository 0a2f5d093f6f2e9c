"""The interface of a model for search, several models as one, the limits of a search, and its results.

No network is known here. Shapes: B sentences, K hypotheses of each, R = B * K rows (the hypotheses of a sentence are
neighbors), S source and T target positions, V vocabulary.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from nmt.errors import NmtError
from nmt.records import Record

S = TypeVar("S", bound=Record)
"""A model's state between two steps: R rows, of which those of a sentence stay together."""
Length = TypeVar("Length", float, Tensor)


class Searchable(ABC, Generic[S]):
    """The interface of a network, its fast twin, or an ensemble, for translation."""

    attends: bool
    """Whether steps return attention weights."""

    @abstractmethod
    def encode(self, source: Tensor, lengths: Tensor) -> Any:
        """Read B sentences: source (B, S) ids, lengths (B,) on the CPU -> what :meth:`start` takes."""

    @abstractmethod
    def start(self, memory: Any, beam_size: int = 1) -> S:
        """Make the state before the first token, one row a sentence; the search may expand each to ``beam_size``."""

    @abstractmethod
    def step(self, previous: Tensor, state: S, /) -> tuple[Tensor, S, Tensor | None]:
        """Take one step: previous (R,) -> log-probabilities (R, V), into which the search may write, the next state,
        attention (R, S) or None."""

    def searching(self) -> AbstractContextManager[object]:
        """Return the context in which the methods above are to be called; an ensemble enters those of its members."""
        return nullcontext()


# --- several models that translate together ---------------------------------------------------------------------------


@dataclass(frozen=True)
class EnsembleState(Record):
    """The states of all members, of R rows each."""

    members: tuple[Any, ...]


class Ensemble(Searchable[EnsembleState]):
    """The mean of the probabilities of its members: p(y) = 1/M sum_m p_m(y).

    The arithmetic mean is a distribution without normalization, and a member that has never seen a token cannot veto
    it, as it would in a geometric mean. Members read the same source pieces and share the target vocabulary; all else
    may differ. Attention is the mean over the members that attend.
    """

    def __init__(self, members: Sequence[Searchable[Any]]) -> None:
        self.members = members
        self.attends = any(member.attends for member in members)

    def _of_each(self, call: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        """Call each member, with its own arguments, in its own context."""
        found = []
        for member, *own in zip(self.members, *arguments, strict=True):
            with member.searching():
                found.append(call(member, *own))
        return found

    def encode(self, source: Tensor, lengths: Tensor) -> list[Any]:
        return self._of_each(lambda member: member.encode(source, lengths))

    def start(self, memory: Sequence[Any], beam_size: int = 1) -> EnsembleState:
        return EnsembleState(tuple(self._of_each(lambda member, own: member.start(own, beam_size), memory)))

    def step(self, previous: Tensor, state: EnsembleState, /) -> tuple[Tensor, EnsembleState, Tensor | None]:
        steps = self._of_each(lambda member, own: member.step(previous, own), state.members)
        log_probs, states, attentions = zip(*steps, strict=True)
        mean = torch.stack(log_probs).logsumexp(0) - math.log(len(log_probs))  # fp32: (M, R, V) -> (R, V)
        attending = [attention for attention in attentions if attention is not None]
        return mean, EnsembleState(states), torch.stack(attending).mean(0) if attending else None


# --- limits and results -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """The first token of a hypothesis, its last one, the forbidden ones, and its greatest length."""

    bos_id: int
    eos_id: int
    forbidden: tuple[int, ...]
    """Ids that are never emitted."""
    max_lengths: Tensor
    """(B,) long, at least 1, on the model's device: the most tokens of each sentence's hypotheses, EOS counted. One a
    sentence, so that a result never depends on the neighbors."""

    @property
    def sentences(self) -> int:
        """B."""
        return self.max_lengths.size(0)

    def exclude(self, log_probs: Tensor) -> None:
        """Set forbidden tokens and NaN in (..., V) to -inf, in place: NaN would rank above every number."""
        for token in self.forbidden:
            log_probs[..., token].fill_(-torch.inf)
        log_probs.nan_to_num_(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)


def penalty(length: Length, alpha: float) -> Length:
    """lp(y) = ((5 + |y|) / 6)^alpha (Wu et al. 2016, eq. 14); |y| counts EOS; alpha 0 compares log-probabilities."""
    result: Length = ((5 + length) / 6) ** alpha
    return result


@dataclass(frozen=True)
class Hypothesis:
    """One finished translation."""

    tokens: tuple[int, ...]
    """Without BOS and EOS."""
    log_probability: float
    """Sum over the tokens and, if it was emitted, EOS."""
    score: float
    """The log-probability divided by the length penalty."""
    ended: bool
    """Whether EOS was emitted; otherwise the hypothesis was cut at its greatest length."""
    attention: Tensor | None = None
    """(T, S) fp32 on the CPU, a row for each token with EOS; None unless requested and the model attends."""

    @classmethod
    def from_emitted(
        cls, emitted: Sequence[int], log_probability: float, attention: list[Tensor], eos_id: int, alpha: float
    ) -> Self:
        """Make the hypothesis of emitted tokens, EOS included; ``attention`` has a row (S,) for each, or is empty."""
        if not math.isfinite(log_probability):
            raise no_finite_probability()
        ended = emitted[-1] == eos_id
        return cls(
            tokens=tuple(emitted[:-1] if ended else emitted),
            log_probability=log_probability,
            score=log_probability / penalty(len(emitted), alpha),
            ended=ended,
            attention=torch.stack(attention) if attention else None,
        )


def no_finite_probability() -> NmtError:
    """Return the error for a model whose log-probabilities are all NaN or minus infinity."""
    cause = "its weights are damaged or its training diverged"
    return NmtError(f"the model gives no finite probability to any translation: {cause}")


class AttentionBuffer:
    """Copies of the attention weights of all steps of a search, in fp32, in a few large blocks.

    Small tensors between the large ones of each step would fragment the heap: gigabytes for a line of 1,000 pieces.
    """

    BLOCK = 1 << 20
    """Weights in a block."""

    def __init__(self) -> None:
        self._block = torch.empty(0)
        self._used = 0

    def add(self, weights: Tensor | None) -> Tensor | None:
        """Copy the weights of a step, (R, S), if it has any, and return the copy."""
        if weights is None:
            return None
        size = weights.numel()
        if self._used + size > self._block.numel():
            self._block = torch.empty(max(self.BLOCK, size), device=weights.device)
            self._used = 0
        copy = self._block[self._used : self._used + size].view(weights.shape)
        self._used += size
        return copy.copy_(weights)
