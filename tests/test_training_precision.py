"""Which precision training takes for ``auto``: that of the faster products, the same in all processes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.config import Config
from nmt.device import FORMATS, name_of
from nmt.files import write_json
from nmt.messages import Caution
from nmt.runs.directory import RunDirectory
from nmt.training.machine import settled
from nmt.training.world import ONE_PROCESS, OneProcess
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

    def product_rate(device: torch.device, precision: torch.dtype, *, brief: bool = False) -> float:
        measured.append(precision)
        return rates[precision]

    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: capabilities)
    monkeypatch.setattr("nmt.training.machine.product_rate", product_rate)
    return measured


def of(folder: Path, precision: str) -> Config:
    return Config.model_validate(options(folder) | {"precision": precision})


class Two(OneProcess):
    """Two processes, the other of which has chosen ``other``."""

    size = 2

    def __init__(self, other: dict[str, Any]) -> None:
        self.other = other

    def gather(self, value: Any, *, patiently: bool = False) -> list[Any]:
        return [value, self.other]


@pytest.mark.parametrize(
    ("capabilities", "rates", "expected", "line"),
    [
        (PLAIN, {}, "fp32", None),
        (BF16, FASTER, "bf16", "bf16, by measurement: matrix products at 100 GFLOP/s in fp32, 220 in bf16"),
        (BF16, SLOWER, "fp32", "fp32, by measurement: matrix products at 350 GFLOP/s in fp32, 215 in bf16"),
        (BF16, CLOSE, "fp32", "fp32, by measurement: matrix products at 200 GFLOP/s in fp32, 216 in bf16"),
    ],
)
def test_auto_is_what_multiplies_faster(
    capabilities: dict[str, bool],
    rates: dict[torch.dtype, float],
    expected: str,
    line: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = machine(monkeypatch, capabilities, rates)
    said = list[str]()
    assert settled(of(tmp_path, "auto"), CPU, ONE_PROCESS, said.append).precision == expected
    assert said == ([] if line is None else [f"precision: {line}"])
    assert measured == list(rates)


def test_a_gpu_takes_bf16_without_a_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = machine(monkeypatch, BF16, {})
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation: True)
    assert settled(of(tmp_path, "auto"), GPU, ONE_PROCESS, print).precision == "bf16"
    assert not measured


def test_fp32_by_name_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured, said = machine(monkeypatch, BF16, FASTER), list[str]()
    assert settled(of(tmp_path, "fp32"), CPU, ONE_PROCESS, said.append).precision == "fp32"
    assert not measured and not said


@pytest.mark.parametrize("capabilities", [BF16, PLAIN])
def test_bf16_by_name_is_kept_with_a_warning_where_it_is_slower(
    capabilities: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, capabilities, SLOWER)
    said = list[str]()
    assert settled(of(tmp_path, "bf16"), CPU, ONE_PROCESS, said.append).precision == "bf16"
    [warning] = said
    assert isinstance(warning, Caution)
    assert "bf16 is slower than fp32 on this processor: matrix products at 215 GFLOP/s, in fp32 350" in warning
    for rates in (FASTER, CLOSE, {torch.float32: 216e9, torch.bfloat16: 200e9}):
        machine(monkeypatch, capabilities, rates)
        assert settled(of(tmp_path, "bf16"), CPU, ONE_PROCESS, said.append).precision == "bf16" and len(said) == 1


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"precision": "bf16", "rates": [100.0, 220.0]}, "bf16"),
        ({"precision": "bf16", "rates": None}, "bf16"),  # a GPU
        ({"precision": "bf16", "rates": [350.0, 215.0]}, "fp32"),
        ({"precision": "fp32", "rates": None}, "fp32"),
    ],
)
def test_all_processes_take_the_same(
    other: dict[str, Any], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, BF16, FASTER)
    assert settled(of(tmp_path, "auto"), CPU, Two(other), print).precision == expected


def test_training_computes_in_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, BF16, SLOWER)
    said = train(of(tmp_path, "auto"))
    assert any("bahdanau attention, fp32 on cpu" in line for line in said)
    measured = [row["loss"] for row in metrics(tmp_path / "run", "train")]
    train(of(tmp_path, "fp32"), overwrite=True)
    assert [row["loss"] for row in metrics(tmp_path / "run", "train")] == measured


@pytest.mark.parametrize(("first", "then", "name"), [(SLOWER, FASTER, "fp32"), (FASTER, SLOWER, "bf16")])
def test_a_run_goes_on_in_the_precision_in_which_it_began(
    first: dict[torch.dtype, float],
    then: dict[torch.dtype, float],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A measurement is not exact: a second one may end otherwise."""
    machine(monkeypatch, BF16, first)
    train(of(tmp_path, "auto"), stop_after=2)
    measured = machine(monkeypatch, BF16, then)
    said = train(of(tmp_path, "auto"), resume=True)
    assert any(f"bahdanau attention, {name} on cpu" in line for line in said)
    assert not any("by measurement" in line for line in said) and not set(measured) - {FORMATS[name]}


@pytest.mark.parametrize(
    ("manifest", "measured"),
    [
        ({"device": name_of(CPU), "precision": "bf16"}, False),
        ({"device": name_of(CPU)}, True),  # of an earlier version
        ({"device": "a GPU", "precision": "bf16"}, True),
        ({"device": name_of(CPU), "precision": "int4"}, True),
        ([], True),
    ],
)
def test_the_manifest_says_in_which_precision_a_run_began(
    manifest: Any, measured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = machine(monkeypatch, BF16, SLOWER)
    run = RunDirectory(tmp_path)
    write_json(run.manifest, manifest)
    assert settled(of(tmp_path, "auto"), CPU, ONE_PROCESS, print, run).precision == ("fp32" if measured else "bf16")
    assert bool(calls) == measured
    machine(monkeypatch, PLAIN, {})  # a processor that does not have it
    assert settled(of(tmp_path, "auto"), CPU, ONE_PROCESS, print, run).precision == "fp32"
