"""Output layer, log-softmax, loss and their gradient in one pass over chunks of tokens.

The plain twin, ``nmt.training.loss.plain_loss``, holds several (N, V) tensors at once, most of them fp32; here no
more than one chunk of rows ever exists, and the gradient is taken while the chunk is still in the cache.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = 256
"""Rows of a chunk: wide enough for the matrix product, small enough for the cache."""


class _OutputLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, readouts: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        vocabulary = weight.size(0)
        d_readouts = torch.empty_like(readouts)
        d_weight = torch.zeros_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32))
        d_bias = torch.zeros_like(d_weight[:, 0])
        objective, likelihood = d_bias.new_zeros(()), d_bias.new_zeros(())
        for rows, gold, out in zip(readouts.split(CHUNK), targets.split(CHUNK), d_readouts.split(CHUNK), strict=True):
            logits = torch.addmm(bias, rows, weight.t()).to(d_weight.dtype)  # (n, V)
            log_normaliser = logits.logsumexp(-1)
            gold_logits = logits.gather(1, gold.unsqueeze(1)).squeeze(1)
            likelihood += (log_normaliser - gold_logits).sum()
            if smoothing:
                objective += (log_normaliser - logits.mean(-1)).sum()
            # d objective / d logits = softmax - (1 - smoothing) * one-hot - smoothing / V
            d_logits = logits.sub_(log_normaliser.unsqueeze(1)).exp_().sub_(smoothing / vocabulary)
            d_logits.scatter_add_(1, gold.unsqueeze(1), d_logits.new_full((len(gold), 1), smoothing - 1))
            d_bias += d_logits.sum(0)
            d_logits = d_logits.to(rows.dtype)
            torch.mm(d_logits, weight, out=out)
            d_weight += d_logits.t() @ rows
        objective = (1 - smoothing) * likelihood + smoothing * objective
        ctx.save_for_backward(d_readouts, d_weight, d_bias)
        ctx.mark_non_differentiable(likelihood)
        return objective, likelihood

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        d_readouts, d_weight, d_bias = ctx.saved_tensors
        return d_readouts * scale.to(d_readouts.dtype), d_weight.mul_(scale), d_bias.mul_(scale), None, None


def output_loss(
    readouts: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of an output layer: readouts (N, O), weight (V, O), bias (V,), targets (N,) -> two sums.

    The label-smoothed objective, differentiable, and the negative log-likelihood of the targets, for reporting.
    The products are computed in the type of ``readouts``; the sums, and the gradient of the weight, in fp32 or finer.
    """
    with torch.autocast(readouts.device.type, enabled=False):
        low = readouts.dtype
        result: tuple[Tensor, Tensor] = _OutputLoss.apply(readouts, weight.to(low), bias.to(low), targets, smoothing)
        return result
