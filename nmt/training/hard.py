"""Objectives of hard attention (Xu et al. 2015, section 4.1): exact marginal, Gumbel-softmax, REINFORCE.

Shapes: B sentences, S source and T target positions, O readout.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from nmt.config import schema
from nmt.data.batching import Batch
from nmt.model import Memory, Network, Seq2Seq
from nmt.model.attention import SampledAttention
from nmt.model.attention.hard import one_hot, perturbed
from nmt.model.decoders import LuongDecoder, RecurrentDecoder
from nmt.model.loss import marginal_cross_entropy
from nmt.training.objective import Loss, TeacherForcing


@dataclass(frozen=True)
class ExactMarginal(TeacherForcing):
    """The likelihood of each word summed over all positions: p(y_t) = sum_j alpha_tj p(y_t | h_j) (Deng et al. 2018).

    The decoder must compute its states before any context: attention after the update, without input feeding.
    """

    attention_gradients: bool = True

    def __call__(self, network: Network, batch: Batch, update: int = 0) -> Loss:
        """As ``Objective`` has it."""
        memory = network.encode(batch.source, batch.source_lengths)
        readouts, weights = network.read_each(batch.target_input, memory)
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
    """REINFORCE with a baseline and a bonus for entropy (Xu et al. 2015, eq. 11 and 12).

    The reward of a position is the log-likelihood of the words that depend on it: of its own word, or of that and all
    later ones (``to_go``). The baseline predicts the mean reward of a word.
    """

    attention_gradients: bool = True
    attention: SampledAttention | None = None
    """Holds the baseline."""
    weight: float = 1.0
    """Factor of the gradient of the probabilities."""
    entropy: float = 0.0
    """Factor of the entropy, nats."""
    to_go: bool = True
    """Whether later words depend on a position."""

    MOVING = 0.1
    """Share of the newest reward in the moving average, as Xu et al."""

    def __call__(self, network: Network, batch: Batch, update: int = 0) -> Loss:
        """As ``Objective`` has it; a moving baseline is updated."""
        memory = with_noise(network.encode(batch.source, batch.source_lengths), batch)
        readouts, probabilities = network.unroll(batch.target_input, memory)
        assert probabilities is not None
        assert memory.noise is not None
        targets, mask = batch.target_output, batch.target_mask
        loss = Loss(*network.loss(readouts, targets, mask, self.smoothing), probabilities)
        with torch.no_grad():
            rewards = -functional.cross_entropy(
                network.output(readouts).float().transpose(1, 2), targets, reduction="none"
            )
            rewards = rewards.masked_fill(~mask, 0.0)
        steps = mask.float()
        baseline = self.baseline(readouts, rewards.sum() / steps.sum())  # of one word, (B, T)
        missing = steps * (baseline - rewards).square()
        advantage = (rewards - baseline.detach()) * steps
        if self.to_go:
            advantage = advantage.flip(1).cumsum(1).flip(1)
        logs = probabilities.float().clamp_min(1e-30).log()
        chosen = (one_hot(perturbed(probabilities.float(), memory.noise)) * logs).sum(-1)
        entropy = -(probabilities.float() * logs).sum(-1)
        bonus = (self.weight * advantage * chosen + self.entropy * entropy) * steps
        return replace(loss, objective=loss.objective - bonus.sum() + missing.sum())

    def baseline(self, readouts: Tensor, mean_reward: Tensor) -> Tensor:
        """Predict the reward of a word before its position is chosen, from the readout before: (B, T, O) -> (B, T)."""
        assert self.attention is not None
        learned, average = self.attention.baseline, self.attention.average_reward
        if learned is not None:
            before = functional.pad(readouts.detach(), (0, 0, 1, 0))[:, :-1]
            predicted: Tensor = learned(before)
            return predicted.squeeze(-1).float()
        assert average is not None
        predicted = average.clone()
        if bool(mean_reward.isfinite()):
            average.lerp_(mean_reward.to(average.dtype), self.MOVING)
        return predicted.expand(readouts.shape[:2])


def hard_objective(config: schema.Model, model: Seq2Seq, smoothing: float) -> TeacherForcing | None:
    """Return the objective of the estimator of a network's hard attention; None for soft attention."""
    section = config.attention
    if not isinstance(section, schema.ScoredAttention):
        return None
    match section.hard:
        case schema.ExactMarginal():
            return ExactMarginal(smoothing)
        case schema.Gumbel():
            return SampledTeacherForcing(smoothing)
        case schema.Reinforce(weight=weight, entropy=entropy):
            assert isinstance(model.decoder, RecurrentDecoder)
            attention = model.decoder.attention
            assert isinstance(attention, SampledAttention)
            later = not isinstance(model.decoder, LuongDecoder) or not model.decoder.at_once
            return Reinforce(smoothing, attention=attention, weight=weight, entropy=entropy, to_go=later)
    return None


def with_noise(memory: Memory, batch: Batch) -> Memory:
    """Draw Gumbel noise for each target and source position."""
    sentences, positions = batch.target_input.shape
    noise = torch.empty(sentences, positions, memory.source_mask.size(1), device=memory.summary.device)
    return replace(memory, noise=-noise.exponential_().log())
