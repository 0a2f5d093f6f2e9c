"""Processes agree, pass things to each other, and say which of them is missing."""

import os
import platform
import socket
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from nmt.errors import ConfigError, DataError
from nmt.training.world import World, in_shares, in_turn, joined, on_writer, share_tensors
from tests.processes import free_port, run_processes, try_processes, until, variables
from tests.test_corpus import error_of

HOST = platform.node()


def hangs(world: World) -> bool:
    """The second process sleeps while the others wait for it."""
    on_writer(world, lambda: time.sleep(7))  # longer than the timeout: nobody gives up on who prepares the data
    if world.rank == 1:
        time.sleep(9)
    return world.any(False)


@pytest.mark.slow  # the timeout also limits how late a process starts
def test_nobody_waits_forever_for_a_process_that_hangs() -> None:
    problems = [problem for problem, _ in try_processes(hangs, 2, timeout=6.0, seconds=120.0)]
    assert "ProcessError" in problems[0] and "waited 6 seconds in vain" in problems[0]
    assert "ProcessError" in problems[1]


def fail_in(world: World, rank: int) -> Any:
    if world.rank == rank:
        raise DataError("no such file")


def errors(world: World) -> list[str]:
    """What is raised where the process that writes has a problem, and where the other one has."""
    return [
        error_of(on_writer, world, lambda: fail_in(world, 0)),
        error_of(in_turn, world, lambda: fail_in(world, 0)),
        error_of(in_shares, world, range(5), lambda share: [fail_in(world, 1) for _ in share]),
        error_of(in_turn, world, lambda: fail_in(world, 1)),
    ]


def test_an_error_of_one_process_is_raised_in_all_and_says_where_it_is() -> None:
    first, second = run_processes(errors, 2)
    other, writer = f"rank 1 on {HOST}: no such file", f"rank 0 on {HOST}: no such file"
    assert first == ["no such file", "no such file", "no such file", other]
    assert second == [writer, writer, "no such file", other]


def passed_on(world: World) -> list[Any]:
    order = in_shares(world, list("abcdefg"), lambda share: [letter.upper() for letter in share])
    tensors = {"a": torch.arange(6, dtype=torch.float64).view(2, 3), "b": torch.tensor([7, 8], dtype=torch.uint8)}
    shared = share_tensors(world, lambda: tensors if world.writes else {})
    turns: list[float] = []

    def turn() -> float:
        time.sleep(0.05 if world.writes else 0)
        turns.append(time.monotonic())
        return turns[0]

    first = in_turn(world, turn)
    assert len(turns) == 1
    return [order, {name: tensor.tolist() for name, tensor in shared.items()}, first, world.gather(world.rank)]


def test_what_one_process_has_reaches_all() -> None:
    found = run_processes(passed_on, 3)
    for order, shared, _, ranks in found:
        assert order == list("ABCDEFG")
        assert shared == {"a": [[0, 1, 2], [3, 4, 5]], "b": [7, 8]}
        assert ranks == [0, 1, 2]
    assert found[0][2] < min(found[1][2], found[2][2])


def started(rank: object, size: object, port: int) -> AbstractContextManager[Any]:
    """The environment of a process that torchrun has started."""
    return patch.dict(os.environ, variables(rank, size, port))


def test_a_port_in_use_is_an_error_with_its_name() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with started(0, 2, port), pytest.raises(ConfigError, match=str(port)), joined("cpu", 5.0):
            pass


@pytest.mark.parametrize(("rank", "asked"), [("0", "have the other ranks"), ("1", "has rank 0")])
def test_a_process_that_starts_alone_or_with_a_wrong_rank_says_so(rank: str, asked: str) -> None:
    problem = rf"; {asked} been started\?"
    with started(rank, "2", free_port()), pytest.raises(ConfigError, match=problem), joined("cpu", 1.0):
        pass


@pytest.mark.parametrize(("size", "port", "problem"), [("x", 1, "WORLD_SIZE: found 'x'"), (2, 99999, ":99999 cannot")])
def test_a_wrong_variable_of_the_launcher_is_named(size: object, port: int, problem: str) -> None:
    with started(0, size, port), pytest.raises(ConfigError, match=problem), joined("cpu", 1.0):
        pass


def test_no_thread_of_a_world_outlives_it() -> None:
    """One that still frees a tensor while the interpreter ends would abort the process."""
    with started(0, 1, free_port()), joined("cpu", 60.0) as world:
        assert world.gather(1, patiently=True) == [1]
        assert gloo_threads()
    until(lambda: not gloo_threads())  # one that was joined is listed for a moment


def gloo_threads() -> list[str]:
    names = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it ends
            names.append((task / "comm").read_text())
    return [name for name in names if "gloo" in name]
