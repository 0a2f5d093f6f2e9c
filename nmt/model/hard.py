"""Hard attention: each target position looks at one source position (Xu et al. 2015, section 4.1).

The probabilities of the positions are those of a soft attention. The exact marginal sums over all positions, in
training as in search. The other estimators read one position: the likeliest in search and validation, a sample in
training. To sample, the objective puts Gumbel noise into the memory: the position with the largest log p + noise is a
sample of p. Because the objective draws the noise, it can compute the same sample again.

Shapes: B sentences, S source positions, T target positions, N target tokens, Q queries of each sentence, H width of a
query, C width of an annotation, O readout, V target vocabulary.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from nmt.config import schema
from nmt.model.attention import Attention, WeightedMean
from nmt.model.decoders import LuongDecoder
from nmt.model.dropout import Dropout
from nmt.model.encoders import Encoder
from nmt.model.records import Memory

LARGEST_CHUNK = 1 << 22
"""Largest number of probabilities held at a time: with 32,000 words and 30 positions, those of 4 tokens."""


@dataclass(frozen=True)
class NoisyMemory(Memory):
    """A memory from which hard attention samples."""

    noise: Tensor = field(kw_only=True)
    """Gumbel noise of each target and source position, (B, T, S)."""


class HardAttention(Attention):
    """The context is the annotation of one position.

    No gradient reaches the probabilities through the context: REINFORCE (Williams 1992) reads them from the weights.
    """

    def __init__(self, soft: WeightedMean) -> None:
        super().__init__()
        self.soft = soft

    def prepare(self, memory: Memory) -> Memory:
        return self.soft.prepare(memory)

    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Read one position for each query: (B, Q, H) -> contexts (B, Q, C), weights (B, Q, S).

        In training, with noise, the weights are the probabilities; otherwise they are 1 at the position that is read.
        """
        probabilities, values = self.soft.weights(queries, positions, memory), self.soft.values(memory)
        noise = memory.noise[:, positions] if isinstance(memory, NoisyMemory) else None
        chosen = self.chosen(probabilities, noise).to(values.dtype)
        return chosen @ values, chosen if noise is None else probabilities

    def chosen(self, probabilities: Tensor, noise: Tensor | None) -> Tensor:
        """One at the position that is read, zero elsewhere: (B, Q, S), noise of the same shape or None -> (B, Q, S)."""
        return one_hot(probabilities if noise is None else perturbed(probabilities, noise))


class GumbelAttention(HardAttention):
    """The straight-through Gumbel-softmax estimator (Jang et al. 2017, section 2.2).

    Forward, a sample; backward, the gradient of softmax((log p + noise) / temperature).
    """

    def __init__(self, soft: WeightedMean, temperature: float) -> None:
        super().__init__(soft)
        self.temperature = temperature

    def chosen(self, probabilities: Tensor, noise: Tensor | None) -> Tensor:
        if noise is None:
            return super().chosen(probabilities, None)
        relaxed = (perturbed(probabilities, noise) / self.temperature).softmax(-1)
        return one_hot(relaxed) + (relaxed - relaxed.detach())  # the difference is exactly zero


class SampledAttention(HardAttention):
    """For REINFORCE: with the baseline that its objective subtracts from the rewards."""

    average_reward: Tensor
    """Moving average of the reward of a word, nats."""

    def __init__(self, soft: WeightedMean) -> None:
        super().__init__(soft)
        self.register_buffer("average_reward", torch.zeros(()))


def perturbed(probabilities: Tensor, noise: Tensor) -> Tensor:
    """log p + noise, whose largest element is a sample of p if the noise is Gumbel's: (B, Q, S) -> (B, Q, S)."""
    return finite_log(probabilities) + noise


def finite_log(probabilities: Tensor) -> Tensor:
    """log p; for padding a number far below any other, so that p log p and its derivative stay finite."""
    return probabilities.clamp_min(1e-30).log()


def one_hot(scores: Tensor) -> Tensor:
    """One at the largest element of the last axis, zero elsewhere."""
    return functional.one_hot(scores.argmax(-1), scores.size(-1))


# --- the exact marginal -----------------------------------------------------------------------------------------------


class MarginalLuong(LuongDecoder):
    """Luong's decoder without input feeding, read out from every source position as if it had all the weight.

    A readout is (S, O + 1): a row for each position, whose last unit is the probability of the position.
    """

    def __init__(
        self, options: schema.RecurrentDecoder, config: schema.Model, encoder: Encoder, attention: Attention
    ) -> None:
        super().__init__(options, config, encoder, attention)
        self.dropout = Dropout(config.dropout.readout)

    def read(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Read out from each source position: (B, Q, H) -> readouts (B, Q, S, O + 1), probabilities (B, Q, S)."""
        assert isinstance(self.attention, WeightedMean)
        weights = self.attention.weights(queries, positions, memory)
        from_context, from_state = self.combine.weight.split((self.context_width, queries.size(-1)), 1)
        of_context = functional.linear(memory.annotations, from_context).unsqueeze(1)  # (B, 1, S, ...)
        of_output = functional.linear(queries, from_state, self.combine.bias).unsqueeze(2)  # (B, Q, 1, ...)
        readouts = self.dropout(self.nonlinearity(of_context + of_output))
        return torch.cat((readouts.to(weights.dtype), weights.unsqueeze(-1)), -1), weights

    def readout(self, context: Tensor, output: Tensor) -> Tensor:
        """Return what ``read`` made in place of contexts: it has seen the outputs."""
        return context


class MixtureOutput(nn.Linear):
    """log p(y) = log sum_j alpha_j p(y | h_j) (Deng et al. 2018, section 2.1)."""

    def forward(self, readouts: Tensor) -> Tensor:
        """Mix what follows from each position: (..., S, O + 1) -> log-probabilities (..., V), fp32 or finer.

        The probabilities, (..., S, V), are computed in chunks, and again in the backward pass.
        """
        rows = readouts.flatten(0, -3)
        count = max(1, LARGEST_CHUNK // (rows.size(1) * self.out_features))
        chunks: list[Tensor] = [checkpoint(self.mix, chunk, use_reentrant=False) for chunk in rows.split(count)]
        log_probs: Tensor = torch.cat(chunks).unflatten(0, readouts.shape[:-2])
        return log_probs

    def mix(self, readouts: Tensor) -> Tensor:
        """(N, S, O + 1) -> (N, V)."""
        logits = functional.linear(readouts[..., :-1], self.weight, self.bias)
        each = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(-1)  # (N, S, V)
        mixture = (readouts[..., -1:] * each).sum(1)  # no matrix product, which autocast would round to bf16
        return mixture.clamp_min(torch.finfo(each.dtype).tiny).log()
