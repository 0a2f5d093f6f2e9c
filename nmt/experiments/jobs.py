"""Processes that train side by side, their output line by line."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock, Thread

Say = Callable[[str], None]
POLL_SECONDS = 0.05
LAST_WORDS_SECONDS = 5.0
"""To wait for the output of a process that has ended."""
CHILD = (
    "import ctypes, os, signal, sys; parent, module = int(sys.argv[1]), sys.argv[2]; del sys.argv[1:3]; "
    "getattr(ctypes.CDLL(None), 'prctl', print)(1, signal.SIGKILL); "  # PR_SET_PDEATHSIG, on Linux
    "parent == os.getppid() or sys.exit(1); "
    "from importlib import import_module; sys.exit(import_module(module).main())"
)
"""A process that ends with its parent, however that ends: another call must not find an orphan training the run."""


@dataclass(frozen=True)
class Job:
    """A command to be run by its module."""

    label: str
    """Before each of its lines."""
    module: str
    """Has ``main``."""
    arguments: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Labels of jobs that must have ended well before."""


def run_jobs(jobs: Sequence[Job], count: int, say: Say, stop_signal: Callable[[], int | None]) -> Mapping[str, int]:
    """Run up to ``count`` jobs at a time, and pass on what they print; return the exit code of each that was started.

    A job that needs one that failed, or that was not started for such a reason, is not started.

    ``stop_signal`` gives the number of a signal when a stop was requested. The signal is sent to all jobs, no other is
    started, and the function waits for all of them.
    """
    waiting, codes = list(jobs), dict[str, int]()
    running: dict[str, tuple[subprocess.Popen[str], Thread]] = {}
    lock, sent, failed = Lock(), False, set[str]()
    try:
        while waiting or running:
            number = stop_signal()
            if number is not None and not sent:
                sent = True
                waiting.clear()
                for process, _ in running.values():
                    process.send_signal(number)
            ahead = {job.label for job in waiting} | running.keys()
            for job in [job for job in waiting if ahead.isdisjoint(job.needs)]:
                if unmet := failed.intersection(job.needs):
                    say(f"{job.label}: not started, because {', '.join(sorted(unmet))} failed")
                    failed.add(job.label)
                    waiting.remove(job)
                elif len(running) < count:
                    running[job.label] = _start(job, say, lock)
                    waiting.remove(job)
            for label, (process, reader) in list(running.items()):
                if process.poll() is not None:
                    reader.join(LAST_WORDS_SECONDS)  # a child of a killed process may keep the pipe open
                    codes[label] = process.returncode
                    failed |= {label} if process.returncode else set()
                    del running[label]
            time.sleep(POLL_SECONDS)
    finally:
        for process, _ in running.values():
            process.kill()
    return codes


def _start(job: Job, say: Say, lock: Lock) -> tuple["subprocess.Popen[str]", Thread]:
    process = subprocess.Popen(
        # -P: a file of the working directory must not take the place of a module
        [sys.executable, "-P", "-c", CHILD, str(os.getpid()), job.module, *job.arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on once
    )

    def relay() -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                with lock:
                    say(f"{job.label}: {line.rstrip().removeprefix(f'{job.label}: ')}")

    reader = Thread(target=relay, daemon=True)
    reader.start()
    return process, reader
