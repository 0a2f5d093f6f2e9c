"""Matrix products by the fastest library: of training, and in int8 for inference.

For fp32 on a CPU, PyTorch multiplies by MKL; oneDNN's linear layer, which compiled PyTorch programs call, is faster on
AMD's processors (Zen 4, two cores: 205 to 220 GFLOP/s against 170 to 195 for the products of a training step). On an
Intel Xeon with AVX-512 it is 3 to 19% slower for most of these products, which costs 2% of a step. bf16 products go to
oneDNN anyway. int8 takes half the time of bf16 where the processor multiplies it (AVX-512 VNNI).
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
    """Copy (D, m, n) to (D, n, m). PyTorch's copy is four times as fast for single matrices as for several."""
    each = [matrix.T.contiguous() for matrix in weight]
    return torch.stack(each) if len(each) > 1 else each[0].unsqueeze(0)


# --- int8 -------------------------------------------------------------------------------------------------------------

LARGEST = 127
"""Largest absolute value of the integers."""
ZERO = 128
"""The zero point of unsigned inputs; oneDNN's fastest product is of unsigned by signed numbers."""


def multiplies_int8() -> bool:
    """Whether the processor sums int8 products in 32 bits (VNNI; 16 bits overflow), and oneDNN has a layer for it."""
    capabilities = torch.cpu.get_capabilities()
    return hasattr(torch.ops.onednn, "qlinear_pointwise") and bool(
        capabilities.get("avx512_vnni") or capabilities.get("avx_vnni")
    )


def quantize(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Write each row as integers times a scale of its own: (R, I) -> (R, I), scales (R, 1), in fp32.

    No row depends on another, so no translation depends on its neighbors in a batch.
    """
    scales = rows.abs().amax(1, keepdim=True).float().clamp_min_(1e-12).div_(LARGEST)
    return (rows / scales).round_(), scales


class Int8Linear:
    """W x + b: weight (O, I), bias (O,). The weight's rows and the input's are rounded to int8; sums are exact."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        numbers, scales = quantize(weight.float())
        self.bias = bias.float()
        self.scales = scales.squeeze(1)  # (O,)
        self.offsets = torch.zeros_like(self.scales, dtype=torch.long)
        self.weight = torch.ops.onednn.qlinear_prepack(numbers.to(torch.int8), None)

    def __call__(self, x: Tensor) -> Tensor:
        """(..., I) -> (..., O) fp32."""
        numbers, scales = quantize(x.flatten(0, -2))
        products: Tensor = torch.ops.onednn.qlinear_pointwise(
            numbers.add_(ZERO).to(torch.uint8),
            1.0,
            ZERO,
            self.weight,
            self.scales,
            self.offsets,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return torch.addcmul(self.bias, products, scales, out=products).view(*x.shape[:-1], -1)
