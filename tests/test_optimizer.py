"""Schedules by hand; each optimizer's first steps by its formula."""

import math

import pytest
import torch
from torch import nn

from nmt.config.schema import (
    Adadelta,
    Adam,
    AdamW,
    AnyOptimizer,
    ConstantSchedule,
    InverseSquareRootSchedule,
    PlateauSchedule,
    Sgd,
)
from nmt.errors import CheckpointError
from nmt.training.optimizer import build_optimizer, learning_rate, load_moments, saved_moments

# --- schedules --------------------------------------------------------------------------------------------------------


def test_constant() -> None:
    schedule = ConstantSchedule()
    assert [learning_rate(schedule, 0.3, update) for update in (1, 2, 1000)] == [0.3, 0.3, 0.3]


def test_warm_up_grows_linearly_from_the_first_update_and_ends_at_the_rate() -> None:
    schedule = ConstantSchedule(warmup=4)
    rates = [learning_rate(schedule, 2.0, update) for update in range(1, 7)]
    assert rates == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]


def test_inverse_square_root_peaks_at_the_end_of_warm_up() -> None:
    schedule = InverseSquareRootSchedule(type="inverse_square_root", warmup=4)
    rates = [learning_rate(schedule, 2.0, update) for update in (1, 2, 3, 4, 16, 64)]
    assert rates == pytest.approx([0.5, 1.0, 1.5, 2.0, 1.0, 0.5])


def test_plateau_is_the_rate_times_what_it_has_come_down_to() -> None:
    schedule = PlateauSchedule(type="plateau", warmup=2)
    assert learning_rate(schedule, 2.0, 1, scale=0.25) == 0.25
    assert learning_rate(schedule, 2.0, 2, scale=0.25) == 0.5
    assert learning_rate(schedule, 2.0, 100, scale=0.25) == 0.5
    assert learning_rate(ConstantSchedule(), 2.0, 100, scale=0.25) == 2.0, "of a run that began with plateau"


# --- optimizers -------------------------------------------------------------------------------------------------------


def two_steps(config: AnyOptimizer) -> list[float]:
    """A weight that starts at 1, after each of two steps with gradient 2."""
    weight = nn.Parameter(torch.ones(1))
    optimizer = build_optimizer([weight], config)
    path = []
    for _ in range(2):
        weight.grad = torch.full((1,), 2.0)
        optimizer.step()
        path.append(weight.item())
    return path


def test_adam_moves_by_the_rate_whatever_the_gradient() -> None:
    config = Adam(learning_rate=0.1, betas=(0.9, 0.98), epsilon=1e-8)  # with a constant gradient m / sqrt(v) is 1
    assert two_steps(config) == pytest.approx([0.9, 0.8])


def test_adam_reads_its_constants() -> None:
    # epsilon as large as the gradient halves the step; betas enter when the gradient changes
    assert two_steps(Adam(learning_rate=0.1, epsilon=2.0))[0] == pytest.approx(0.95)
    weight = nn.Parameter(torch.zeros(1))
    optimizer = build_optimizer([weight], Adam(learning_rate=1.0, betas=(0.5, 0.75), epsilon=1e-12))
    for gradient in (1.0, 0.0):
        weight.grad = torch.full((1,), gradient)
        optimizer.step()
    # second step: m = 0.5 * 0.5 / (1 - 0.25), v = 0.25 * 0.75 / (1 - 0.5625)
    assert weight.item() == pytest.approx(-1 - (0.25 / 0.75) / math.sqrt(0.1875 / 0.4375))


def test_adamw_decays_the_weight_itself() -> None:
    config = AdamW(type="adamw", learning_rate=0.1, weight_decay=0.5)
    assert two_steps(config)[0] == pytest.approx(1 - 0.1 * 0.5 - 0.1)


def test_adadelta_by_its_formula() -> None:
    config = Adadelta(type="adadelta", learning_rate=1.0, rho=0.95, epsilon=1e-6)
    weight, squares, deltas, expected = 1.0, 0.0, 0.0, []
    for _ in range(2):  # Zeiler 2012, algorithm 1
        squares = 0.95 * squares + 0.05 * 4
        delta = -math.sqrt(deltas + 1e-6) / math.sqrt(squares + 1e-6) * 2
        deltas = 0.95 * deltas + 0.05 * delta**2
        weight += delta
        expected.append(weight)
    assert two_steps(config) == pytest.approx(expected)


def test_sgd_with_and_without_momentum() -> None:
    assert two_steps(Sgd(type="sgd", learning_rate=0.1)) == pytest.approx([0.8, 0.6])
    # velocity 2, then 0.5 * 2 + 2
    assert two_steps(Sgd(type="sgd", learning_rate=0.1, momentum=0.5)) == pytest.approx([0.8, 0.5])


# --- saved state ------------------------------------------------------------------------------------------------------


def stepped_once(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> dict[str, torch.Tensor]:
    """The moments of an optimizer after a step on its only parameter."""
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return saved_moments(optimizer)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("0.exp_avg", torch.tensor(0.0)),  # too small for a fused kernel
        ("0.exp_avg_sq", None),
        ("0.step", torch.zeros(2, 3)),
        ("0.max_exp_avg_sq", torch.zeros(2, 3)),
        ("-1.exp_avg", torch.zeros(2, 3)),
        ("1.exp_avg", torch.zeros(2, 3)),
    ],
)
def test_moments_that_do_not_fit_the_optimizer_are_refused(name: str, tensor: torch.Tensor | None) -> None:
    parameter, key = nn.Parameter(torch.ones(2, 3)), f"optimizer.{name}"
    optimizer = build_optimizer([parameter], Adam())
    moments = stepped_once(optimizer, parameter)
    load_moments(optimizer, Adam(), moments, "FILE", stepped=True)
    changed = (
        {**moments, key: tensor} if tensor is not None else {each: moments[each] for each in moments if each != key}
    )
    with pytest.raises(CheckpointError, match=f"^FILE: tensor {key} "):
        load_moments(optimizer, Adam(), changed, "FILE", stepped=True)
    with pytest.raises(CheckpointError, match=r"tensor optimizer\.0\.step is missing"):
        load_moments(optimizer, Adam(), {}, "FILE", stepped=True)
    load_moments(optimizer, Adam(), {}, "FILE", stepped=False)


def test_the_state_that_an_optimizer_has_before_its_first_step_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.training.optimizer.build_optimizer", lambda parameters, _: torch.optim.Adagrad(parameters))
    parameter = nn.Parameter(torch.ones(3))
    restored = torch.optim.Adagrad([nn.Parameter(torch.ones(3))])
    optimizer = torch.optim.Adagrad([parameter])
    load_moments(restored, Adam(), saved_moments(optimizer), "FILE", stepped=False)
    load_moments(restored, Adam(), stepped_once(optimizer, parameter), "FILE", stepped=True)
    assert torch.equal(restored.state_dict()["state"][0]["sum"], torch.ones(3))
