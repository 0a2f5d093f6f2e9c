"""The network made fast for search against its plain twin, step by step; linear layers in int8."""

import gc
import weakref
from typing import Any

import pytest
import torch

from nmt.config.schema import Kernels
from nmt.errors import ConfigError
from nmt.fast import search
from nmt.fast.kernels.products import Int8Linear, multiplies_int8, quantize
from nmt.fast.search_network import FastSearch
from tests.models import VARIANTS, small_model, steps

KERNELS: tuple[Kernels, Kernels] = ("plain", "auto")
TWINS = [name for name in VARIANTS if isinstance(search(small_model(name), torch.double), FastSearch)]
"""The variants that are made fast: ``tests/test_fast.py`` says which they should be."""
needs_int8 = pytest.mark.skipif(not multiplies_int8(), reason="this processor has no products of int8")


@pytest.mark.parametrize(("beam_size", "largest"), [(1, 1 << 25), (2, 0)], ids=str)
@pytest.mark.parametrize("attention", TWINS)
def test_fast_steps_are_plain(attention: str, beam_size: int, largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.fast.search_network.LARGEST_LOOKUP", largest)
    model = small_model(attention)
    with torch.inference_mode():
        plain, fast = (steps(search(model, torch.double, kernels), beam_size) for kernels in KERNELS)
    assert {log_probs.dtype for log_probs, _ in fast} == {torch.float32}
    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-6)  # the plain path rounds energies to fp32


@pytest.mark.parametrize(
    ("kind", "rounding"), [("float32", 1e-5), ("bfloat16", 2**-7), pytest.param("int8", 0.0, marks=needs_int8)]
)
def test_a_word_is_read_alike_before_and_after_its_layer_becomes_a_table(kind: str, rounding: float) -> None:
    """So that a translation does not depend on those that were made before it."""
    searched = search(small_model("bahdanau").float(), getattr(torch, kind))
    assert isinstance(searched, FastSearch)
    torch.manual_seed(1)
    layer = searched._table(torch.randn(4000, 300), torch.randn(1000, 300), torch.randn(1000))
    some = torch.arange(0, 4000, 800)
    before, every = layer(some), layer(torch.arange(4000))
    assert torch.equal(layer(some), every[some]), "it is a table now"
    assert (before - every[some]).abs().max() <= rounding * before.abs().max()


@pytest.mark.parametrize("attention", TWINS)
def test_a_network_is_made_fast_where_it_is(attention: str) -> None:
    """On the meta device PyTorch refuses to mix devices, as on a GPU."""
    search(small_model(attention).float().to("meta"), torch.float32)


@pytest.mark.parametrize("attention", ["bahdanau", "luong concat"])
def test_nothing_of_a_search_outlives_it(attention: str) -> None:
    """Copies of the weights would wait for the collector."""
    model = small_model(attention)
    gc.disable()
    try:
        searched = search(model, torch.double)
        gone = weakref.ref(searched)
        del searched
        assert gone() is None
    finally:
        gc.enable()


def test_greedy_search_applies_nothing_ahead() -> None:
    """It would save nothing and need more memory."""
    for beam_size in (1, 2):
        searched = search(small_model("bahdanau").float(), torch.float32)
        with torch.inference_mode():
            memory = searched.start(searched.encode(torch.ones(3, 5).long(), torch.tensor([1, 5, 2])), beam_size).memory
        assert (memory.values is None) == (beam_size == 1)


@pytest.mark.parametrize("attention", TWINS)
def test_other_precisions_are_close(attention: str) -> None:
    model = small_model(attention).float()
    with torch.inference_mode():
        plain = steps(search(model, torch.float32, "plain"))
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 0.05), (torch.int8, 0.1)):
            if dtype == torch.int8 and not multiplies_int8():
                continue
            for (expected, _), (found, _) in zip(plain, steps(search(model, dtype)), strict=True):
                assert torch.allclose(found, expected, rtol=0, atol=tolerance)


def test_saturated_energies_overflow_nothing() -> None:
    model: Any = small_model("bahdanau").float()
    for layer in (model.decoder.attention.query, model.decoder.attention.key):
        layer.weight.data *= 1000
    with torch.inference_mode():
        for log_probs, weights in steps(search(model, torch.float32)):
            assert log_probs.isfinite().all()
            assert weights is not None and torch.allclose(weights.sum(-1), torch.ones(len(weights)))


# --- int8 -------------------------------------------------------------------------------------------------------------


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


def test_int8_needs_a_processor_that_multiplies_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx2": True})
    with pytest.raises(ConfigError, match="VNNI"):
        search(small_model("bahdanau").float(), torch.int8)
