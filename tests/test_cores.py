"""The cores that a process may use, and how threads share them with other programs."""

import os
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from nmt.cores import SPINS, CpuTime, share_cores, threads_beside, time_limit
from nmt.training.machine import Threads
from tests.small_run import config, train


@pytest.mark.parametrize(
    ("membership", "files", "limit"),
    [
        ("0::/job\n", {"job": "250000 100000"}, 2.5),
        ("0::/a/b/c\n", {"a": "150000 100000", "a/b": "400000 100000", "a/b/c": "max 100000"}, 1.5),
        ("0::/job\n", {"job": "max 100000"}, None),
        ("0::/../elsewhere\n", {}, None),
        ("", {}, None),
    ],
)
def test_the_tightest_limit_of_the_groups_around_the_process_counts(
    membership: str, files: dict[str, str], limit: float | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        group = tmp_path / "cgroup" / name
        group.mkdir(parents=True, exist_ok=True)
        (group / "cpu.max").write_text(f"{text}\n", "ascii")
    (tmp_path / "membership").write_text(membership, "ascii")
    assert time_limit(tmp_path / "cgroup", tmp_path / "membership") == limit


@pytest.mark.parametrize(
    ("chosen", "limit", "expected"),
    [
        ({}, 2.5, {"GOMP_SPINCOUNT": str(SPINS), "OMP_NUM_THREADS": "3"}),
        ({}, None, {"GOMP_SPINCOUNT": str(SPINS)}),
        ({}, 8.0, {"GOMP_SPINCOUNT": str(SPINS)}),
        ({"GOMP_SPINCOUNT": "7", "OMP_NUM_THREADS": "5"}, 2.5, {"GOMP_SPINCOUNT": "7", "OMP_NUM_THREADS": "5"}),
        ({"OMP_WAIT_POLICY": "active"}, None, {"OMP_WAIT_POLICY": "active"}),
    ],
)
def test_threads_sleep_soon_and_are_as_many_as_a_limit_allows_unless_the_user_chose(
    chosen: dict[str, str], limit: float | None, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.cores.cores", lambda: 8)
    monkeypatch.setattr("nmt.cores.time_limit", lambda: limit)
    monkeypatch.setattr(os, "environ", dict(chosen))
    share_cores()
    assert os.environ == expected


def test_the_time_of_other_programs_is_that_of_the_machine_without_the_own() -> None:
    before = CpuTime(wall=10.0, machine=100.0, own=3.0)
    assert before.others_until(CpuTime(wall=14.0, machine=107.0, own=4.0)) == 1.5
    assert before.others_until(CpuTime(10.1, 101.0, 3.0)) is None, "too short"
    assert before.others_until(CpuTime(20.0, float("nan"), 4.0)) is None


def test_a_core_that_is_idle_waits_for_a_disk_or_is_lent_is_not_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy are user, nice, system, irq and softirq; idle, iowait and steal are not, and guests are part of user."""
    monkeypatch.setattr("nmt.cores._text", lambda path: "cpu  100 20 30 4000 500 6 7 8 9 10\ncpu0 1 1\n")
    monkeypatch.setattr("os.sysconf", lambda name: 100)
    monkeypatch.setattr("os.times", lambda: os.times_result((1.0, 0.5, 0.25, 0.125, 99.0)))
    now = CpuTime.now()
    assert (now.machine, now.own) == (1.63, 1.875)


def test_training_leaves_other_programs_their_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.cores.cores", lambda: 2)
    assert [threads_beside(others, 2) for others in (0.49, 0.5, 9.0)] == [2, 1, 1]
    monkeypatch.setattr("nmt.cores.cores", lambda: 4)
    assert (threads_beside(1.5, 4), threads_beside(1.0, 2)) == (2, 2)


@pytest.mark.parametrize(
    ("load", "chosen", "expected"),
    [(1.0, None, 1), (None, None, 2), (1.9, "threads", 2), (1.9, "OMP", 2)],
)
def test_training_beside_other_programs_takes_fewer_threads_unless_the_user_chose(
    load: float | None, chosen: str | None, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = [2]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if chosen == "OMP":
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr("nmt.cores.cores", lambda: 2)
    monkeypatch.setattr(CpuTime, "others_until", lambda *_: load)
    monkeypatch.setattr(torch, "get_num_threads", lambda: count[-1])
    monkeypatch.setattr(torch, "set_num_threads", count.append)
    threads = 2 if chosen == "threads" else None
    said = train(config(tmp_path, updates=1).model_copy(update={"threads": threads}))
    assert [line for line in said if line.startswith(f"machine: {expected} thread")]
    assert len([line for line in said if "rounding" in line]) == (expected == 1)
    assert count[-1] == 2, "as before"


@pytest.mark.parametrize(
    ("loads", "numbers"),
    [
        ([0.4, 0.6, 0.6, 0.6, 0.0], [2, 2, 2, 1, 1]),
        ([0.6, 0.0, 0.0, 0.6, 0.0], [1, 1, 1, 1, 1]),
        ([1.6, 0.0, 0.0, 0.0], [1, 1, 1, 2]),
        ([None, 1.0, None, 1.0, 1.0], [2, 2, 2, 2, 2]),
    ],
)
def test_the_number_of_threads_follows_a_load_that_stays(
    loads: list[float | None], numbers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    count, said = [2], list[str]()
    monkeypatch.setattr("nmt.cores.cores", lambda: 2)
    monkeypatch.setattr("nmt.training.machine.PERIOD", 0.0)
    monkeypatch.setattr(CpuTime, "others_until", Mock(side_effect=loads))
    monkeypatch.setattr(torch, "get_num_threads", lambda: count[-1])
    monkeypatch.setattr(torch, "set_num_threads", count.append)
    threads, found = Threads(CpuTime.now(), said.append), []
    for look in [threads.__enter__] + [threads.follow] * (len(loads) - 1):
        look()
        found.append(count[-1])
    assert found == numbers
    assert len(said) == sum(a != b for a, b in pairwise([2, *numbers]))
