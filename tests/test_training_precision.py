"""Which precision training takes for ``auto``: that of the faster products, the same in all processes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.config import Config
from nmt.device import name_of
from nmt.training.machine import settled_precision
from nmt.training.world import ONE_PROCESS, World
from tests.small_run import metrics, options, train

CPU, GPU = torch.device("cpu"), torch.device("cuda")
BF16, PLAIN = {"avx512_bf16": True}, {"avx2": True}
FASTER, SLOWER = {torch.float32: 100e9, torch.bfloat16: 220e9}, {torch.float32: 350e9, torch.bfloat16: 215e9}
CLOSE = {torch.float32: 200e9, torch.bfloat16: 216e9}
"""Within what a brief measurement can tell."""


def machine(
    monkeypatch: pytest.MonkeyPatch, capabilities: Mapping[str, bool], rates: Mapping[torch.dtype, float]
) -> list[torch.dtype]:
    """Pretend to be on a processor; -> the precisions that are measured, as they are."""
    measured = list[torch.dtype]()

    def product_rate(device: torch.device, precision: torch.dtype) -> float:
        measured.append(precision)
        return rates[precision]

    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: capabilities)
    monkeypatch.setattr("nmt.training.machine.product_rate", product_rate)
    return measured


class Two(World):
    """Two processes, the other of which has chosen ``other``."""

    size = 2

    def __init__(self, other: str) -> None:
        self.other = other

    def gather(self, value: Any, *, patiently: bool = False) -> list[Any]:
        return [value, self.other]


@pytest.mark.parametrize(
    ("capabilities", "rates", "expected"),
    [(PLAIN, {}, "fp32"), (BF16, FASTER, "bf16"), (BF16, SLOWER, "fp32"), (BF16, CLOSE, "fp32")],
)
def test_auto_is_what_multiplies_faster(
    capabilities: dict[str, bool],
    rates: dict[torch.dtype, float],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured, said = machine(monkeypatch, capabilities, rates), list[str]()
    assert settled_precision("auto", CPU, ONE_PROCESS, said.append, {}) == expected
    assert len(said) == bool(rates) and all(line.startswith(f"precision: {expected}, ") for line in said)
    assert measured == list(rates)


def test_a_gpu_and_a_name_need_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = machine(monkeypatch, BF16, FASTER)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation: True)
    assert settled_precision("auto", GPU, ONE_PROCESS, pytest.fail, {}) == "bf16"
    assert settled_precision("fp32", CPU, ONE_PROCESS, pytest.fail, {}) == "fp32"
    assert not measured


@pytest.mark.parametrize("other", ["fp32", "bf16"])
def test_all_processes_take_the_same_and_say_it(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[str]()
    machine(monkeypatch, BF16, FASTER)
    assert settled_precision("auto", CPU, Two(other), said.append, {}) == other
    assert said[0].startswith(f"precision: {other}, ") and ("another process" in said[0]) == (other == "fp32")


def test_a_run_goes_on_in_the_measured_precision_in_which_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A measurement is not exact: a second one may end otherwise."""
    auto = Config.model_validate(options(tmp_path) | {"precision": "auto"})
    machine(monkeypatch, BF16, FASTER)
    train(auto, stop_after=2)
    measured = machine(monkeypatch, BF16, SLOWER)
    assert any(", bf16 on cpu" in line for line in train(auto, resume=True)) and not measured
    losses = [row["loss"] for row in metrics(tmp_path / "run", "train")]
    train(Config.model_validate(options(tmp_path) | {"precision": "bf16"}), overwrite=True)
    assert [row["loss"] for row in metrics(tmp_path / "run", "train")] == losses


@pytest.mark.parametrize(("device", "measured"), [(name_of(CPU), False), ("a GPU", True)])
def test_the_precision_of_another_device_is_not_kept(
    device: str, measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = machine(monkeypatch, BF16, SLOWER)
    manifest = {"device": device, "precision": "bf16"}
    found = settled_precision("auto", CPU, ONE_PROCESS, lambda _: None, manifest)
    assert found == ("fp32" if measured else "bf16") and bool(calls) == measured
