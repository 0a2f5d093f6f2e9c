"""Scheduled sampling: the decoder learns on a mixture of the reference and of its own outputs (Bengio et al. 2015).

Shapes: B sentences, T target positions, V target vocabulary.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, assert_never

import torch
from torch import Tensor

from nmt.config import schema
from nmt.data.batching import Batch
from nmt.model import Network, Seq2Seq
from nmt.model.dropout import evaluating
from nmt.training.objective import Loss, Objective


def reference_share(config: schema.AnySampling, update: int) -> float:
    """epsilon_i: the probability of a reference in the decoder's input after ``update`` updates (section 2.4)."""
    match config:
        case schema.LinearSampling():
            return min(1.0, max(config.floor, config.offset - config.slope * update))
        case schema.ExponentialSampling():
            return config.base**update
        case schema.InverseSigmoidSampling(k=k):
            return k / (k + math.exp(min(update / k, 700)))
    assert_never(config)


@dataclass(frozen=True)
class ScheduledSampling:
    """Another objective on inputs in which the network's own outputs take the place of some references.

    Each position keeps its reference with probability epsilon_i, independently. Otherwise it gets the output of the
    network for the position before, given the inputs chosen so far. A first pass chooses the inputs by ``step``, as
    translation does: without dropout and without gradient, which does not pass through a choice in the paper either.
    The objective is then computed on these inputs at once, by any decoder and its fast twin.
    """

    inner: Objective
    model: Seq2Seq
    config: schema.AnySampling
    forbidden: tuple[int, ...]
    """Ids that are never an output, as in search: padding and BOS."""
    recordable: ClassVar[bool] = False

    @property
    def attention_gradients(self) -> bool:
        """As the inner objective."""
        return self.inner.attention_gradients

    def __call__(self, network: Network, batch: Batch, update: int = 0) -> Loss:
        """As ``Objective`` has it. While the share is 1 the inner objective is computed, and nothing is drawn."""
        share = reference_share(self.config, update)
        if share < 1:
            batch = replace(batch, target_input=self.inputs(network, batch, share))
        return self.inner(network, batch, update)

    def count(self, batch: Batch) -> int:
        """As the inner objective."""
        return self.inner.count(batch)

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
        torch.clear_autocast_cache()  # before PyTorch 2.10 it would give the loss weights that were cast without graph
        return torch.stack(inputs, 1)

    def output(self, log_probs: Tensor) -> Tensor:
        """Choose a token: log-probabilities (B, V) -> ids (B,)."""
        if self.config.output == "sample":  # the largest of log p + Gumbel noise; unlike multinomial, it accepts NaN
            log_probs = log_probs - torch.empty_like(log_probs).exponential_().log()
        return log_probs.argmax(-1)
