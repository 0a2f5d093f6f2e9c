"""The loss that training minimizes: an objective maps a network and a batch to sums, and to the number of tokens."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

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
    attention: Tensor | None = None
    """The attention weights of the pass, (B, T, S), for terms on them; None without attention."""


class Objective(Protocol):
    """A loss of a network on a batch; ``nmt.training.build`` chooses it."""

    @property
    def attention_gradients(self) -> bool:
        """Whether the loss differentiates the attention weights, so that no kernel may cut their gradient."""

    @property
    def recordable(self) -> bool:
        """Whether a CUDA graph may repeat it: all batches of a shape take the same operations, at every update."""

    def count(self, batch: Batch) -> int:
        """Return the number that the sums of a batch are divided by, after all batches of an update are added up."""

    def __call__(self, network: Network, batch: Batch, update: int = 0) -> Loss:
        """Compute the loss of a batch that is on the network's device.

        ``update``: the number of updates made before; a loss that changes in training is a function of it.
        """


@dataclass(frozen=True)
class TeacherForcing:
    """Label-smoothed cross-entropy of each target token given the reference before it (Bahdanau et al. 2015, eq. 4)."""

    smoothing: float = 0.0
    attention_gradients: bool = False
    recordable: ClassVar[bool] = True

    def __call__(self, network: Network, batch: Batch, update: int = 0) -> Loss:
        """As ``Objective`` has it."""
        readouts, attention = network.unroll(batch.target_input, network.encode(batch.source, batch.source_lengths))
        sums = network.loss(readouts, batch.target_output, batch.target_mask, self.smoothing)
        return Loss(*sums, attention)

    def count(self, batch: Batch) -> int:
        """Count the real target tokens, EOS included."""
        return batch.target_tokens
