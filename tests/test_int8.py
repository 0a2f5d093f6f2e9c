"""Linear layers in int8 against the same in float64."""

import pytest
import torch

from nmt.errors import ConfigError
from nmt.fast.kernels.products import Int8Linear, multiplies_int8, quantize
from nmt.fast.search_network import refuse_precision

needs_int8 = pytest.mark.skipif(not multiplies_int8(), reason="this processor has no products of int8")


def test_a_row_is_rounded_to_127_steps_of_its_own_largest_number() -> None:
    rows = torch.tensor([[0.0, 0.0], [-2.0, 1.0], [1e-3, -5e-4]])
    numbers, scales = quantize(rows)
    assert numbers.tolist() == [[0, 0], [-127, 64], [127, -64]]
    assert torch.allclose(scales.squeeze(1)[1:], torch.tensor([2 / 127, 1e-3 / 127]))


@needs_int8
@pytest.mark.parametrize("shape", [(1, 16, 8), (5, 33, 7), (64, 128, 200)], ids=str)
def test_the_product_is_exactly_that_of_the_rounded_numbers(shape: tuple[int, int, int]) -> None:
    rows, inputs, outputs = shape
    x, weight, bias = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    (numbers, scales), (weights, weight_scales) = quantize(x), quantize(weight)
    exact = (numbers.double() @ weights.double().T) * scales * weight_scales.T + bias
    found = Int8Linear(weight, bias)(x)
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), exact, rtol=1e-6, atol=1e-6)
    unrounded = x.double() @ weight.double().T + bias
    assert (found - unrounded).norm() / unrounded.norm() < 0.02


@needs_int8
def test_the_largest_numbers_do_not_overflow() -> None:
    weight = torch.ones(3, 2048)
    weight[1] = -1
    assert torch.allclose(Int8Linear(weight, torch.zeros(3))(torch.ones(2, 2048)), weight.sum(1).expand(2, 3))


@needs_int8
def test_no_row_depends_on_its_neighbours() -> None:
    layer = Int8Linear(torch.randn(10, 20), torch.randn(10))
    x = torch.randn(6, 20)
    louder = x.clone()
    louder[1:] *= 1000
    assert torch.equal(layer(x)[0], layer(louder)[0])
    assert torch.equal(layer(x)[2], layer(x[2:3])[0])
    assert layer(x.view(2, 3, 20)).shape == (2, 3, 10)


def test_a_processor_without_products_of_int8_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx2": True})
    with pytest.raises(ConfigError, match="VNNI"):
        refuse_precision(torch.int8, "auto")
    refuse_precision(torch.float32, "plain")
