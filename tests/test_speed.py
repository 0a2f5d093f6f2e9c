"""How long a function takes, by a clock that we hold."""

from collections.abc import Callable

import pytest
import torch

from nmt import device as speed
from nmt.device import brief_seconds, product_rate, seconds

CPU = torch.device("cpu")


def clock(monkeypatch: pytest.MonkeyPatch, *times: float) -> Callable[[], list[float]]:
    """Let calls take these seconds, one after the other; -> returns those that are left."""
    left = list(times)
    monkeypatch.setattr(speed, "timed", lambda task, device: left.pop(0))
    return lambda: left


def test_the_warm_up_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    left = clock(monkeypatch, 9.0, 9.0, 3.0, 1.0, 2.0)
    assert seconds(list, CPU, 3) == 2.0 and left() == []
    clock(monkeypatch, 0.01, 0.15, 0.15)
    assert brief_seconds(list, CPU) == 0.15


def test_a_brief_measurement_takes_the_shortest_time_of_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.08 + 0.05 + 0.06 seconds; another call as long as the last would end after 0.2."""
    left = clock(monkeypatch, 9.0, 0.08, 0.05, 0.06, 0.01)
    assert brief_seconds(list, CPU) == 0.05 and left() == [0.01]


def test_a_brief_measurement_ends_after_some_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    left = clock(monkeypatch, *[0.001] * 20)
    brief_seconds(list, CPU, most=4)
    assert len(left()) == 20 - 1 - 4


def test_the_rate_counts_multiplications_and_additions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "brief_seconds", lambda task, device: 2.0)
    before = torch.get_rng_state()
    assert product_rate(CPU, torch.float32, brief=True) == 2 * 1024**3 / 2.0
    assert torch.equal(torch.get_rng_state(), before)
