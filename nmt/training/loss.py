"""The objective: cross-entropy summed over real target tokens, to be divided once by their number."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.kernels.output_loss import output_loss


@dataclass(frozen=True)
class Loss:
    """Sums over the real target tokens of a batch."""

    objective: Tensor
    """Label-smoothed cross-entropy, differentiable, nats."""
    likelihood: Tensor
    """Negative log-likelihood of the targets, nats: what is reported, whatever the smoothing."""


def plain_loss(readouts: Tensor, output: nn.Linear, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """The loss as written in textbooks: readouts (N, O), targets (N,) -> objective and likelihood, both sums.

    With smoothing e the target distribution is (1 - e) on the reference and e / V on every word (Szegedy et al. 2016).
    """
    logits = output(readouts)  # (N, V)
    log_probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    likelihood = functional.nll_loss(log_probabilities, targets, reduction="sum")
    uniform = -log_probabilities.mean(-1).sum()
    return (1 - smoothing) * likelihood + smoothing * uniform, likelihood.detach()


def batch_loss(
    readouts: Tensor, output: nn.Linear, targets: Tensor, mask: Tensor, smoothing: float, *, fused: bool
) -> Loss:
    """Loss of a batch: readouts (B, T, O), targets (B, T), mask (B, T) True on real tokens; padding does not count."""
    if fused and readouts.is_cuda:  # where to look how many tokens are real would have the CPU wait for the GPU
        rows = readouts.flatten(0, 1), output.weight, output.bias, targets.flatten()
        return Loss(*output_loss(*rows, smoothing, counted=mask.flatten()))
    readouts, targets = readouts[mask], targets[mask]  # (N, O), (N,)
    if fused:
        return Loss(*output_loss(readouts, output.weight, output.bias, targets, smoothing))
    return Loss(*plain_loss(readouts, output, targets, smoothing))
