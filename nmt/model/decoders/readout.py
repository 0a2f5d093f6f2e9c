"""What a readout ends in: the nonlinearity before the output layer.

Shapes: O readout.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn


class Tanh(nn.Module):
    """(..., O) -> (..., O), as Luong et al. 2015, eq. 5."""

    units: ClassVar[int] = 1
    """Units that each number of a readout is made of."""

    def forward(self, units: Tensor) -> Tensor:
        """tanh of each unit."""
        return torch.tanh(units)


class Maxout(nn.Module):
    """(..., 2O) -> (..., O), the larger of each pair of units (Goodfellow et al. 2013; Bahdanau et al. 2015, A.2.2)."""

    units: ClassVar[int] = 2
    """Units that each number of a readout is made of."""

    def forward(self, units: Tensor) -> Tensor:
        """The larger unit of each pair."""
        larger: Tensor = units.unflatten(-1, (-1, 2)).max(-1).values
        return larger


Readout = Tanh | Maxout
