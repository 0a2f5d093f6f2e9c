"""Schedules by hand; each optimizer's first steps by its formula."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from nmt.config import schema
from nmt.training.optimizer import build_optimizer, load_moments, saved_moments


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (schema.ConstantSchedule(), {1: 2.0, 1000: 2.0}),
        (schema.ConstantSchedule(warmup=4), {1: 0.5, 2: 1.0, 4: 2.0, 5: 2.0}),
        (schema.InverseSquareRootSchedule(type="inverse_square_root", warmup=4), {1: 0.5, 2: 1.0, 3: 1.5, 4: 2.0}),
        (schema.InverseSquareRootSchedule(type="inverse_square_root", warmup=4), {16: 1.0, 64: 0.5}),
        (schema.LinearSchedule(type="linear", warmup=4), {3: 1.5, 4: 2.0, 502: 2 * 499 / 997, 1000: 2 / 997}),
        (schema.PlateauSchedule(type="plateau", warmup=2), {1: 0.25, 2: 0.5, 100: 0.5}),
    ],
)
def test_rates_by_hand(schedule: schema.AnySchedule, rates: dict[int, float]) -> None:
    """The scale to which a plateau has brought the rate down counts with that schedule alone."""
    assert {update: 2.0 * schedule.share(update, 1000, scale=0.25) for update in rates} == pytest.approx(rates)


def two_steps(config: schema.AnyOptimizer) -> list[float]:
    """A weight that starts at 1, after each of two steps with gradient 2."""
    weight = nn.Parameter(torch.ones(1))
    optimizer = build_optimizer([weight], config)
    path = []
    for _ in range(2):
        weight.grad = torch.full((1,), 2.0)
        optimizer.step()
        path.append(weight.item())
    return path


@pytest.mark.parametrize(
    ("config", "path"),
    [
        # of a constant gradient m / sqrt(v) is 1
        (schema.AdamW(type="adamw", learning_rate=0.1, weight_decay=0.5), [0.85, 0.85 * 0.95 - 0.1]),
        (schema.Sgd(type="sgd", learning_rate=0.1), [0.8, 0.6]),
        (schema.Sgd(type="sgd", learning_rate=0.1, momentum=0.5), [0.8, 0.5]),  # velocity 2, then 0.5 * 2 + 2
        # Zeiler 2012: squares 1, 1.75; steps sqrt(1 / 2), sqrt(1.5 / 2.75)
        (schema.Adadelta(type="adadelta", learning_rate=0.5, rho=0.75, epsilon=1.0), [0.29289322, -0.44565573]),
    ],
)
def test_two_steps_by_hand(config: schema.AnyOptimizer, path: list[float]) -> None:
    assert two_steps(config) == pytest.approx(path)


@pytest.mark.parametrize("adam", [schema.Adam, partial(schema.AdamW, type="adamw", weight_decay=0.0)])
def test_adam_reads_its_constants(adam: Callable[..., schema.AnyOptimizer]) -> None:
    # epsilon as large as the gradient halves the step; betas enter when the gradient changes
    assert two_steps(adam(learning_rate=0.1, epsilon=2.0))[0] == pytest.approx(0.95)
    weight = nn.Parameter(torch.zeros(1))
    optimizer = build_optimizer([weight], adam(learning_rate=1.0, betas=(0.5, 0.75), epsilon=1e-12))
    for gradient in (1.0, 0.0):
        weight.grad = torch.full((1,), gradient)
        optimizer.step()
    # second step: m = 0.5 * 0.5 / (1 - 0.25), v = 0.25 * 0.75 / (1 - 0.5625)
    assert weight.item() == pytest.approx(-1 - (0.25 / 0.75) / math.sqrt(0.1875 / 0.4375))


def test_the_state_that_an_optimizer_has_before_and_after_its_first_step_is_restored() -> None:
    parameter = nn.Parameter(torch.ones(3))
    restored = torch.optim.Adagrad([nn.Parameter(torch.ones(3))])
    optimizer = torch.optim.Adagrad([parameter])
    load_moments(restored, saved_moments(optimizer))
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    load_moments(restored, saved_moments(optimizer))
    assert torch.equal(restored.state_dict()["state"][0]["sum"], torch.ones(3))
