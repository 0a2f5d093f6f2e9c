"""Matrix products of training by the fastest library.

For fp32 on a CPU, PyTorch multiplies by MKL; oneDNN's linear layer, which compiled PyTorch programs call, is faster on
AMD's processors (Zen 4, two cores: 205 to 220 GFLOP/s against 170 to 195 for the products of a training step). On an
Intel Xeon with AVX-512 it is 3 to 19% slower for most of these products, which costs 2% of a step.
bf16 products go to oneDNN anyway.
"""

import torch
from torch import Tensor

_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None


def product(left: Tensor, right: Tensor) -> Tensor:
    """(m, k) (k, n) -> (m, n), or D such products side by side."""
    if _LINEAR is None or left.dtype != torch.float32 or left.device.type != "cpu":
        return left @ right
    if left.ndim == 3:
        return torch.stack([product(*each) for each in zip(left, right, strict=True)])
    if not left.is_contiguous() or not left.numel():
        return left @ right
    result: Tensor = _LINEAR(left, right.mT, None, "none", [], "")
    return result


def add_product(addend: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """addend + left right; the addend is broadcast."""
    if left.dtype == torch.float32:
        return product(left, right).add_(addend)
    return torch.addmm(addend, left, right) if left.ndim == 2 else torch.baddbmm(addend, left, right)


def transposed(weight: Tensor) -> Tensor:
    """Copy (..., m, n) to (..., n, m). PyTorch's copy is four times as fast for single matrices as for several."""
    if weight.ndim == 2:
        return weight.T.contiguous()
    return torch.stack([transposed(each) for each in weight]) if len(weight) > 1 else weight[0].T.contiguous()[None]
