"""A trial of training steps: fast kernels that fail on a device give way to the plain ones, and the precision
``auto`` is that of the faster step, the same in all processes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from nmt import fast
from nmt.cli.experiment import main as nmt_experiment
from nmt.config import Config
from nmt.config.schema import Kernels
from nmt.data.dataset import PreparedData, prepare
from nmt.device import format_of, name_of, resolve_precision
from nmt.fast.teacher_forcing import FastTraining
from nmt.model import Memory, Network, Seq2Seq, build_model
from nmt.training.trial import Trial, choose_kernels, choose_precision
from nmt.training.world import ONE_PROCESS, Machine, World, in_turn
from tests.processes import run_processes
from tests.small_run import metrics, options, train
from tests.test_experiments import plan_of, write_experiment

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def configured(folder: Path, **sections: Any) -> tuple[Config, PreparedData]:
    config = Config.model_validate(options(folder) | sections)
    return config, prepare(config)


def kernels_after_trial(
    folder: Path, said: list[str], model: Seq2Seq | None = None, world: World = ONE_PROCESS, kernels: Kernels = "auto"
) -> Kernels:
    config, prepared = in_turn(world, lambda: configured(folder))
    model = model or build_model(config.model, *prepared.tokenizers.sizes)
    machine = Machine(CPU, torch.float32, kernels, world)
    return choose_kernels(machine, Trial(model, config, prepared), said.append).kernels


class Fails(FastTraining):
    """As Triton reports it: over several lines, by an error of its own."""

    error = Exception("\nPTXAS error: out of registers\nsee the log")

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        raise self.error


class LacksMemory(Fails):
    error = torch.OutOfMemoryError("CUDA out of memory")


def install(monkeypatch: pytest.MonkeyPatch, kind: type[FastTraining]) -> None:
    """Make it the fast path of training, and let a trial be made on a CPU, too."""

    def training(model: Seq2Seq, kernels: Kernels = "auto", *, attention_gradients: bool = False) -> Network:
        return kind(model, attention_gradients=attention_gradients) if kernels == "auto" else model

    monkeypatch.setattr(fast, "training", training)
    monkeypatch.setattr("nmt.training.trial.TRIED", ("cpu",))


@pytest.mark.parametrize(
    ("kind", "chosen", "problem"),
    [
        (FastTraining, "auto", None),
        (Fails, "plain", "PTXAS error: out of registers"),
        (LacksMemory, "auto", "out of memory"),
    ],
)
def test_kernels_that_fail_are_not_used(
    kind: type[FastTraining], chosen: Kernels, problem: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that memory is too small to try are: the plain ones need more of it."""
    install(monkeypatch, kind)
    (config, prepared), said = configured(folder), list[str]()
    model, state = build_model(config.model, *prepared.tokenizers.sizes), torch.get_rng_state()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert kernels_after_trial(folder, said, model) == chosen
    assert [problem is not None and problem in line for line in said] == [True] * (problem is not None)
    assert torch.equal(state, torch.get_rng_state()), "training draws what it draws without a trial"
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    said.clear()
    assert kernels_after_trial(folder, said, model, kernels="plain") == "plain" and not said


def test_training_goes_on_with_plain_kernels(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Fails)
    losses = []
    for kernels in ("auto", "plain"):
        config, _ = configured(folder, kernels=kernels, output=str(tmp_path / kernels))
        said = train(config)
        assert len([line for line in said if line.startswith("warning: kernels")]) == (kernels == "auto")
        losses.append([line["loss"] for line in metrics(tmp_path / kernels) if "loss" in line])
    assert losses[0] == losses[1]
    assert "kernels: auto" in (tmp_path / "auto" / "config.yaml").read_text()


def decided(world: World, folder: Path, failing: int) -> Kernels:
    """The decision of one of several processes, where the kernels of one fail."""
    with pytest.MonkeyPatch.context() as patch:
        install(patch, Fails if world.rank == failing else FastTraining)
        return kernels_after_trial(folder, [], world=world)


def test_all_processes_agree(folder: Path) -> None:
    assert run_processes(decided, 2, folder, 1) == ["plain", "plain"]


# --- the precision ----------------------------------------------------------------------------------------------------

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

    def step(self, machine: Machine) -> float:
        self.measured.append(machine.precision)
        return self.seconds[machine.precision]


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


def test_all_processes_take_the_same_and_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said, world = list[str](), Mock(any=lambda flag: True)
    assert chosen(Timed(monkeypatch, BF16, FASTER), world=world, said=said) == "fp32"
    assert said[0].startswith("precision: fp32, ")


def test_a_run_goes_on_in_the_precision_that_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_precisions_of_other_devices_are_not_kept(device: str, measured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Timed(monkeypatch, BF16, SLOWER)
    found = chosen(trial, begun={"device": device, "precision": "bf16"})
    assert found == ("fp32" if measured else "bf16") and bool(trial.measured) == measured


@pytest.mark.parametrize(("begun", "precision", "measured"), [(False, "bf16", 2), (True, "fp32", 0)])
def test_an_experiment_measures_once_for_its_new_runs(
    begun: bool, precision: str, measured: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All take the precision of a run that has begun; else it is measured."""
    path = write_experiment(tmp_path, {"first": {}, "a": {}, "b": {"seed": 2}})
    if begun:
        train(plan_of(path).runs[0].config, stop_after=2)  # in fp32
    fail = Mock(side_effect=lambda jobs, *_: dict.fromkeys(jobs, 1))
    monkeypatch.setattr("nmt.experiments.running.run_jobs", fail)
    trial = Timed(monkeypatch, BF16, FASTER)
    monkeypatch.setattr(Trial, "step", lambda self, machine: trial.step(machine))
    assert nmt_experiment(["--config", str(path), "--set", "precision=auto"]) == 2
    [call] = fail.call_args_list
    assert [words[-1] for words in call.args[0].values()] == [f"precision={precision}"] * 3
    assert len(trial.measured) == measured
