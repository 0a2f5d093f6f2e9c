"""How hypotheses are compared: penalties for length and for text left untranslated, and one order whatever the ties."""

from dataclasses import dataclass, replace
from typing import Self, overload

import torch
from torch import Tensor

from nmt.records import Record

LEAST_COVERAGE = 1e-6
"""What a source position has at least, so that one without any attention, as windows leave it, costs no infinity."""


@overload
def length_penalty(length: int, alpha: float) -> float: ...
@overload
def length_penalty(length: Tensor, alpha: float) -> Tensor: ...
def length_penalty(length: int | Tensor, alpha: float) -> float | Tensor:
    """lp(y) = ((5 + |y|) / 6)^alpha (Wu et al. 2016, eq. 14); |y| counts EOS; alpha 0 compares log-probabilities."""
    penalty: float | Tensor = ((5 + length) / 6) ** alpha
    return penalty


@dataclass(frozen=True)
class Coverage(Record):
    """How much attention each source position has had from each of R hypotheses; S source positions."""

    beta: float
    real: Tensor
    """(R, S), True on the source's pieces, EOS included."""
    total: Tensor
    """(R, S)"""

    @classmethod
    def none_yet(cls, beta: float, lengths: Tensor) -> Self:
        """Start with an empty hypothesis for each of B sentences of these lengths, (B,) on the model's device."""
        positions = torch.arange(int(lengths.max()), device=lengths.device)
        real = positions < lengths.unsqueeze(1)
        return cls(beta, real, torch.zeros_like(real, dtype=torch.float32))

    def add(self, attention: Tensor | None) -> Self:
        """Count the weights of one step, (R, S)."""
        assert attention is not None, "coverage needs a model that attends"
        return replace(self, total=self.total + attention)

    def penalty(self) -> Tensor:
        """cp(x; y) = beta sum_i log min(sum_j alpha_ji, 1) (Wu et al. 2016, section 7): (R,), at most 0."""
        logs = self.total.clamp(LEAST_COVERAGE, 1.0).log()
        return self.beta * logs.masked_fill(~self.real, 0.0).sum(1)


# --- the largest few of many values, in one order whatever the device, the batch and the ties -------------------------

BLOCK = 64


def best(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` largest of values (R, N) fp32 and their positions, both (R, count), largest first.

    Equal values are ordered by position, which ``torch.topk`` does not promise. One pass over N and no sort: the
    largest ``count`` lie in the ``count`` blocks with the largest maxima.
    """
    rows, size = values.shape
    blocks = size // BLOCK
    if blocks <= count:
        return _best(values, count)
    maxima = values[:, : blocks * BLOCK].view(rows, blocks, BLOCK).amax(2)  # (R, blocks)
    chosen = _best(maxima, count)[1].sort(1).values  # (R, count), ascending, so that positions stay in order
    within = torch.arange(BLOCK, device=values.device)
    tail = torch.arange(blocks * BLOCK, size, device=values.device)  # the rest after the last whole block
    positions = torch.cat(((chosen.unsqueeze(2) * BLOCK + within).flatten(1), tail.expand(rows, -1)), 1)
    values, indices = _best(values.gather(1, positions), count)
    return values, positions.gather(1, indices)


def _best(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """As ``best``, over all of values."""
    some, indices = values.topk(min(count + 1, values.size(1)), dim=1)
    # without equal values and NaN there is only one order; checking on a GPU would synchronize
    if not values.is_cuda and bool((some[:, 1:] < some[:, :-1]).all()):
        return some[:, :count], indices[:, :count]
    return _best_with_ties(values, count)


def _best_with_ties(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """As ``best``, by a 64-bit key with the value in its upper and the position in its lower half."""
    bits = (values + 0.0).view(torch.int32).long()  # adding zero makes -0.0 the equal of 0.0
    ascending = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # fp32's bits, ordered as the numbers are
    keys = (ascending << 32) - torch.arange(values.size(1), device=values.device)
    indices = keys.topk(count, dim=1).indices
    return values.gather(1, indices), indices


def best_tokens(log_probs: Tensor, count: int, forbidden: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The likeliest tokens of log_probs (R, V): values and ids, (R, C), likeliest first, C at least min(count, V).

    The permitted ones among the first ``count`` are all there; forbidden and NaN values come out as -inf.
    """
    values, tokens = best(log_probs, min(count + len(forbidden), log_probs.size(1)))
    banned = values.isnan()
    for token in forbidden:
        banned |= tokens == token
    return values.masked_fill(banned, -torch.inf), tokens
