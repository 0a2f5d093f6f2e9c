"""Hard attention: each target position looks at one source position (Xu et al. 2015, section 4.1).

The probabilities of the positions are those of a soft attention. Without noise in the memory, as in search and
validation, every estimator takes the likeliest position. Gumbel noise in the memory makes the largest of log p + noise
a sample of p, so that a sample is a value which the objective that draws the noise can compute again.

Shapes: B sentences, S source positions, T target positions, N target tokens, Q queries of each sentence, H width of a
query, E embedding, O readout, V target vocabulary.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from nmt.model.attention import WeightedMean
from nmt.model.decoders import LuongDecoder, RecurrentState
from nmt.model.records import Memory
from nmt.model.seq2seq import Seq2Seq, smoothed

LARGEST_CHUNK = 1 << 22
"""Probabilities that are held at a time: of 32,000 words and 30 positions still 4 tokens, matrices of 120 rows."""


@dataclass(frozen=True)
class NoisyMemory(Memory):
    """A memory from which hard attention samples."""

    noise: Tensor = field(kw_only=True)
    """Gumbel noise of each target and source position, (B, T, S)."""


class HardAttention(WeightedMean):
    """The context is the annotation of one position.

    No gradient reaches the probabilities through the context: the objectives of the exact marginal and of REINFORCE
    (Williams 1992) read them from the weights.
    """

    def __init__(self, soft: WeightedMean) -> None:
        super().__init__()
        self.soft = soft

    def prepare(self, memory: Memory) -> Memory:
        """Add what the soft attention needs."""
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
        noise = memory.noise[:, positions] if isinstance(memory, NoisyMemory) else None
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
    """log p; of padding a number far below any other, so that p log p and its derivative stay finite."""
    return probabilities.clamp_min(1e-30).log()


def one_hot(scores: Tensor) -> Tensor:
    """One at the largest element of the last axis, zero elsewhere."""
    return functional.one_hot(scores.argmax(-1), scores.size(-1))


# --- the exact marginal -----------------------------------------------------------------------------------------------


def read_each(model: Seq2Seq, target_input: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """Run Luong's decoder without input feeding, and read out from every source position as if it had all the weight.

    (B, T) ids -> readouts (B, T, S, O), and the weights of the positions (B, T, S).
    """
    decoder = model.decoder
    assert isinstance(decoder, LuongDecoder) and decoder.feeding_gates is None
    attention, start = decoder.attention, model.start(memory)
    assert isinstance(attention, WeightedMean) and isinstance(start, RecurrentState)
    outputs = decoder.outputs(model.embed_target(target_input, 0), start)
    weights = attention.weights(outputs, torch.arange(outputs.size(1), device=outputs.device), start.memory)
    from_context, from_state = decoder.combine.weight.split((memory.annotations.size(-1), outputs.size(-1)), 1)
    of_context = functional.linear(memory.annotations, from_context)  # (B, S, ...)
    of_output = functional.linear(outputs, from_state, decoder.combine.bias)  # (B, T, ...)
    readouts = decoder.nonlinearity(of_context.unsqueeze(1) + of_output.unsqueeze(2))
    return model.readout_dropout(readouts), weights


def marginal_cross_entropy(
    readouts: Tensor, weights: Tensor, output: nn.Linear, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """As ``cross_entropy``, of the mixture p(y) = sum_j alpha_j p(y | h_j) (Deng et al. 2018).

    readouts (N, S, O), weights alpha (N, S), targets (N,). The probabilities, (N, S, V), are computed in chunks of the
    tokens, and again in the backward pass.
    """
    rows = max(1, LARGEST_CHUNK // (readouts.size(1) * output.out_features))

    def chunk(readouts: Tensor, weights: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = output(readouts)
        each = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(-1)  # (n, S, V)
        with torch.autocast(each.device.type, enabled=False):  # it would round the mixture to bf16
            mixture = (weights.to(each.dtype).unsqueeze(1) @ each).squeeze(1)
        logs = mixture.clamp_min(torch.finfo(each.dtype).tiny).log()
        return functional.nll_loss(logs, targets, reduction="sum"), -logs.mean(-1).sum()

    likelihood, uniform = readouts.new_zeros(2, dtype=torch.promote_types(readouts.dtype, torch.float32)).unbind()
    for parts in zip(readouts.split(rows), weights.split(rows), targets.split(rows), strict=True):
        of_chunk = checkpoint(chunk, *parts, use_reentrant=False)
        likelihood, uniform = likelihood + of_chunk[0], uniform + of_chunk[1]
    return smoothed(likelihood, uniform, smoothing)
