"""The loss as in textbooks; ``training.objective`` asks for it, ``fast/kernels/output_loss.py`` is its fast twin.

Shapes: N target tokens, S source positions, O readout, V target vocabulary.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

LARGEST_CHUNK = 1 << 22
"""Probabilities that are held at a time: of 32,000 words and 30 positions still 4 tokens, matrices of 120 rows."""


def cross_entropy(readouts: Tensor, output: nn.Linear, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sum the cross-entropy of an output layer: readouts (N, O), targets (N,) -> objective and likelihood, both sums.

    With smoothing e the target distribution is (1 - e) on the reference and e / V on every word (Szegedy et al. 2016).
    The likelihood is the negative log-likelihood of the targets, for reporting; it carries no gradient.
    """
    logits = output(readouts)  # (N, V)
    log_probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    likelihood = functional.nll_loss(log_probabilities, targets, reduction="sum")
    uniform = -log_probabilities.mean(-1).sum()
    return _smoothed(likelihood, uniform, smoothing)


def marginal_cross_entropy(
    readouts: Tensor, weights: Tensor, output: nn.Linear, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """As :func:`cross_entropy`, of the mixture p(y) = sum_j alpha_j p(y | h_j) (Deng et al. 2018).

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
    return _smoothed(likelihood, uniform, smoothing)


def _smoothed(likelihood: Tensor, uniform: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Mix the cross-entropies with the reference and with the uniform distribution -> objective and likelihood."""
    return (1 - smoothing) * likelihood + smoothing * uniform, likelihood.detach()
