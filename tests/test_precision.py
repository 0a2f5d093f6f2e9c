"""The precision that translates fastest: what is measured, and what is chosen."""

from functools import partial
from typing import Any

import pytest
import torch

from nmt import fast
from nmt.config import schema
from nmt.device import MARGIN
from nmt.fast.inference import FastLuong
from nmt.model import Seq2Seq
from tests.small_translator import network, small_tokenizers

CPU = torch.device("cpu")
FP32, BF16, INT8 = torch.float32, torch.bfloat16, torch.int8
EVERYTHING = {"avx512_bf16": True, "avx512_vnni": True}


def model(attention: str = "bahdanau") -> Seq2Seq:
    """A small network."""
    return network(small_tokenizers(), {"type": attention})


def test_rates_are_of_each_precision_and_leave_random_numbers_and_threads_alone(
    request: pytest.FixtureRequest,
) -> None:
    built = model()
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    request.addfinalizer(lambda: torch.set_num_threads(threads))
    torch.set_num_threads(threads + 1)
    found = fast.rates(built, (FP32, BF16, INT8), "auto", beam_size=3)
    assert list(found) == [FP32, BF16, INT8] and min(found.values()) > 0
    assert torch.equal(torch.get_rng_state(), before) and torch.get_num_threads() == threads + 1


@pytest.mark.parametrize("kernels", ["auto", "plain"])
def test_a_rate_counts_the_pieces_of_the_whole_batch_on_one_thread(
    kernels: schema.Kernels, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, rows, threads = model("luong"), list[int](), set[int]()
    step = type(built).step if kernels == "plain" else FastLuong.step
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    torch.set_num_threads(2)

    def counting(self: Any, previous: torch.Tensor, state: Any) -> Any:
        rows.append(len(previous))
        threads.add(torch.get_num_threads())
        return step(self, previous, state)

    owner = type(built) if kernels == "plain" else FastLuong
    monkeypatch.setattr(owner, "step", counting)
    monkeypatch.setattr("nmt.fast.inference.brief_seconds", lambda task, device: task() or 2.0)
    found = fast.rates(built, (FP32,), kernels, beam_size=4)
    assert rows == [16 * 4] * 16 and threads == {1}
    assert found == {FP32: 16 * 16 / 2.0}


@pytest.mark.parametrize(
    ("capabilities", "kernels", "expected"),
    [
        ({"avx2": True}, "auto", [FP32]),
        ({"avx512_bf16": True}, "auto", [FP32, BF16]),
        ({"avx_vnni": True}, "auto", [FP32, INT8]),
        (EVERYTHING, "auto", [FP32, BF16, INT8]),
        (EVERYTHING, "plain", [FP32, BF16]),
    ],
)
def test_candidates_are_what_the_processor_multiplies(
    capabilities: dict[str, bool],
    kernels: schema.Kernels,
    expected: list[torch.dtype],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: capabilities)
    monkeypatch.setattr(torch.ops.onednn, "qlinear_pointwise", None, raising=False)  # some builds of PyTorch lack it
    assert fast.candidates(model(), kernels, CPU) == expected


def test_a_gpu_is_not_offered_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processor may have the instructions."""
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: EVERYTHING)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation: True)
    assert fast.candidates(model(), "auto", torch.device("cuda")) == [FP32, BF16]


def test_a_network_without_a_twin_is_not_offered_in_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: EVERYTHING)
    monkeypatch.setattr("nmt.fast.inference.twin_of", lambda decoder: None)
    assert INT8 not in fast.candidates(model(), "auto", CPU)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({FP32: 100.0}, FP32),
        ({FP32: 100.0, BF16: 99.0}, FP32),
        ({FP32: 100.0, BF16: 100.0 * MARGIN}, FP32),  # equal within what the measurement can tell
        ({FP32: 100.0, BF16: 130.0, INT8: 120.0}, BF16),
        ({FP32: 100.0, BF16: 130.0, INT8: 140.0}, INT8),
    ],
)
def test_the_fastest_is_taken_if_it_is_clearly_faster_than_fp32(
    rates: dict[torch.dtype, float], expected: torch.dtype
) -> None:
    assert fast.fastest(rates) == expected
