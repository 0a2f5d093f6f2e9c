"""Terms of the loss that guide the attention: to the diagonal, or to given links.

Shapes: B sentences, T target positions, S source positions.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from nmt.data.batching import Batch
from nmt.errors import ConfigError
from nmt.model import Network
from nmt.training.objective import Loss, Objective


class Guide(Protocol):
    """A penalty of attention weights."""

    def __call__(self, weights: Tensor, batch: Batch) -> Tensor:
        """Sum the penalty over the real target pieces: weights (B, T, S), fp32 or fp64 -> a number."""


@dataclass(frozen=True)
class DiagonalGuide:
    """The mean of 1 - exp(-(t/T - s/S)² / (2 g²)) under the attention (Tachibana et al. 2018, section 4).

    t and s count from 1, and T and S are the lengths of the sentence, EOS included: the two EOS are on the diagonal.
    """

    deviation: float = 0.2
    """g."""

    def __call__(self, weights: Tensor, batch: Batch) -> Tensor:
        """As ``Guide`` has it."""
        _, targets, sources = weights.shape
        target_places = places(batch.target_mask.sum(1), targets).unsqueeze(2)  # (B, T, 1)
        source_places = places(batch.source_lengths.to(weights.device), sources).unsqueeze(1)  # (B, 1, S)
        distance = target_places - source_places
        penalty = 1 - torch.exp(-distance.square() / (2 * self.deviation**2))  # (B, T, S)
        return ((weights * penalty).sum(2) * batch.target_mask).sum()


@dataclass(frozen=True)
class LinksGuide:
    """Cross-entropy of the attention with given links: -sum_ts a*_ts ln alpha_ts (Chen et al. 2016, section 3).

    A target piece without links adds nothing.
    """

    def __call__(self, weights: Tensor, batch: Batch) -> Tensor:
        """As ``Guide`` has it. Raises ConfigError without links."""
        if batch.links is None:
            raise ConfigError("training.guided_attention.type: 'links' needs the links of the training set")
        # a weight may be zero at a link: outside of a window, or because it is too small for its type
        surprise = -weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
        return (batch.links * surprise).sum()


@dataclass(frozen=True)
class GuidedAttention:
    """Another objective, and a guide's penalty of its attention times ``weight``."""

    inner: Objective
    guide: Guide
    weight: float = 1.0
    attention_gradients: ClassVar[bool] = True

    @property
    def recordable(self) -> bool:
        """As the inner objective."""
        return self.inner.recordable

    def __call__(self, network: Network, batch: Batch, update: int = 0) -> Loss:
        """As ``Objective`` has it. Raises ConfigError for a network without attention."""
        loss = self.inner(network, batch, update)
        if loss.attention is None:
            raise ConfigError("training.guided_attention: the network has no attention; leave it out")
        at_least_fp32 = torch.promote_types(loss.attention.dtype, torch.float32)
        penalty = self.guide(loss.attention.to(at_least_fp32), batch)
        return replace(loss, objective=loss.objective + self.weight * penalty)

    def count(self, batch: Batch) -> int:
        """As the inner objective."""
        return self.inner.count(batch)


def places(lengths: Tensor, positions: int) -> Tensor:
    """Return the relative place of each position, from 1 / length to 1: lengths (B,) -> (B, positions)."""
    return torch.arange(1, positions + 1, device=lengths.device) / lengths.clamp(min=1).unsqueeze(1)
