"""How hypotheses of different lengths are compared, and what is lost by source text left untranslated."""

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
