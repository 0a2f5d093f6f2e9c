"""Training objectives: each maps a network and a batch to sums of the loss.

Shapes: B sentences, S source and T target positions, O readout, V target vocabulary.
"""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from nmt.config import schema
from nmt.data.batching import Batch, Specials
from nmt.model import Memory, Network, Seq2Seq
from nmt.model.decoders import LuongDecoder, RecurrentDecoder
from nmt.model.dropout import evaluating
from nmt.model.hard import NoisyMemory, SampledAttention, finite_log, one_hot, perturbed


@dataclass(frozen=True)
class Loss:
    """Sums over a batch."""

    objective: Tensor
    """The sum to minimize; differentiable, nats."""
    nll: Tensor
    """Negative log-likelihood of the targets, nats: what is reported, whatever is minimized."""
    attention: Tensor | None = None
    """The attention weights of the pass, (B, T, S), for terms on them; None without attention."""


class Objective(Protocol):
    """A loss of a network on a batch; ``objective_of`` chooses it."""

    @property
    def attention_gradients(self) -> bool:
        """Whether the loss differentiates the attention weights, so that no kernel may cut their gradient."""

    @property
    def capturable(self) -> bool:
        """Whether a CUDA graph may repeat it: all batches of a shape take the same operations, at every update."""

    def __call__(self, network: Network, batch: Batch, updates_before: int = 0) -> Loss:
        """Compute the sums of the loss over a batch that is on the network's device. They are divided by the real
        target tokens of all batches of an update.

        A loss that changes in training is a function of ``updates_before``, the number of updates already made.
        """


@dataclass(frozen=True)
class TeacherForcing:
    """Label-smoothed cross-entropy of each target token given the reference before it (Bahdanau et al. 2015, eq. 4)."""

    smoothing: float = 0.0
    attention_gradients: ClassVar[bool] = False
    capturable: ClassVar[bool] = True

    def __call__(self, network: Network, batch: Batch, updates_before: int = 0) -> Loss:
        readouts, attention = network.unroll(batch.target_input, self.memory(network, batch))
        return Loss(*network.loss(readouts, batch.target_output, batch.target_mask, self.smoothing), attention)

    def memory(self, network: Network, batch: Batch) -> Memory:
        """Read the source."""
        return network.encode(batch.source, batch.source_lengths)


# --- hard attention (Xu et al. 2015, section 4.1): Gumbel-softmax, REINFORCE ------------------------------------------


@dataclass(frozen=True)
class SampledTeacherForcing(TeacherForcing):
    """Teacher forcing with positions sampled from the probabilities: the objective of the Gumbel-softmax estimator."""

    def memory(self, network: Network, batch: Batch) -> Memory:
        return with_noise(super().memory(network, batch), batch)


@dataclass(frozen=True)
class Reinforce(TeacherForcing):
    """REINFORCE with a baseline and a bonus for entropy (Williams 1992; Xu et al. 2015, section 4.1).

    The reward of a position is the log-likelihood of the words that depend on it: of its own word, or of that and all
    later ones (``to_go``). The baseline is known before the position is chosen; otherwise it would bias the gradient.
    """

    attention_gradients: ClassVar[bool] = True
    attention: SampledAttention = field(kw_only=True)
    """Holds the baseline."""
    weight: float = 1.0
    """Factor of the reward."""
    entropy: float = 0.0
    """Factor of the sum of the entropies of the probabilities, nats."""
    to_go: bool = True
    """Whether later words depend on a position."""

    MOVING = 0.1
    """Share of the newest reward in the moving average, as Xu et al."""

    def __call__(self, network: Network, batch: Batch, updates_before: int = 0) -> Loss:
        """See ``Objective``; this updates the baseline."""
        memory = with_noise(network.encode(batch.source, batch.source_lengths), batch)
        readouts, probabilities = network.unroll(batch.target_input, memory)
        assert probabilities is not None
        targets, mask = batch.target_output, batch.target_mask
        loss = Loss(*network.loss(readouts, targets, mask, self.smoothing), probabilities)
        rewards = self.rewards(network, readouts, batch)  # (B, T), as all that follows
        steps = mask.to(rewards.dtype)
        words = from_here_on(steps) if self.to_go else steps
        reward = from_here_on(rewards) if self.to_go else rewards
        baseline = self.baseline(rewards.sum() / steps.sum())
        missing = steps * (reward / words.clamp_min(1) - baseline)  # per word
        logs = finite_log(probabilities)
        chosen = (one_hot(perturbed(probabilities, memory.noise)) * logs).sum(-1)
        entropy = -(probabilities * logs).sum(-1)
        bonus = self.weight * (words * missing).detach() * chosen + self.entropy * entropy * steps
        return replace(loss, objective=loss.objective - bonus.sum())

    @torch.no_grad()
    def rewards(self, network: Network, readouts: Tensor, batch: Batch) -> Tensor:
        """log p of each target word, zero at padding: (B, T, O) -> (B, T), fp32 or finer."""
        logits = network.output(readouts)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).transpose(1, 2)
        losses = functional.cross_entropy(logits, batch.target_output, reduction="none")
        return -losses.masked_fill(~batch.target_mask, 0.0)

    def baseline(self, mean_reward: Tensor) -> Tensor:
        """Return the average reward of a word in earlier batches, and add this batch's to it."""
        average = self.attention.average_reward
        before = average.clone()
        average.lerp_(torch.where(mean_reward.isfinite(), mean_reward, average).to(average.dtype), self.MOVING)
        return before


def teacher_forcing(attention: schema.AnyAttention, model: Seq2Seq, smoothing: float) -> TeacherForcing:
    """Make the objective of a network with this attention: teacher forcing, or that of an estimator that samples."""
    match getattr(attention, "hard", None):
        case schema.Gumbel():
            return SampledTeacherForcing(smoothing)
        case schema.Reinforce(weight=weight, entropy=entropy):
            assert isinstance(model.decoder, RecurrentDecoder)
            sampled = model.decoder.attention
            assert isinstance(sampled, SampledAttention)
            later = not isinstance(model.decoder, LuongDecoder) or model.decoder.feeding_gates is not None
            return Reinforce(smoothing, attention=sampled, weight=weight, entropy=entropy, to_go=later)
    return TeacherForcing(smoothing)


def from_here_on(numbers: Tensor) -> Tensor:
    """Sum each number and all after it in its row: (B, T) -> (B, T)."""
    return numbers.flip(1).cumsum(1).flip(1)


def with_noise(memory: Memory, batch: Batch) -> NoisyMemory:
    """Draw Gumbel noise for each target and source position."""
    sentences, positions = batch.target_input.shape
    noise = torch.empty(sentences, positions, memory.source_mask.size(1), device=memory.summary.device)
    return NoisyMemory(**vars(memory), noise=-noise.exponential_().log())


# --- scheduled sampling: the decoder learns on its own outputs, too (Bengio et al. 2015) ------------------------------


def reference_share(k: float, updates: int) -> float:
    """epsilon_i: the probability of a reference in the decoder's input after this number of updates (section 2.4)."""
    return k / (k + math.exp(min(updates / k, 700)))


@dataclass(frozen=True)
class ScheduledSampling(Objective):
    """Another objective on inputs in which the network's own outputs take the place of some references.

    Each position keeps its reference with probability epsilon_i, independently. Otherwise it gets the output of the
    network for the position before, given the inputs chosen so far. A first pass chooses the inputs by ``step``, as
    translation does: without dropout and without gradient, which does not pass through a choice in the paper either.
    The objective is then computed on these inputs at once, by any decoder and its fast twin.
    """

    inner: Objective
    model: Seq2Seq
    config: schema.ScheduledSampling
    forbidden: tuple[int, ...]
    """Ids that are never an output, as in search: padding and BOS."""
    capturable: ClassVar[bool] = False

    @property
    def attention_gradients(self) -> bool:
        return self.inner.attention_gradients

    def __call__(self, network: Network, batch: Batch, updates_before: int = 0) -> Loss:
        """While the share is 1 the inner objective is computed, and nothing is drawn."""
        share = reference_share(self.config.k, updates_before)
        if share < 1:
            batch = replace(batch, target_input=self.inputs(network, batch, share))
        return self.inner(network, batch, updates_before)

    @torch.no_grad()
    def inputs(self, network: Network, batch: Batch, share: float) -> Tensor:
        """Choose the decoder's inputs, (B, T); the first is always BOS."""
        references = batch.target_input.unbind(1)
        kept = (torch.rand(batch.target_input.shape, device=batch.target_input.device) < share).unbind(1)
        inputs = [references[0]]
        never = torch.tensor(self.forbidden, dtype=torch.long, device=references[0].device)
        with evaluating(self.model):
            state = self.model.start(network.encode(batch.source, batch.source_lengths))
            for reference, keep in zip(references[1:], kept[1:], strict=True):
                log_probs, state, _ = self.model.step(inputs[-1], state)
                log_probs = log_probs.index_fill(1, never, -torch.inf)
                inputs.append(torch.where(keep, reference, self.output(log_probs)))
        return torch.stack(inputs, 1)

    def output(self, log_probs: Tensor) -> Tensor:
        """Choose a token: log-probabilities (B, V) -> ids (B,)."""
        if self.config.output == "sample":  # the largest of log p + Gumbel noise; unlike multinomial, it accepts NaN
            log_probs = log_probs - torch.empty_like(log_probs).exponential_().log()
        return log_probs.argmax(-1)


# --- guided attention: a term of the loss that teaches it given links (Chen et al. 2016, section 3) -------------------


def links_guide(weights: Tensor, links: Tensor) -> Tensor:
    """Cross-entropy of the attention with given links: -sum_ts a*_ts ln alpha_ts, both (B, T, S)."""
    weights = weights.to(torch.promote_types(weights.dtype, links.dtype))
    return -(links * finite_log(weights)).sum()  # outside of a window a weight is zero


@dataclass(frozen=True)
class GuidedAttention(Objective):
    """Another objective, and ``weight`` times the cross-entropy of its attention with the links of the batch."""

    inner: Objective
    weight: float
    attention_gradients: ClassVar[bool] = True

    @property
    def capturable(self) -> bool:
        return self.inner.capturable

    def __call__(self, network: Network, batch: Batch, updates_before: int = 0) -> Loss:
        loss = self.inner(network, batch, updates_before)
        assert loss.attention is not None and batch.links is not None, "a configuration without them is refused"
        return replace(loss, objective=loss.objective + self.weight * links_guide(loss.attention, batch.links))


# --- the choice -------------------------------------------------------------------------------------------------------


def objective_of(
    attention: schema.AnyAttention, training: schema.Training, model: Seq2Seq, specials: Specials
) -> Objective:
    """Make the objective of a network with this attention, and what is put around it."""
    objective: Objective = teacher_forcing(attention, model, training.label_smoothing)
    if training.scheduled_sampling is not None:
        forbidden = specials.target_pad, specials.target_bos
        objective = ScheduledSampling(objective, model, training.scheduled_sampling, forbidden)
    if training.guided_attention is not None:
        objective = GuidedAttention(objective, training.guided_attention.weight)
    return objective
