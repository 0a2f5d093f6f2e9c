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
        low, high = readouts.dtype, torch.promote_types(readouts.dtype, torch.float32)
        low_weight, low_bias = weight.to(low), bias.to(low)
        d_readouts = torch.empty_like(readouts)
        d_weight, d_bias = torch.zeros_like(weight, dtype=high), torch.zeros_like(bias, dtype=high)
        likelihood, uniform = d_bias.new_zeros(()), d_bias.new_zeros(())
        gold_columns = targets.unsqueeze(1).split(CHUNK)
        for rows, gold, out in zip(readouts.split(CHUNK), gold_columns, d_readouts.split(CHUNK), strict=True):
            logits = torch.addmm(low_bias, rows, low_weight.t())  # (n, V); gold is (n, 1)
            probabilities = logits.softmax(-1)
            surprisal = -probabilities.gather(1, gold).to(high).clamp_min(torch.finfo(high).tiny).log()
            likelihood += surprisal.sum()
            if smoothing:  # log V-th of the product of all probabilities: logits minus their normaliser
                uniform += (surprisal + logits.gather(1, gold) - logits.mean(-1, keepdim=True, dtype=high)).sum()
            # d objective / d logits = softmax - (1 - smoothing) * one-hot - smoothing / V; the last term comes below
            d_logits = probabilities.scatter_add_(1, gold, probabilities.new_full(gold.shape, smoothing - 1))
            d_bias += d_logits.sum(0, dtype=high)
            torch.mm(d_logits, low_weight, out=out)
            d_weight += d_logits.t() @ rows
        if smoothing:  # of rank one: it needs no (N, V) tensor
            share = smoothing / len(bias)
            d_readouts -= (share * weight.sum(0)).to(low)
            d_weight -= share * readouts.sum(0, dtype=high)
            d_bias -= share * len(targets)
        ctx.save_for_backward(d_readouts, d_weight, d_bias)
        ctx.mark_non_differentiable(likelihood)
        return (1 - smoothing) * likelihood + smoothing * uniform, likelihood

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
    A target less likely than 1e-38 counts as if it were so likely.
    """
    with torch.autocast(readouts.device.type, enabled=False):
        result: tuple[Tensor, Tensor] = _OutputLoss.apply(  # type: ignore[no-untyped-call]
            readouts, weight, bias, targets, smoothing
        )
        return result
