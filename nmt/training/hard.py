"""Objectives of hard attention (Xu et al. 2015, section 4.1): exact marginal, Gumbel-softmax, REINFORCE.

All of them end in the parameters' gradients of a sum over the words of a batch, as teacher forcing does.

Shapes: B sentences, S source and T target positions, O readout.
"""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional

from nmt.config import schema
from nmt.data.batching import Batch
from nmt.model import Memory, Network, Seq2Seq
from nmt.model.decoders import LuongDecoder, RecurrentDecoder
from nmt.model.hard import (
    NoisyMemory,
    SampledAttention,
    finite_log,
    marginal_cross_entropy,
    one_hot,
    perturbed,
    read_each,
)
from nmt.training.objective import Loss, TeacherForcing


@dataclass(frozen=True)
class ExactMarginal(TeacherForcing):
    """The likelihood of each word summed over all positions: p(y_t) = sum_j alpha_tj p(y_t | h_j) (Deng et al. 2018).

    The decoder must compute its states before any context: attention after the update, without input feeding.
    """

    attention_gradients: bool = True
    model: Seq2Seq = field(kw_only=True)
    """The network itself: a fast twin of its decoder does not read positions one by one."""

    def __call__(self, network: Network, batch: Batch, update: int = 0) -> Loss:
        """As ``Objective`` has it."""
        memory = network.encode(batch.source, batch.source_lengths)
        readouts, weights = read_each(self.model, batch.target_input, memory)
        mask = batch.target_mask
        sums = marginal_cross_entropy(
            readouts[mask], weights[mask], network.output, batch.target_output[mask], self.smoothing
        )
        return Loss(*sums, weights)


@dataclass(frozen=True)
class SampledTeacherForcing(TeacherForcing):
    """Teacher forcing with positions sampled from the probabilities: the objective of the Gumbel-softmax estimator."""

    def __call__(self, network: Network, batch: Batch, update: int = 0) -> Loss:
        """As ``Objective`` has it."""
        memory = with_noise(network.encode(batch.source, batch.source_lengths), batch)
        readouts, weights = network.unroll(batch.target_input, memory)
        return Loss(*network.loss(readouts, batch.target_output, batch.target_mask, self.smoothing), weights)


@dataclass(frozen=True)
class Reinforce(TeacherForcing):
    """REINFORCE with a baseline and a bonus for entropy (Williams 1992; Xu et al. 2015, section 4.1).

    The reward of a position is the log-likelihood of the words that depend on it: of its own word, or of that and all
    later ones (``to_go``). The baseline predicts the reward per word from what was known before the position was
    chosen; anything later would depend on the choice, and the mean gradient would be another.
    """

    attention_gradients: bool = True
    attention: SampledAttention | None = None
    """Holds the baseline."""
    weight: float = 1.0
    """Factor of the gradient of the probabilities."""
    entropy: float = 0.0
    """Factor of the sum of the entropies of the probabilities, nats."""
    to_go: bool = True
    """Whether later words depend on a position."""

    MOVING = 0.1
    """Share of the newest reward in the moving average, as Xu et al."""

    def __call__(self, network: Network, batch: Batch, update: int = 0) -> Loss:
        """As ``Objective`` has it; a moving baseline is updated."""
        memory = with_noise(network.encode(batch.source, batch.source_lengths), batch)
        readouts, probabilities = network.unroll(batch.target_input, memory)
        assert probabilities is not None
        targets, mask = batch.target_output, batch.target_mask
        loss = Loss(*network.loss(readouts, targets, mask, self.smoothing), probabilities)
        rewards = self.rewards(network, readouts, batch)  # (B, T), as all that follows
        steps = mask.to(rewards.dtype)
        words = from_here_on(steps) if self.to_go else steps
        reward = from_here_on(rewards) if self.to_go else rewards
        baseline = self.baseline(readouts, rewards.sum() / steps.sum())
        missing = steps * (reward / words.clamp_min(1) - baseline)  # per word
        logs = finite_log(probabilities)
        chosen = (one_hot(perturbed(probabilities, memory.noise)) * logs).sum(-1)
        entropy = -(probabilities * logs).sum(-1)
        bonus = self.weight * (words * missing).detach() * chosen + self.entropy * entropy * steps
        return replace(loss, objective=loss.objective - bonus.sum() + missing.square().sum())

    @torch.no_grad()
    def rewards(self, network: Network, readouts: Tensor, batch: Batch) -> Tensor:
        """log p of each target word, zero at padding: (B, T, O) -> (B, T), fp32 or finer."""
        logits = network.output(readouts)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).transpose(1, 2)
        losses = functional.cross_entropy(logits, batch.target_output, reduction="none")
        return -losses.masked_fill(~batch.target_mask, 0.0)

    def baseline(self, readouts: Tensor, mean_reward: Tensor) -> Tensor:
        """Predict the reward per word from the readout before each position: (B, T, O) -> (B, T), or one number.

        The moving average takes up the mean reward of this batch afterwards.
        """
        assert self.attention is not None
        average, learned = self.attention.average_reward, self.attention.baseline
        predicted = average.clone()
        average.lerp_(torch.where(mean_reward.isfinite(), mean_reward, average).to(average.dtype), self.MOVING)
        if learned is None:
            return predicted
        before = functional.pad(readouts.detach(), (0, 0, 1, 0))[:, :-1]
        difference: Tensor = learned(before).squeeze(-1)
        return predicted + difference


def hard_objective(config: schema.Model, model: Seq2Seq, smoothing: float) -> TeacherForcing | None:
    """Return the objective of the estimator of a network's hard attention; None for soft attention."""
    section = config.attention
    if not isinstance(section, schema.ScoredAttention):
        return None
    match section.hard:
        case schema.ExactMarginal():
            return ExactMarginal(smoothing, model=model)
        case schema.Gumbel():
            return SampledTeacherForcing(smoothing)
        case schema.Reinforce(weight=weight, entropy=entropy):
            assert isinstance(model.decoder, RecurrentDecoder)
            attention = model.decoder.attention
            assert isinstance(attention, SampledAttention)
            later = not isinstance(model.decoder, LuongDecoder) or model.decoder.feeding_gates is not None
            return Reinforce(smoothing, attention=attention, weight=weight, entropy=entropy, to_go=later)
    return None


def from_here_on(numbers: Tensor) -> Tensor:
    """Sum each number and all after it in its row: (B, T) -> (B, T)."""
    return numbers.flip(1).cumsum(1).flip(1)


def with_noise(memory: Memory, batch: Batch) -> NoisyMemory:
    """Draw Gumbel noise for each target and source position."""
    sentences, positions = batch.target_input.shape
    noise = torch.empty(sentences, positions, memory.source_mask.size(1), device=memory.summary.device)
    return NoisyMemory(**vars(memory), noise=-noise.exponential_().log())
