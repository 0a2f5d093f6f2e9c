"""Hard attention: each target position looks at one source position (Xu et al. 2015, section 4.1).

The probabilities of the positions are those of a soft attention. Without noise in the memory, as in search and
validation, every estimator takes the likeliest position. Gumbel noise in the memory makes the largest of log p + noise
a sample of p, so that a sample is a value which the objective that draws the noise can compute again.

Shapes: B sentences, S source positions, T target positions, Q queries of each sentence, H width of a query.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.model.attention.base import WeightedMean
from nmt.model.records import Memory


class HardAttention(WeightedMean):
    """The context is the annotation of one position.

    No gradient reaches the probabilities through the context: the objectives of the exact marginal and of REINFORCE
    (Williams 1992) read them from the weights.
    """

    def __init__(self, soft: WeightedMean) -> None:
        super().__init__()
        self.soft = soft

    def prepare(self, memory: Memory) -> Memory:
        """As the soft attention."""
        return self.soft.prepare(memory)

    def weights(self, queries: Tensor, positions: Tensor, memory: Memory) -> Tensor:
        """Compute the probability of each source position: (B, Q, H) -> (B, Q, S)."""
        return self.soft.weights(queries, positions, memory)

    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Read one position for each query: (B, Q, H) -> contexts (B, Q, C), weights (B, Q, S).

        The weights are the probabilities while the memory has noise, in training, and else one at the position.
        """
        probabilities = self.weights(queries, positions, memory)
        values = self.values(memory)
        noise = None if memory.noise is None else memory.noise[:, positions]
        chosen = self.chosen(probabilities, noise).to(values.dtype)
        return chosen @ values, chosen if noise is None else probabilities

    def chosen(self, probabilities: Tensor, noise: Tensor | None) -> Tensor:
        """One at the position that is read, zero elsewhere: (B, Q, S), noise as much or None -> (B, Q, S)."""
        return one_hot(probabilities if noise is None else perturbed(probabilities, noise))


class GumbelAttention(HardAttention):
    """The straight-through Gumbel-softmax estimator (Jang et al. 2017, section 2.2).

    Forward, a sample; backward, the gradient of softmax((log p + noise) / temperature).
    """

    def __init__(self, soft: WeightedMean, temperature: float) -> None:
        super().__init__(soft)
        self.temperature = temperature

    def chosen(self, probabilities: Tensor, noise: Tensor | None) -> Tensor:
        """(B, Q, S), noise as much or None -> (B, Q, S)."""
        if noise is None:
            return super().chosen(probabilities, None)
        relaxed = (perturbed(probabilities, noise) / self.temperature).softmax(-1)
        return one_hot(relaxed) + (relaxed - relaxed.detach())  # the difference is exactly zero


class SampledAttention(HardAttention):
    """For REINFORCE: with what its objective subtracts from the rewards.

    Args:
        soft: gives the probabilities.
        readout: width of the readout from which a learned baseline predicts what to add to the moving average of the
            rewards; 0: the moving average alone.
    """

    average_reward: Tensor
    """Moving average of the reward of a word, nats."""

    def __init__(self, soft: WeightedMean, readout: int) -> None:
        super().__init__(soft)
        self.baseline = nn.Linear(readout, 1) if readout else None
        self.register_buffer("average_reward", torch.zeros(()))


def perturbed(probabilities: Tensor, noise: Tensor) -> Tensor:
    """log p + noise, whose largest element is a sample of p if the noise is Gumbel's: (B, Q, S) -> (B, Q, S)."""
    return finite_log(probabilities) + noise


def finite_log(probabilities: Tensor) -> Tensor:
    """log p; of padding a number far below any other, so that p log p and its derivative stay finite."""
    return probabilities.clamp_min(1e-30).log()


def one_hot(scores: Tensor) -> Tensor:
    """One at the largest element of the last axis, zero elsewhere."""
    return functional.one_hot(scores.argmax(-1), scores.size(-1))
