"""The machine that a run trains on: its device, its threads and its precision."""

import time
from typing import Any, Self

import torch

from nmt.cores import CpuTime, cores, threads_beside
from nmt.device import MARGIN, format_of, keep_freed_memory, name_of, product_rate, resolve_device, resolve_precision
from nmt.messages import Say
from nmt.training.world import World

FP32, BF16 = torch.float32, torch.bfloat16


def set_up(name: str, threads: int | None) -> torch.device:
    """Set up the process for training, and return its device."""
    device = resolve_device(name)
    if device.type == "cpu":
        keep_freed_memory()
    if threads is not None:
        torch.set_num_threads(threads)
    return device


PERIOD = 60.0
"""Seconds over which the load of other programs is measured during training."""
LASTING = 3
"""Periods in a row that must ask for another number of threads before it changes."""


class Threads:
    """The number of threads of a training run, which leaves other programs the cores that they use.

    The threads of a product wait for each other at its end: one that has no core delays all of them.
    """

    def __init__(self, since: CpuTime, say: Say) -> None:
        self.most = torch.get_num_threads()
        self.say = say
        self._since = since
        self._asked = 0
        """Periods in a row that asked for another number."""

    def __enter__(self) -> Self:
        """Choose by the load since ``since``."""
        self._look(lasting=1)
        return self

    def __exit__(self, *_: object) -> None:
        """Take all threads again."""
        torch.set_num_threads(self.most)

    def follow(self) -> None:
        """Choose again once the load has changed for good; to be called between two updates."""
        if time.perf_counter() - self._since.wall >= PERIOD:
            self._look(LASTING)

    def _look(self, lasting: int) -> None:
        """Take another number of threads if the load has asked for one at ``lasting`` looks in a row."""
        now, threads = CpuTime.now(), torch.get_num_threads()
        others, self._since = self._since.others_until(now), now
        wanted = threads if others is None else threads_beside(others, self.most)
        self._asked = 0 if wanted == threads else self._asked + 1
        if wanted == threads or self._asked < lasting:
            return
        self._asked = 0
        torch.set_num_threads(wanted)
        self.say(
            f"other programs: they use {others:.1f} of {cores()} cores; training takes {wanted} of {self.most} threads "
            "from now on, which may change rounding (threads in the configuration fixes the number)"
        )


def settled_precision(name: str, device: torch.device, world: World, say: Say, manifest: Any = None) -> str:
    """Replace ``auto`` by bf16 or fp32, the same in all processes.

    A GPU that multiplies bf16 matrices uses it. A processor that does so uses it if its products of large matrices are
    clearly faster than in fp32, which takes half a second to measure. A run that goes on keeps the precision that its
    ``manifest`` has for this device: another measurement might end otherwise.
    """
    if name != "auto":
        return name
    chosen = format_of(resolve_precision(name, device))
    known = isinstance(manifest, dict) and manifest.get("device") == name_of(device)
    if known and manifest.get("precision") in ("fp32", "bf16"):
        chosen = manifest["precision"]
    elif chosen == "bf16" and device.type == "cpu":
        fp32, bf16 = (product_rate(device, precision) / 1e9 for precision in (FP32, BF16))
        chosen = "bf16" if bf16 > MARGIN * fp32 else "fp32"
        say(f"precision: {chosen}, by measurement: matrix products at {fp32:,.0f} GFLOP/s in fp32, {bf16:,.0f} in bf16")
    return "fp32" if "fp32" in world.gather(chosen) else "bf16"
