"""Run a command, with the time of each line it prints and the memory it took."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from nmt.errors import DataError

STAMP = re.compile(r"^ *([\d.]+)\t(.*)$")


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    seconds: float
    peak_mb: float
    """The largest resident memory of the process, in MB of 10^6 bytes."""
    stopped: bool
    """Whether it was stopped at the time limit."""


def run(command: Sequence[str], folder: Path, log: Path, threads: int, limit: float) -> Finished:
    """Run a command in a folder, with that many threads. ``log`` records its output: for each line the seconds since
    the start, a tab, and the line.

    Raises:
        DataError: the command fails; the message has its last lines.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("PYTHONPATH", None)  # another environment must not see this toolkit's modules
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    expired = Timer(limit, _stop, [process.pid])
    expired.start()
    assert process.stdout is not None
    try:
        with process.stdout as lines, log.open("w", encoding="utf-8") as file:
            for line in lines:
                file.write(f"{time.perf_counter() - start:10.2f}\t{line.decode(errors='replace').rstrip()}\n")
                file.flush()
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        _stop(process.pid)
        raise
    finally:
        stopped = not expired.is_alive()
        expired.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and not stopped:
        end = "\n".join(log.read_text("utf-8").splitlines()[-15:])
        raise DataError(f"{' '.join(command)}: failed with status {process.returncode}:\n{end}")
    return Finished(time.perf_counter() - start, usage.ru_maxrss * 1024 / 1e6, stopped)


def _stop(group: int) -> None:
    """Kill a command and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def matches(log: Path, pattern: re.Pattern[str]) -> list[tuple[float, float]]:
    """The seconds and the number (the pattern's group 1) of each line of a log that has one."""
    found: list[tuple[float, float]] = []
    for line in log.read_text("utf-8").splitlines():
        stamped = STAMP.match(line)
        match = pattern.search(stamped[2]) if stamped else None
        if stamped and match:
            found.append((float(stamped[1]), float(match[1].replace(",", ""))))
    return found
