"""Run a command, and measure its time and memory."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from nmt.errors import DataError


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    seconds: float
    peak_mb: float
    """The largest resident memory of the process, in MB of 10^6 bytes."""
    stopped: bool
    """Whether it was stopped at the time limit."""


def run(command: Sequence[str], folder: Path, log: Path, threads: int, limit: float) -> Finished:
    """Run a command in a folder, with that many threads. ``log`` records its output.

    Raises:
        DataError: the command fails; the message has its last lines.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("PYTHONPATH", None)  # another environment must not see this toolkit's modules
    start = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    expired = Timer(limit, _stop, [process.pid])
    expired.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        _stop(process.pid)
        raise
    finally:
        stopped = not expired.is_alive()
        expired.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and not stopped:
        end = "\n".join(log.read_text("utf-8", "replace").splitlines()[-15:])
        raise DataError(f"{' '.join(command)}: failed with status {process.returncode}:\n{end}")
    return Finished(time.perf_counter() - start, usage.ru_maxrss * 1024 / 1e6, stopped)


def _stop(group: int) -> None:
    """Kill a command and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
