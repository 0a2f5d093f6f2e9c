"""How hypotheses of different lengths are compared."""

from typing import overload

from torch import Tensor


@overload
def length_penalty(length: int, alpha: float) -> float: ...
@overload
def length_penalty(length: Tensor, alpha: float) -> Tensor: ...
def length_penalty(length: int | Tensor, alpha: float) -> float | Tensor:
    """lp(y) = ((5 + |y|) / 6)^alpha (Wu et al. 2016, eq. 14); |y| counts EOS; alpha 0 compares log-probabilities."""
    penalty: float | Tensor = ((5 + length) / 6) ** alpha
    return penalty
