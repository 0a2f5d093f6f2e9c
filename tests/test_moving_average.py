"""The weights that a run is judged and used by: their moving average, or the latest."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from nmt.errors import CheckpointError
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import load_run
from nmt.training.optimizer import LATEST, AveragedWeights, LatestWeights
from nmt.training.trainer import Trainer
from nmt.training.validation import ValidationResult
from nmt.translation.translator import CheckStop
from tests.small_run import config, metrics, train
from tests.torture.numbers import faulty

CPU = torch.device("cpu")


def one_number() -> tuple[nn.Linear, Callable[[float], None]]:
    """A model of one weight, and a function that sets it."""
    model = nn.Linear(1, 1, bias=False).double()
    return model, lambda value: nn.init.constant_(model.weight, value)  # type: ignore[return-value]


def averages(values: list[float], decay: float) -> list[float]:
    """The average after each step that leads to one of the values."""
    model, put = one_number()
    put(100.0)
    weights, found = AveragedWeights(model, decay), []
    for step, value in enumerate(values, 1):
        put(value)
        weights.follow(step)
        with weights.used():
            found.append(model.weight.item())
        assert model.weight.item() == value
    return found


def test_by_hand() -> None:
    """Weights 1, 1/2, 1/4 of the last, the one before, the one before that; the initial 100 has none."""
    assert averages([1.0, 2.0, 4.0], 0.5) == pytest.approx([1, (1 + 2 * 2) / 3, (1 + 2 * 2 + 4 * 4) / 7])


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20), st.floats(0.01, 0.9999))
def test_against_numpy(values: list[float], decay: float) -> None:
    wanted = []
    for count in range(1, len(values) + 1):
        shares = decay ** np.arange(count - 1, -1, -1)
        wanted.append(float(shares @ np.array(values[:count]) / shares.sum()))
    assert averages(values, decay) == pytest.approx(wanted, rel=1e-9, abs=1e-6)


def tied() -> nn.Module:
    """Two layers with one weight."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return model


def test_the_weights_in_training_come_back_bit_for_bit_into_the_same_memory() -> None:
    """Whatever happens in between; recorded CUDA graphs read that memory."""
    torch.manual_seed(1)
    model = tied()
    weights = AveragedWeights(model, 0.9)
    for step in (1, 2):
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        weights.follow(step)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    places = [parameter.data_ptr() for parameter in model.parameters()]
    with pytest.raises(KeyboardInterrupt), weights.used():
        assert not any(torch.equal(each, before[name]) for name, each in model.state_dict().items())
        raise KeyboardInterrupt
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert [parameter.data_ptr() for parameter in model.parameters()] == places
    assert weights.saved().keys() == {f"{LATEST}{name}" for name in ("0.weight", "0.bias", "1.bias")}


def test_before_the_first_step_the_initial_weights_are_used() -> None:
    model, put = one_number()
    put(3.0)
    with AveragedWeights(model, 0.9).used():
        assert model.weight.item() == 3


def test_an_average_goes_on_where_it_was_saved() -> None:
    """A checkpoint has the average as the weights of the model, and the latest weights beside it."""
    model, put = one_number()
    weights = AveragedWeights(model, 0.5)
    put(1.0)
    weights.follow(1)
    put(2.0)
    weights.follow(2)
    saved = weights.saved()
    with weights.used():
        average = model.weight.item()
    resumed, _ = one_number()
    again = AveragedWeights(resumed, 0.5)
    nn.init.constant_(resumed.weight, average)
    again.restore(saved, "here")
    assert resumed.weight.item() == 2
    with again.used():
        assert resumed.weight.item() == average
    for each, parameter in ((weights, model.weight), (again, resumed.weight)):
        nn.init.constant_(parameter, 4.0)
        each.follow(3)
        with each.used():
            assert parameter.item() == pytest.approx((1 + 2 * 2 + 4 * 4) / 7)


def test_tensors_that_do_not_fit_are_named() -> None:
    model = tied()
    weights = AveragedWeights(model, 0.9)
    saved = weights.saved()
    with pytest.raises(CheckpointError, match=r"^here: tensor latest\.0\.bias is missing$"):
        weights.restore({name: each for name, each in saved.items() if name != f"{LATEST}0.bias"}, "here")
    with pytest.raises(CheckpointError, match="belongs to no part of the run"):
        LatestWeights().restore(saved, "here")


# --- in training ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus and its cache; each test names a run of its own."""
    return tmp_path_factory.mktemp("training")


def histories(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Tensor]]:
    """The weights in training after each update that changed them, once a run has been made."""
    made: list[dict[str, Tensor]] = []
    update = Trainer.update

    def recording(self: Trainer, *arguments: Any) -> Any:
        skipped = self.progress.skipped
        result = update(self, *arguments)
        if self.progress.skipped == skipped:
            made.append({name: each.detach().clone() for name, each in self.model.named_parameters()})
        return result

    monkeypatch.setattr(Trainer, "update", recording)
    return made


def mean(history: list[dict[str, Tensor]], decay: float) -> dict[str, Tensor]:
    shares = torch.tensor([decay**age for age in reversed(range(len(history)))], dtype=torch.double)
    stacked = {name: torch.stack([each[name].double() for each in history], -1) for name in history[0]}
    return {name: each @ shares / shares.sum() for name, each in stacked.items()}


def assert_close(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name].double(), tensor.double(), rtol=1e-5, atol=1e-6, msg=name)


def test_the_average_is_validated_saved_and_used_and_training_goes_on_without_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[int, dict[str, Tensor]] = {}
    judge = Trainer._judge

    def recorded(self: Trainer, check_stop: CheckStop) -> None:
        seen[self.progress.update] = {name: each.detach().clone() for name, each in self.model.named_parameters()}
        judge(self, check_stop)

    how: dict[str, Any] = {"updates": 4, "log_every": 1, "validation": {"every": 2, "metric": "loss"}}
    with monkeypatch.context() as patch:
        history = histories(patch)
        patch.setattr(Trainer, "_judge", recorded)
        train(config(folder, output="averaged", ema={"decay": 0.5}, **how))
    run = RunDirectory(folder / "averaged")
    assert [*seen] == [2, 4]
    assert_close(seen[2], mean(history[:2], 0.5))
    assert_close(seen[4], mean(history, 0.5))
    best = run.update("best")
    assert_close(run.weights("best"), seen[best])
    assert_close(dict(load_run(run.path, CPU).model.named_parameters()), seen[best])
    assert all(torch.equal(tensor, seen[4][name]) for name, tensor in run.weights("last").items())
    latest = {name: tensor for name, tensor in run.training("last").tensors.items() if name.startswith(LATEST)}
    assert latest.keys() == {LATEST + name for name in history[-1]}
    assert all(torch.equal(latest[LATEST + name], tensor) for name, tensor in history[-1].items())
    train(config(folder, output="latest", **how))
    other = RunDirectory(folder / "latest")
    assert all(torch.equal(tensor, history[-1][name]) for name, tensor in other.weights("last").items())
    assert not any(name.startswith(LATEST) for name in other.training("last").tensors)
    losses = [[line["loss"] for line in metrics(each.path, "train")] for each in (run, other)]
    assert losses[0] == losses[1]
    validated = [[line["loss"] for line in metrics(each.path, "validation")] for each in (run, other)]
    assert validated[0] != validated[1]


def test_the_mean_of_checkpoints_is_one_of_averages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        history = histories(patch)
        results = iter([2.0, 1.0, 0.5])
        patch.setattr(
            "nmt.training.validation.Validator.__call__",
            lambda *_, **__: ValidationResult({"loss": next(results)}, 0.0),
        )
        how: dict[str, Any] = {"updates": 4, "average": 2, "validation": {"every": 2, "metric": "loss"}}
        train(config(folder, output="mean of averages", ema={"decay": 0.5}, **how))
    two, four = mean(history[:2], 0.5), mean(history, 0.5)
    run = RunDirectory(folder / "mean of averages")
    assert_close(run.weights("update-2"), two)
    assert_close(run.weights("best"), {name: (two[name] + four[name]) / 2 for name in two})


def test_a_skipped_update_is_no_step_of_the_average(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nan_at_two(number: int, batch: Any, gradients: list[Tensor], likelihood: Tensor) -> Tensor:
        return likelihood * (torch.nan if number == 2 else 1.0)

    history = histories(monkeypatch)
    with faulty(nan_at_two):
        train(config(folder, output="skipped", updates=3, ema={"decay": 0.5}, validation={"every": 3}))
    assert len(history) == 2
    assert_close(RunDirectory(folder / "skipped").weights("last"), mean(history, 0.5))
