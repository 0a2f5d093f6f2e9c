"""Linear layers in int8 against the same in float64."""

import os
import subprocess
import sys

import pytest
import torch

from nmt.fast.kernels import products as int8
from nmt.fast.kernels.products import LARGEST_IN_PAIRS, Int8Linear, largest_weight, quantize


@pytest.fixture(params=[True, False], ids=["fused", "plain"])
def either_product(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(int8, "multiplies_int8", lambda: False)
    elif not int8.multiplies_int8():
        pytest.skip("this processor has no products of int8")


def test_a_row_is_rounded_to_127_steps_of_its_own_largest_number() -> None:
    rows = torch.tensor([[0.0, 0.0], [-2.0, 1.0], [1e-3, -5e-4]])
    numbers, scales = quantize(rows)
    assert numbers.tolist() == [[0, 0], [-127, 64], [127, -64]]
    assert torch.allclose(scales.squeeze(1)[1:], torch.tensor([2 / 127, 1e-3 / 127]))
    some = torch.randn(50, 30)
    numbers, scales = quantize(some)
    assert ((numbers * scales - some).abs() <= scales / 2 * (1 + 1e-5)).all()


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("shape", [(1, 16, 8), (5, 33, 7), (64, 128, 200)], ids=str)
def test_the_product_is_exactly_that_of_the_rounded_numbers(shape: tuple[int, int, int]) -> None:
    rows, inputs, outputs = shape
    x, weight, bias = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    (numbers, scales), (weights, weight_scales) = quantize(x), quantize(weight, largest_weight())
    exact = (numbers.double() @ weights.double().T) * scales * weight_scales.T + bias
    found = Int8Linear(weight, bias)(x)
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), exact, rtol=1e-6, atol=1e-6)
    unrounded = x.double() @ weight.double().T + bias
    assert (found - unrounded).norm() / unrounded.norm() < 0.02


@pytest.mark.usefixtures("either_product")
def test_the_largest_numbers_do_not_overflow() -> None:
    weight = torch.ones(3, 2048)
    weight[1] = -1
    assert torch.allclose(Int8Linear(weight, torch.zeros(3))(torch.ones(2, 2048)), weight.sum(1).expand(2, 3))


AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
"""Lets a processor of today take the instructions of an older one, which sum pairs of products in 16 bits."""
IN_PAIRS = """
import torch
from nmt.fast.kernels.products import Int8Linear, quantize, largest_weight
torch.manual_seed(1)
for x, weight in ((torch.randn(64, 512), torch.randn(200, 512)), (torch.ones(64, 512), torch.ones(200, 512))):
    (numbers, scales), (weights, weight_scales) = quantize(x), quantize(weight, largest_weight())
    exact = (numbers.double() @ weights.double().T) * scales * weight_scales.T
    found = Int8Linear(weight, torch.zeros(200))(x)
    assert torch.allclose(found.double(), exact, rtol=1e-6, atol=1e-5)
    unrounded = x.double() @ weight.double().T
    assert (found - unrounded).norm() / unrounded.norm() < 0.02
"""


def test_products_summed_in_16_bits_are_exact_too() -> None:
    subprocess.run([sys.executable, "-c", IN_PAIRS], env=os.environ | AVX2, check=True)


def test_weights_are_smaller_where_the_largest_product_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice 255 * 64 fits 16 bits, and twice 255 * 127 does not."""
    assert 2 * 255 * LARGEST_IN_PAIRS < 2**15 <= 2 * 255 * (LARGEST_IN_PAIRS + 1)
    monkeypatch.setattr(Int8Linear, "_product", lambda self, numbers: torch.full((len(numbers), 32), 200.0))
    assert largest_weight.__wrapped__() == LARGEST_IN_PAIRS


@pytest.mark.usefixtures("either_product")
def test_no_row_depends_on_its_neighbours() -> None:
    layer = Int8Linear(torch.randn(10, 20), torch.randn(10))
    x = torch.randn(6, 20)
    louder = x.clone()
    louder[1:] *= 1000
    assert torch.equal(layer(x)[0], layer(louder)[0])
    assert torch.equal(layer(x)[2], layer(x[2:3])[0])
    assert layer(x.view(2, 3, 20)).shape == (2, 3, 10)
