"""``make figure`` on a tiny corpus: from configurations to the figure, cut short on the way."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nmt.config import dump_config
from tests.small_run import config

ROOT = Path(__file__).parent.parent


def start(folder: Path, *more: str) -> "subprocess.Popen[str]":
    """``make figure`` with this Python's commands, in a process group of its own."""
    variables = {
        "VENV": sys.prefix,
        "READY": "",  # nothing is to be set up
        "CONFIGS": f"{folder}/none.yaml {folder}/bahdanau.yaml",
        "SOURCE": f"{folder}/test.low",
        "REFERENCE": f"{folder}/test.up",
        "FIGURE": f"{folder}/figure",
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.Popen(
        ["make", "figure", *(f"{name}={value}" for name, value in variables.items()), *more],
        cwd=ROOT,
        env=inherited,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: "subprocess.Popen[str]") -> str:
    out, _ = process.communicate()
    assert process.returncode == 0, out
    return out


def test_the_whole_chain_killed_and_started_again(tmp_path: Path) -> None:
    for attention in ("none", "bahdanau"):
        settings = config(tmp_path, attention, updates=6).model_copy(update={"threads": 1})
        (tmp_path / f"{attention}.yaml").write_text(dump_config(settings), "utf-8")
    process = start(tmp_path)
    saved = tmp_path / "figure" / "none" / "seed-1" / "checkpoints" / "last"
    deadline = time.monotonic() + 120
    while not saved.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert saved.exists() and not (tmp_path / "figure" / "test.csv").exists()

    finish(start(tmp_path))
    with (tmp_path / "figure" / "test.csv").open(encoding="utf-8", newline="") as file:
        assert {row["system"] for row in csv.DictReader(file)} == {"none", "bahdanau"}
    assert (tmp_path / "figure" / "test.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "figure" / "test.why.attention.png").read_bytes().startswith(b"\x89PNG")
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "figure").rglob("*") if path.is_file()}
    finish(start(tmp_path))
    assert files == {path: path.stat().st_mtime_ns for path in (tmp_path / "figure").rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["REFERENCE="], "make figure CONFIGS=... needs REFERENCE=...; for example"),
        (["CONFIGS=a/x.yaml b/x.yaml"], "two of CONFIGS have the same name: x x"),
    ],
)
def test_what_is_missing_is_named(options: list[str], message: str, tmp_path: Path) -> None:
    process = start(tmp_path, *options)
    out, _ = process.communicate()
    assert process.returncode == 2 and message in out
