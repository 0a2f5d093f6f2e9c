"""Translate hostile and very large text."""

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.torture.training import start

pytestmark = pytest.mark.slow(seconds=5)
SECONDS, MEGABYTES = 120.0, 700.0
"""Core time and memory, PyTorch included, that large text may take."""


@pytest.mark.parametrize(
    ("content", "lines"), [(b"oak elm " * (10 << 17) + b"\n", 1), (b"\n" * 10**6, 10**6)], ids=["10 MB", "empty lines"]
)
def test_large_text(corpus: Path, tmp_path: Path, content: bytes, lines: int) -> None:
    """A line of 10 MB, and a million empty ones: as many lines come out, in bounded time and memory."""
    (tmp_path / "source").write_bytes(content)
    files = ("--input", "source", "--output", "out", "--alignments", "links")
    with (tmp_path / "err").open("w") as err:
        process = start(
            "nmt-translate", "--model", str(corpus / "undisturbed"), *files, stdout=err, stderr=err, cwd=tmp_path
        )
        peak = 0
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            # read while the process runs: at its end, the system reports a peak that includes the parent process
            with suppress(OSError, IndexError):
                status = Path(f"/proc/{process.pid}/status").read_text()
                peak = int(status.partition("VmHWM:")[2].split()[0])
            time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(ended[1])
    assert process.returncode == 0, (tmp_path / "err").read_text("utf-8")
    assert all((tmp_path / name).read_bytes().count(b"\n") == lines for name in ("out", "links"))
    assert ended[2].ru_utime + ended[2].ru_stime < SECONDS and peak / 1024 < MEGABYTES
