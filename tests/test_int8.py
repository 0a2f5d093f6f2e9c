"""Linear layers in int8 against the same in float64."""

import pytest
import torch

from nmt.errors import ConfigError
from nmt.fast import refuse_precision
from nmt.fast.kernels.products import Int8Linear, multiplies_int8, quantize

needs_int8 = pytest.mark.skipif(not multiplies_int8(), reason="this processor has no products of int8")


def test_a_row_is_rounded_to_127_steps_of_its_own_largest_number() -> None:
    rows = torch.tensor([[0.0, 0.0], [-2.0, 1.0], [1e-3, -5e-4]])
    numbers, scales = quantize(rows)
    assert numbers.tolist() == [[0, 0], [-127, 64], [127, -64]]
    assert torch.allclose(scales.squeeze(1)[1:], torch.tensor([2 / 127, 1e-3 / 127]))


@needs_int8
@pytest.mark.parametrize("shape", [(1, 16, 8), (5, 33, 7), (64, 128, 200)], ids=str)
def test_the_product_is_exactly_that_of_the_rounded_numbers(shape: tuple[int, int, int]) -> None:
    """No row depends on another."""
    rows, inputs, outputs = shape
    x, weight, bias = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    (numbers, scales), (weights, weight_scales) = quantize(x), quantize(weight)
    exact = (numbers.double() @ weights.double().T) * scales * weight_scales.T + bias
    layer = Int8Linear(weight, bias)
    found = layer(x)
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), exact, rtol=1e-6, atol=1e-6)
    assert torch.equal(layer(torch.cat((x[:1], 1000 * x)))[0], found[0])


@needs_int8
def test_the_largest_numbers_do_not_overflow() -> None:
    weight = torch.ones(3, 2048)
    weight[1] = -1
    found = Int8Linear(weight, torch.zeros(3))(torch.ones(2, 1, 2048))
    assert torch.allclose(found, weight.sum(1).expand(2, 1, 3))


def test_int8_needs_a_processor_that_multiplies_it_and_fast_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="int8 needs kernels: auto"):
        refuse_precision(torch.int8, "plain")
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx2": True})
    with pytest.raises(ConfigError, match="VNNI"):
        refuse_precision(torch.int8, "auto")
    refuse_precision(torch.float32, "plain")
