"""Output layer, log-softmax, loss and their gradient in one pass over chunks of tokens.

The plain twin, ``nmt.model.seq2seq.cross_entropy``, holds several (N, V) tensors at once, most of them fp32; here no
more than one chunk of rows ever exists, and the gradient is taken while the chunk is still in the cache.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.fast.kernels.products import add_product, product

CHUNK = 1024
"""Rows per chunk. Each chunk costs a pass over the gradient of the weight, and memory for rows x vocabulary."""
GPU_CHUNK = 8192
"""Rows per chunk on a GPU, which smaller products do not fill."""
BLOCK = 64
"""Rows that a CPU sums at once."""


class _OutputLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        readouts: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        smoothing: float,
        counted: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        low, high = readouts.dtype, torch.promote_types(readouts.dtype, torch.float32)
        low_weight, low_bias = weight.to(low), bias.to(low)
        d_readouts = torch.empty_like(readouts)
        d_weight, d_bias = None, torch.zeros_like(bias, dtype=high)
        nll, uniform = d_bias.new_zeros(()), d_bias.new_zeros(())
        if smoothing:
            mean_weight, mean_bias = weight.to(high).mean(0), bias.to(high).mean()
        chunk = GPU_CHUNK if readouts.is_cuda else CHUNK
        for start in range(0, len(readouts), chunk):
            part = slice(start, start + chunk)
            rows, gold = readouts[part], targets[part].unsqueeze(1)  # (n, O), (n, 1)
            logits = add_product(low_bias, rows, low_weight.T)  # (n, V)
            probabilities = logits.softmax(-1)
            surprisal = -probabilities.gather(1, gold).to(high).clamp_min(torch.finfo(high).tiny).log()
            # d objective / d logits = softmax - smoothing / V - (1 - smoothing) * one-hot
            d_logits = probabilities
            if smoothing:  # mean over words of -log p: log Z - mean logit; log Z = surprisal + logit of the target
                mean_logits = rows.to(high) @ mean_weight + mean_bias
                uniform += _total(surprisal + logits.gather(1, gold) - mean_logits.unsqueeze(1), counted, part)
                d_logits.sub_(smoothing / len(bias))
            nll += _total(surprisal, counted, part)
            # on a CPU scatter_add_ would copy all of them
            d_logits[torch.arange(len(rows), device=rows.device), targets[part]] += smoothing - 1
            if counted is not None:
                d_logits.mul_(counted[part].unsqueeze(1))
            d_bias += _column_sums(d_logits, high)
            d_readouts[part] = product(d_logits, low_weight)
            gradient = product(d_logits.T, rows)
            del logits, probabilities, d_logits  # before the next chunk has its own
            d_weight = gradient.to(high) if d_weight is None else d_weight.add_(gradient)
        ctx.save_for_backward(d_readouts, d_weight, d_bias)
        ctx.mark_non_differentiable(nll)
        return (1 - smoothing) * nll + smoothing * uniform, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        d_readouts, d_weight, d_bias = ctx.saved_tensors
        return d_readouts * scale.to(d_readouts.dtype), d_weight.mul_(scale), d_bias.mul_(scale), None, None, None


def _column_sums(rows: Tensor, high: torch.dtype) -> Tensor:
    """Sum (n, V) over n. For a sum in another type a CPU copies its rows, so it takes a block at a time."""
    if rows.is_cuda or rows.dtype == high:
        return rows.sum(0, dtype=high)
    return torch.stack([block.sum(0, dtype=high) for block in rows.split(BLOCK)]).sum(0)


def _total(column: Tensor, counted: Tensor | None, part: slice) -> Tensor:
    """Sum the rows (n, 1) that count."""
    return column.sum() if counted is None else column.squeeze(1) @ counted[part].to(column.dtype)


def output_loss(
    readouts: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float, counted: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of an output layer: readouts (N, O), weight (V, O), bias (V,), targets (N,) -> two sums.

    They are the label-smoothed objective, differentiable, and the negative log-likelihood of the targets, for
    reporting. ``counted``, (N,), is False for rows to skip; None counts all rows.

    The products are computed in the type of ``readouts``; the sums, and the gradient of the weight, in fp32 or finer.
    A target probability below 1e-38 counts as 1e-38.
    """
    with torch.autocast(readouts.device.type, enabled=False):
        result: tuple[Tensor, Tensor] = _OutputLoss.apply(  # type: ignore[no-untyped-call]
            readouts, weight, bias, targets, smoothing, counted
        )
        return result
