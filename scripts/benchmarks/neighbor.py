"""Measure training beside another program that keeps every core busy."""

import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from benchmarks.training import Case, reference_step
from nmt.config.schema import Kernels
from nmt.foundation.cores import cores
from nmt.foundation.device import keep_freed_memory, resolve_device
from nmt.foundation.speed import timed

STEPS = 3
"""Steps in a row that are timed with the neighbor paused, and then with it at work."""


@dataclass(frozen=True)
class NeighborRow:
    """The speed of a training step alone and beside a busy program."""

    variant: str
    kernels: Kernels
    precision: str
    shape: str
    target_tokens_per_second: float
    beside_tokens_per_second: float


class Neighbor:
    """Busy processes, one for each core, in sessions of their own: a scheduler that groups by session (Linux's
    autogroups) treats them as another user's program. They are paused at first."""

    def __init__(self) -> None:
        busy = [sys.executable, "-c", "while True: pass"]
        self._processes = [subprocess.Popen(busy, start_new_session=True) for _ in range(cores())]
        self.pause()

    def pause(self) -> None:
        """Stop the processes until :meth:`work`."""
        self._send(signal.SIGSTOP)

    def work(self) -> None:
        """Let the processes go on."""
        self._send(signal.SIGCONT)

    def end(self) -> None:
        """End the processes."""
        self._send(signal.SIGKILL)
        for process in self._processes:
            process.wait()

    def _send(self, number: int) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)


@contextmanager
def neighbor() -> Iterator[Neighbor]:
    """Return a busy program, paused; it ends with the block."""
    busy = Neighbor()
    try:
        yield busy
    finally:
        busy.end()


def measure_beside(case: Case) -> NeighborRow:
    """Measure the step of the reference shape on a CPU, in alternation with the neighbor paused and at work."""
    device = resolve_device(case.device)
    step = reference_step(case)
    keep_freed_memory()
    alone, beside = [], []
    with neighbor() as busy:
        for _ in range(case.repeats + 1):
            alone += [timed(step, device) for _ in range(STEPS)]
            busy.work()
            beside += [timed(step, device) for _ in range(STEPS)]
            busy.pause()
    sentences, source_length, target_length = case.shape
    tokens = sentences * target_length
    return NeighborRow(
        variant=case.variant,
        kernels=case.kernels,
        precision=case.precision,
        shape=f"{sentences} x {source_length} -> {target_length}",
        target_tokens_per_second=tokens / statistics.median(alone[STEPS:]),
        # a step takes very different times there: the mean, which is the time that a training needs
        beside_tokens_per_second=tokens / statistics.mean(beside[STEPS:]),
    )
