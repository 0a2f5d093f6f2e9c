"""The cores that a process may use, and how its threads wait for each other."""

import os
from pathlib import Path

import pytest

from nmt.cores import SPINS, share_cores, time_limit


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
