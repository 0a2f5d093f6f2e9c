"""The loss as in textbooks; ``training.objective`` asks for it, ``fast/kernels/output_loss.py`` is its fast twin.

Shapes: N target tokens, O readout, V target vocabulary.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional


def cross_entropy(readouts: Tensor, output: nn.Linear, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sum the cross-entropy of an output layer: readouts (N, O), targets (N,) -> objective and likelihood, both sums.

    With smoothing e the target distribution is (1 - e) on the reference and e / V on every word (Szegedy et al. 2016).
    The likelihood is the negative log-likelihood of the targets, for reporting; it carries no gradient.
    """
    logits = output(readouts)  # (N, V)
    log_probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    likelihood = functional.nll_loss(log_probabilities, targets, reduction="sum")
    uniform = -log_probabilities.mean(-1).sum()
    return smoothed(likelihood, uniform, smoothing)


def smoothed(likelihood: Tensor, uniform: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Mix the cross-entropies with the reference and with the uniform distribution -> objective and likelihood."""
    return (1 - smoothing) * likelihood + smoothing * uniform, likelihood.detach()
