"""The loss that training minimizes: an objective maps a network and a batch to sums, and to the number of tokens."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from nmt.data.batching import Batch
from nmt.model import Network


@dataclass(frozen=True)
class Loss:
    """Sums over a batch."""

    objective: Tensor
    """The sum to minimize; differentiable, nats."""
    likelihood: Tensor
    """Negative log-likelihood of the targets, nats: what is reported, whatever is minimized."""


class Objective(Protocol):
    """A loss of a network on a batch.

    This is the place for a loss on the attention, scheduled sampling, or the estimator of hard attention.
    """

    @property
    def attention_gradients(self) -> bool:
        """Whether the loss differentiates the attention weights, so that no kernel may cut their gradient."""

    def count(self, batch: Batch) -> int:
        """Return the number that the sums of a batch are divided by, after all batches of an update are added up."""

    def __call__(self, network: Network, batch: Batch) -> Loss:
        """Compute the loss of a batch that is on the network's device."""


@dataclass(frozen=True)
class TeacherForcing:
    """Label-smoothed cross-entropy of each target token given the reference before it (Bahdanau et al. 2015, eq. 4)."""

    smoothing: float = 0.0
    attention_gradients: bool = False

    def __call__(self, network: Network, batch: Batch) -> Loss:
        """As ``Objective`` has it."""
        readouts, _ = network.unroll(batch.target_input, network.encode(batch.source, batch.source_lengths))
        sums = network.loss(readouts, batch.target_output, batch.target_mask, self.smoothing)
        return Loss(*sums)

    def count(self, batch: Batch) -> int:
        """Count the real target tokens, EOS included."""
        return batch.target_tokens
