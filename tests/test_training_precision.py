"""Which precision training takes for ``auto``: that of the faster step, the same in all processes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from nmt.cli.experiment import main as nmt_experiment
from nmt.config import Config
from nmt.device import format_of, name_of, resolve_precision
from nmt.files import write_json
from nmt.training.trial import Trial, choose_precision
from nmt.training.world import ONE_PROCESS, Machine, World
from tests.small_run import metrics, options, train
from tests.test_experiments import plan_of, write_experiment

CPU, GPU = torch.device("cpu"), torch.device("cuda")
BF16, PLAIN = {"avx512_bf16": True}, {"avx2": True}
Seconds = Mapping[torch.dtype, float]
FASTER, SLOWER = {torch.float32: 0.22, torch.bfloat16: 0.1}, {torch.float32: 0.2, torch.bfloat16: 0.3}
CLOSE = {torch.float32: 0.216, torch.bfloat16: 0.2}
"""Within what a brief measurement can tell."""


class Timed:
    """In the place of a trial, on a processor with these capabilities."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capabilities: Mapping[str, bool], seconds: Seconds) -> None:
        self.seconds, self.measured = seconds, list[torch.dtype]()
        monkeypatch.setattr("torch.cpu.get_capabilities", lambda: capabilities)

    def step(self, machine: Machine) -> tuple[dict[str, Any], float]:
        self.measured.append(machine.precision)
        return {}, self.seconds[machine.precision]


def chosen(
    trial: Timed,
    name: str = "auto",
    device: torch.device = CPU,
    world: World = ONE_PROCESS,
    begun: Mapping[str, Any] | None = None,
    said: list[str] | None = None,
) -> str:
    say = (said if said is not None else []).append
    machine = Machine(device, resolve_precision(name, device), "plain", world)
    return format_of(choose_precision(name, machine, begun or {}, cast(Trial, trial), say).precision)


class Two(World):
    """Two processes, the other of which has chosen ``other``."""

    size = 2

    def __init__(self, other: str) -> None:
        self.other = other

    def any(self, flag: bool) -> bool:
        return flag or self.other == "fp32"


@pytest.mark.parametrize(
    ("capabilities", "seconds", "expected"),
    [(PLAIN, {}, "fp32"), (BF16, FASTER, "bf16"), (BF16, SLOWER, "fp32"), (BF16, CLOSE, "fp32")],
)
def test_auto_is_what_makes_the_faster_step(
    capabilities: dict[str, bool], seconds: Seconds, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, said = Timed(monkeypatch, capabilities, seconds), list[str]()
    assert chosen(trial, said=said) == expected
    assert len(said) == bool(seconds) and all(line.startswith(f"precision: {expected}, ") for line in said)
    assert trial.measured == list(seconds)


def test_a_gpu_and_a_name_need_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Timed(monkeypatch, BF16, FASTER)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setattr("nmt.training.trial.name_of", str)
    assert chosen(trial, "auto", GPU) == "bf16"
    assert chosen(trial, "fp32") == "fp32"
    assert not trial.measured


@pytest.mark.parametrize("other", ["fp32", "bf16"])
def test_all_processes_take_the_same_and_say_it(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[str]()
    assert chosen(Timed(monkeypatch, BF16, FASTER), world=Two(other), said=said) == other
    assert said[0].startswith(f"precision: {other}, ")


def test_a_run_goes_on_in_the_measured_precision_in_which_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A measurement is not exact: a second one may end otherwise."""
    auto = Config.model_validate(options(tmp_path) | {"precision": "auto"})
    trials = [Timed(monkeypatch, BF16, seconds) for seconds in (FASTER, SLOWER)]
    monkeypatch.setattr(Trial, "step", lambda self, machine: trials[0].step(machine))
    train(auto, stop_after=2)
    monkeypatch.setattr(Trial, "step", lambda self, machine: trials[1].step(machine))
    assert any(", bf16 on cpu" in line for line in train(auto, resume=True)) and not trials[1].measured
    losses = [row["loss"] for row in metrics(tmp_path / "run", "train")]
    train(Config.model_validate(options(tmp_path) | {"precision": "bf16"}), overwrite=True)
    assert [row["loss"] for row in metrics(tmp_path / "run", "train")] == losses


@pytest.mark.parametrize(("device", "measured"), [(name_of(CPU), False), ("a GPU", True)])
def test_the_precision_of_another_device_is_not_kept(
    device: str, measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Timed(monkeypatch, BF16, SLOWER)
    found = chosen(trial, begun={"device": device, "precision": "bf16"})
    assert found == ("fp32" if measured else "bf16") and bool(trial.measured) == measured


@pytest.mark.parametrize(
    ("begun", "recorded_on", "precision", "measured"),
    [(False, "", "bf16", [2, 0]), (False, "another device", "bf16", [2, 0]), (True, name_of(CPU), "fp32", [0, 0])],
)
def test_an_experiment_measures_once_for_its_new_runs(
    begun: bool, recorded_on: str, precision: str, measured: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All take the precision of a run that has begun; else it is measured, and another call does not measure again."""
    path, started = write_experiment(tmp_path, {"first": {}, "a": {}, "b": {"seed": 2}}), list[list[str]]()
    if recorded_on:
        (tmp_path / "out").mkdir()
        other = {"device": recorded_on, "precision": "bf16" if begun else "fp32"}
        write_json(tmp_path / "out/precision.json", other)
    if begun:
        train(plan_of(path).runs[0].config, stop_after=2)  # in fp32

    def fail(jobs: Mapping[str, Any], *_: Any) -> dict[str, int]:
        started.append([words[-1] for words in jobs.values()])
        return dict.fromkeys(jobs, 1)

    monkeypatch.setattr("nmt.experiments.running.run_jobs", fail)
    trials = [Timed(monkeypatch, BF16, seconds) for seconds in (FASTER, SLOWER)]
    for trial in trials:
        monkeypatch.setattr(Trial, "step", lambda self, machine, trial=trial: trial.step(machine))
        assert nmt_experiment(["--config", str(path), "--set", "precision=auto"]) == 2
    assert started == [[f"precision={precision}"] * 3] * 2
    assert [len(trial.measured) for trial in trials] == measured
