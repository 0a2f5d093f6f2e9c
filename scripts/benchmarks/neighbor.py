"""Measure training beside another program that keeps every core busy."""

import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

import torch
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from benchmarks.training import Case, reference_step
from nmt.config.schema import Kernels
from nmt.cores import cores
from nmt.device import keep_freed_memory, resolve_device, timed
from nmt.training.processes import joined
from nmt.training.world import ONE_PROCESS, World

STEPS = 3
"""Steps in a row that are timed with the neighbor paused, and then with it at work."""

Times = tuple[list[float], list[float]]
"""Seconds of steps alone, and beside the neighbor."""


@dataclass(frozen=True)
class NeighborRow:
    """The speed of a training step alone and beside a busy program."""

    variant: str
    kernels: Kernels
    precision: str
    processes: int
    shape: str
    target_tokens_per_second: float
    beside_tokens_per_second: float


BUSY = """
import os, sys
for _ in range(int(sys.argv[1]) - 1):
    if os.fork() == 0:
        break
while True:
    pass
"""
"""A program of as many busy processes as its argument says."""


class Neighbor:
    """A busy program with a process for each core, all in one session of their own: a scheduler that groups by session
    (Linux's autogroups) gives the program as much time as this one. It is paused at first."""

    def __init__(self) -> None:
        self._program = subprocess.Popen([sys.executable, "-c", BUSY, str(cores())], start_new_session=True)
        self.pause()

    @property
    def group(self) -> int:
        """The process group of the program."""
        return self._program.pid

    def pause(self) -> None:
        """Stop the program until :meth:`work`."""
        self._send(signal.SIGSTOP)

    def work(self) -> None:
        """Let the program go on."""
        self._send(signal.SIGCONT)

    def end(self) -> None:
        """End the program."""
        self._send(signal.SIGKILL)
        self._program.wait()

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.group, number)


@contextmanager
def neighbor() -> Iterator[Neighbor]:
    """Return a busy program, paused; it ends with the block."""
    busy = Neighbor()
    try:
        yield busy
    finally:
        busy.end()


def measure_beside(case: Case, ranks: int | None) -> NeighborRow:
    """Measure the step of the reference shape on a CPU, in alternation with the neighbor paused and at work.

    Args:
        case: The step.
        ranks: Processes of one thread that share the sentences; None: one process with a thread for each core.
    """
    if ranks is None:
        alone, beside = _alternate(case, ONE_PROCESS)
    else:
        config = LaunchConfig(1, 1, ranks, run_id="beside", rdzv_backend="c10d", rdzv_endpoint="localhost:0")
        alone, beside = elastic_launch(config, _of_a_rank)(case)[0]
    sentences, source_length, target_length = case.shape
    tokens = sentences * target_length
    return NeighborRow(
        variant=case.variant,
        kernels=case.kernels,
        precision=case.precision,
        processes=ranks or 1,
        shape=f"{sentences} x {source_length} -> {target_length}",
        target_tokens_per_second=tokens / statistics.median(alone[STEPS:]),
        # a step takes very different times there: the mean, which is the time that a training needs
        beside_tokens_per_second=tokens / statistics.mean(beside[STEPS:]),
    )


def _of_a_rank(case: Case) -> Times:
    """Measure in one of the processes that torchrun's engine has started."""
    torch.set_num_threads(1)
    with joined(case.device, seconds=600) as world:
        return _alternate(case, world)


def _alternate(case: Case, world: World) -> Times:
    """Time steps with the neighbor paused and at work. All processes end a step together: any one's times are those of
    all."""
    device = resolve_device(case.device)
    step = reference_step(case, world=world)
    keep_freed_memory()
    alone, beside = list[float](), list[float]()
    with neighbor() if world.writes else nullcontext() as busy:
        for _ in range(case.repeats + 1):
            for times in (alone, beside):
                if busy:
                    (busy.pause if times is alone else busy.work)()
                times += [timed(step, device) for _ in range(STEPS)]
    return alone, beside
