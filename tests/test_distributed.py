"""Several processes train as one does; what goes wrong in one is said by name."""

import json
import platform
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch
from torch import Tensor, nn

from nmt.config import Config
from nmt.data.dataset import prepare
from nmt.errors import ConfigError, Stopped
from nmt.messages import silent
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import load_run
from nmt.training.gradients import Accumulation
from nmt.training.reports import Log
from nmt.training.train import train as train_run
from nmt.training.trainer import Trainer
from nmt.training.validation import Validator
from nmt.training.world import ONE_PROCESS, Machine, World, seed_apart
from tests.models import NO_DROPOUT
from tests.processes import KILLED, run_processes, try_processes
from tests.small_run import config, metrics, train
from tests.training.conftest import KINDS, batch_of, not_finite, parameters, spoil, trainer_of, update

SGD = {"type": "sgd", "learning_rate": 3.0}
CPU = torch.device("cpu")
HOST = platform.node()
LOG = Log(RunDirectory("nowhere"), silent, writes=False)


@pytest.fixture(scope="module")
def folder(folder: Path) -> Path:
    """A corpus and its cache, made before processes start."""
    prepare(exact(folder))
    return folder


def exact(folder: Path, output: str = "run", **training: Any) -> Config:
    """A run whose numbers depend on nothing random, so that processes can be compared."""
    return config(folder, output=output, dropout=NO_DROPOUT, **({"optimizer": SGD} | training))


# --- the gradient -----------------------------------------------------------------------------------------------------


class OfTwo(World):
    """One of two processes, the other of which has twice as much."""

    size = 2

    def __init__(self, rank: int = 0) -> None:
        self.rank = rank

    def sum(self, tensor: Tensor) -> Tensor:
        """Three times the tensor."""
        return tensor.mul_(3)


def sum_of(world: World, batches: int, precision: torch.dtype = torch.float32) -> tuple[Any, Accumulation]:
    """The sum of a weight with two numbers, and of a bias; the layer has a moving average."""
    layer = nn.Linear(2, 1)
    layer.register_buffer("average", torch.tensor(1.0))
    return layer, Accumulation(layer, Machine(CPU, precision, world=world), batches)


def test_gradients_are_summed_over_batches_and_processes() -> None:
    """A parameter that this process has not used may have a gradient in another. Averages, as of REINFORCE's rewards,
    change by the mean of all. What is undone does not count."""
    layer, each = sum_of(OfTwo(), 2)
    for factors in ((5.0,), (1.0, 2.0)):
        each.begin()
        for factor in factors:
            (factor * layer.weight).sum().backward()
            layer.get_buffer("average").add_(factor)
            each.add()
        if len(factors) == 1:
            each.undo()
    each.finish()
    assert layer.weight.grad.tolist() == [[3 * 3.0] * 2] and not layer.bias.grad.any()
    assert layer.get_buffer("average") == 1 + 3 * 3.0 / 2


@pytest.mark.parametrize(("precision", "expected"), [(torch.float32, 1.0), (torch.bfloat16, 0.0)])
def test_gradients_in_fp32_are_summed_in_float64(precision: torch.dtype, expected: float) -> None:
    """In fp32 1e8 + 1 - 1e8 is 0: the order would decide. The next update begins at 0."""
    layer, each = sum_of(ONE_PROCESS, 3, precision)
    for made in range(2):
        for gradient in (1e8, 1.0, -1e8):
            (gradient * layer.bias).sum().backward()
            each.add()
        each.finish()
        assert layer.bias.grad.tolist() == [expected], made
        layer.bias.grad = None


def test_what_one_process_adds_up_itself_has_no_sum() -> None:
    """A sum takes memory: 8 bytes a parameter in float64, 4 in fp32."""
    half, single = torch.bfloat16, torch.float32
    cases = (2, single), (1, single), (2, half)
    assert [sum_of(ONE_PROCESS, *case)[1].total is not None for case in cases] == [True, False, False]
    assert sum_of(OfTwo(), 1, half)[1].total is not None


def test_processes_draw_other_random_numbers() -> None:
    drawn = []
    for rank, made in ((0, 0), (1, 0), (1, 1), (1, 0)):
        seed_apart(OfTwo(rank), 1, made)
        drawn.append(torch.rand(()).item())
    assert len(set(drawn)) == 3 and drawn[1] == drawn[3]


def trained(world: World, folder: str, output: str, training: dict[str, Any]) -> list[str]:
    """A whole run; what was said."""
    said: list[str] = []
    train_run(exact(Path(folder), output, **training), say=said.append, world=world)
    return said


def test_a_run_of_processes_is_the_run_of_one(folder: Path) -> None:
    """Losses, weights, validations, the average and the test set; two batches of each process make an update."""
    training: dict[str, Any] = {"updates": 5, "average": 2, "log_every": 1}
    training["optimizer"] = {"type": "adam", "learning_rate": 1e-2}
    train(exact(folder, "alone", **training, accumulation=6))
    first, *others = run_processes(trained, 3, str(folder), "shared", training | {"accumulation": 2})
    assert first and not any(others)  # one of them speaks
    alone, shared = folder / "alone", folder / "shared"
    for one, other in zip(metrics(alone), metrics(shared), strict=True):
        assert one.keys() == other.keys()
        for key in one.keys() - {"seconds", "target_tokens_per_second"}:
            number = isinstance(one[key], float)
            assert other[key] == (pytest.approx(one[key], rel=1e-6) if number else one[key]), key
    weights, expected = (load_run(run, CPU, "last").model.state_dict() for run in (shared, alone))
    differences = torch.stack([(weights[name] - tensor).norm() for name, tensor in expected.items()])
    assert differences.norm() <= 1e-6 * torch.stack([tensor.norm() for tensor in expected.values()]).norm()
    for name in ("test.hypotheses.txt", "tokenizer/source.model"):
        assert (shared / name).read_bytes() == (alone / name).read_bytes(), name
    assert json.loads((shared / "manifest.json").read_text())["processes"] == 3


# --- a lost process, another number of processes ----------------------------------------------------------------------


def trained_until_killed(world: World, folder: str, kill: int | None, resume: bool) -> None:
    """Train; the last process is killed in its update after ``kill``."""
    real = Trainer.update

    def update(trainer: Trainer, batches: Any) -> Any:
        if trainer.progress.update == kill and world.rank == world.size - 1:
            signal.raise_signal(signal.SIGKILL)
        return real(trainer, batches)

    training = {"updates": 6, "batch_tokens": 50, "save_every": 2, "validation": {"every": 1000, "first": None}}
    with patch.object(Trainer, "update", update):
        train_run(exact(Path(folder), "elastic", **training), resume=resume, world=world)


def test_any_number_of_processes_goes_on_where_another_was_killed(folder: Path) -> None:
    """2 -> 3 -> 1 processes, with a kill in each but the last: from the batch of the epoch at which the checkpoint
    stands, after two updates of each."""
    for size, kill, batches in ((2, 3, 2 * 2), (3, 5, 2 * 2 + 2 * 3), (1, None, 2 * 2 + 2 * 3 + 2)):
        found = try_processes(trained_until_killed, size, str(folder), kill, size != 2)
        *others, last = [problem for problem, _ in found]
        assert last == ("" if kill is None else KILLED)
        assert all("another process of the run has ended" in problem for problem in others), others
        state = json.loads((folder / "elastic/checkpoints/last/training.json").read_text())
        assert state["position"] == {"epoch": 0, "batch": batches, "of": 24}


# --- agreement --------------------------------------------------------------------------------------------------------


def with_faults(world: World, folder: str) -> list[dict[str, Any]]:
    """One update in which the second process alone has a problem, and one without; for each kind of problem."""
    found = []
    for fault in (not_finite(KINDS[0]), Mock(side_effect=torch.OutOfMemoryError)):
        trainer = trainer_of(exact(Path(folder)), LOG, Machine(CPU, world=world))
        if world.rank == 1:
            spoil(trainer, fault, [1])
        for _ in range(2):
            update(trainer, [batch_of(trainer, [world.rank, 2 + world.rank])])
        counts = {"skipped": trainer.progress.skipped, "halved": trainer.progress.halved}
        found.append(counts | {"parameters": parameters(trainer).tolist()})
    return found


def test_an_update_that_fails_in_one_process_is_skipped_or_halved_by_all(folder: Path) -> None:
    """The update with halves is the same; no process waits for another."""
    trainer = trainer_of(exact(folder), LOG, Machine(CPU))
    for _ in range(2):
        update(trainer, [batch_of(trainer, [0, 1, 2, 3])])
    expected = parameters(trainer)
    first, second = run_processes(with_faults, 2, str(folder))
    assert first == second
    lost, halved = first
    assert (lost["skipped"], lost["halved"], halved["skipped"], halved["halved"]) == (1, 0, 0, 1)
    assert (torch.tensor(halved["parameters"]) - expected).norm() <= 1e-6 * expected.norm()


def stopped(world: World, folder: str) -> bool:
    """A run in which the last process alone is asked to stop."""
    stop = nullcontext(Mock(side_effect=[None, None, None, Stopped] if world.rank == 1 else None))
    try:
        train_run(exact(Path(folder), "stopped", updates=50), stop_request=stop, world=world)
    except Stopped:
        return True
    return False


def test_a_request_to_stop_reaches_all(folder: Path) -> None:
    assert run_processes(stopped, 2, str(folder)) == [True, True]
    assert RunDirectory(folder / "stopped").has("last")


# --- what does not work -----------------------------------------------------------------------------------------------


def different(world: World, folder: str) -> str:
    """The error of a run whose second process has another configuration."""
    try:
        train_run(exact(Path(folder), "refused", batch_tokens=100 - 50 * world.rank), world=world)
    except ConfigError as error:
        return str(error)
    return ""


def test_a_run_of_different_processes_does_not_begin(folder: Path) -> None:
    problem = f"training.batch_tokens: 100 in rank 0 on {HOST}, 50 in rank 1 on {HOST}\n"
    assert all(error.startswith(problem) for error in run_processes(different, 2, str(folder)))
    assert not (folder / "refused").exists()


def killed_in_validation(world: World, folder: str) -> None:
    """The second process is killed while it translates the validation set for the second time."""
    real, calls = Validator.translate, []

    def translate(*arguments: Any) -> list[str]:
        calls.append(1)
        if world.rank == 1 and len(calls) == 2:
            signal.raise_signal(signal.SIGKILL)
        return real(*arguments)

    with patch.object(Validator, "translate", translate):
        train_run(exact(Path(folder), "validated", updates=6), world=world)


def test_a_validation_that_a_process_does_not_finish_has_no_score(folder: Path) -> None:
    (first, _), (second, _) = try_processes(killed_in_validation, 2, str(folder))
    assert second == KILLED
    assert "ProcessError" in first
    state = json.loads((folder / "validated/checkpoints/last/training.json").read_text())
    assert state["validated"] == 2
    assert [line["step"] for line in metrics(folder / "validated") if line["split"] == "validation"] == [2]
