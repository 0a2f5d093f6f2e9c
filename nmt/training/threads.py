"""The number of threads beside other programs.

The threads of a product wait for each other at its end: one that has no core delays all of them.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from nmt.config import Config
from nmt.cores import CpuTime, cores, threads_beside

NOTABLE = 0.25
"""Cores; smaller loads, such as an editor's, are not reported."""
PERIOD = 60.0
"""Seconds over which the load of other programs is measured during training."""
LASTING = 3
"""Periods in a row that must ask for another number of threads before it changes."""


class Threads:
    """Leaves other programs the cores that they use, unless the user has chosen a number of threads."""

    def __init__(self, config: Config, device: torch.device, say: Callable[[str], None], *, alone: bool) -> None:
        self.most = torch.get_num_threads()
        self.say = say
        self.observed = alone and device.type == "cpu"
        self.chosen = config.threads is not None or "OMP_NUM_THREADS" in os.environ
        self._since = CpuTime.now()
        self._asked = 0
        """Periods in a row that asked for another number."""

    @contextmanager
    def adapted(self) -> Iterator[None]:
        """Choose by the load since this object was made, and report a notable one; take all threads at the end."""
        others = self._since.others_until_now() if self.observed else None
        self._since = CpuTime.now()
        if others is not None and not self._take(others) and others >= NOTABLE:
            self.say(f"other programs: they use {others:.1f} of {cores()} cores, which slows this run down")
        try:
            yield
        finally:
            torch.set_num_threads(self.most)

    def follow(self) -> None:
        """Choose again once the load has changed for good; to be called between two updates."""
        if not self.observed or self.chosen or CpuTime.now().wall - self._since.wall < PERIOD:
            return
        others = self._since.others_until_now()
        self._since = CpuTime.now()
        if others is None or threads_beside(others, self.most) == torch.get_num_threads():
            self._asked = 0
            return
        self._asked += 1
        if self._asked == LASTING:
            self._asked = 0
            self._take(others)

    def _take(self, others: float) -> bool:
        """Take as many threads as leave others their cores; return whether that is another number."""
        threads = self.most if self.chosen else threads_beside(others, self.most)
        if threads == torch.get_num_threads():
            return False
        torch.set_num_threads(threads)
        self.say(
            f"other programs: they use {others:.1f} of {cores()} cores; training takes {threads} of {self.most} "
            "threads from now on, which may change rounding (threads in the configuration fixes the number)"
        )
        return True
