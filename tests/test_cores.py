"""The cores that a process may use, and how threads share them with other programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.cores import SPINS, share_cores, time_limit
from tests.small_run import config, train


def limit(tmp_path: Path, membership: str, files: dict[str, str]) -> float | None:
    """What ``time_limit`` reads where these are the files of the control groups."""
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "ascii")
    (tmp_path / "membership").write_text(membership, "ascii")
    return time_limit(tmp_path / "cgroup", tmp_path / "membership")


def test_a_limit_of_the_own_group_is_read(tmp_path: Path) -> None:
    assert limit(tmp_path, "0::/job\n", {"job/cpu.max": "250000 100000\n"}) == 2.5


def test_the_tightest_limit_of_all_groups_around_the_process_counts(tmp_path: Path) -> None:
    files = {"a/cpu.max": "150000 100000\n", "a/b/cpu.max": "400000 100000\n", "a/b/c/cpu.max": "max 100000\n"}
    assert limit(tmp_path, "0::/a/b/c\n", files) == 1.5


def test_groups_of_version_1_are_read(tmp_path: Path) -> None:
    """The hierarchy of each controller has groups of its own."""
    files = {"cpu/job/cpu.cfs_quota_us": "50000\n", "cpu/job/cpu.cfs_period_us": "100000\n"}
    files |= {"cpu/small/cpu.cfs_quota_us": "10000\n", "cpu/small/cpu.cfs_period_us": "100000\n"}
    assert limit(tmp_path, "4:memory:/small\n3:cpu,cpuacct:/job\n", files) == 0.5


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        ("0::/job\n", {"job/cpu.max": "max 100000\n"}),
        ("3:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}),
        ("0::/../elsewhere\n", {}),
        ("", {}),
    ],
)
def test_no_limit(tmp_path: Path, membership: str, files: dict[str, str]) -> None:
    assert limit(tmp_path, membership, files) is None


def test_threads_sleep_soon_and_are_as_many_as_the_limit_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.cores.cores", lambda: 8)
    monkeypatch.setattr("nmt.cores.time_limit", lambda: 2.5)
    monkeypatch.setattr(os, "environ", {})
    share_cores()
    assert os.environ == {"GOMP_SPINCOUNT": str(SPINS), "OMP_NUM_THREADS": "3"}


@pytest.mark.parametrize(
    "chosen", [{"GOMP_SPINCOUNT": "7", "OMP_NUM_THREADS": "5"}, {"OMP_WAIT_POLICY": "active", "OMP_NUM_THREADS": "1"}]
)
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch, chosen: dict[str, str]) -> None:
    monkeypatch.setattr("nmt.cores.cores", lambda: 8)
    monkeypatch.setattr("nmt.cores.time_limit", lambda: 2.5)
    monkeypatch.setattr(os, "environ", dict(chosen))
    share_cores()
    assert os.environ == chosen


@pytest.mark.parametrize("limit", [None, 8.0, 16.0])
def test_without_a_limit_below_the_cores_the_number_of_threads_is_left_to_pytorch(
    limit: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.cores.cores", lambda: 8)
    monkeypatch.setattr("nmt.cores.time_limit", lambda: limit)
    monkeypatch.setattr(os, "environ", {})
    share_cores()
    assert "OMP_NUM_THREADS" not in os.environ


def test_a_command_says_how_threads_wait_before_pytorch_starts_them() -> None:
    script = (
        "import os, sys\n"
        "from nmt.cli import train\n"
        "assert 'torch' not in sys.modules\n"
        "train.main(['--help'])\n"
        "print('spins:', os.environ.get('GOMP_SPINCOUNT'))\n"
    )
    quiet = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    ended = subprocess.run([sys.executable, "-c", script], env=quiet, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == f"spins: {SPINS}"


def test_training_says_how_many_cores_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.training.reports.cores", lambda: 4)
    monkeypatch.setattr("nmt.training.reports.time_limit", lambda: 2.5)
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    [machine] = [line for line in train(config(tmp_path, updates=1)) if line.startswith("machine: ")]
    assert machine.startswith("machine: 3 threads on 4 cores (limited to the time of 2.5), fused kernels")
