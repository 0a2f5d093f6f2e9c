"""The machine that a run trains on: its device, its precision, and the speed of its matrix products."""

import os
import time
from collections.abc import Callable

import torch

from nmt.config import Config, schema
from nmt.cores import CpuTime, cores, threads_beside
from nmt.data.dataset import PreparedData
from nmt.device import MARGIN, format_of, keep_freed_memory, name_of, product_rate, resolve_device, resolve_precision
from nmt.files import read_json
from nmt.messages import Caution
from nmt.model.cost import cost
from nmt.runs.directory import RunDirectory
from nmt.training.progress import lengths_of
from nmt.training.world import World, on_writer

FP32, BF16 = torch.float32, torch.bfloat16
Say = Callable[[str], None]


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
    """The number of threads, which leaves other programs the cores that they use.

    The threads of a product wait for each other at its end: one that has no core delays all of them. A number that the
    user has chosen stays, and so does that of several processes, and of a GPU.
    """

    def __init__(self, config: Config, device: torch.device, world: World, say: Say) -> None:
        self.most = torch.get_num_threads()
        self.say = say
        chosen = config.threads is not None or "OMP_NUM_THREADS" in os.environ
        self.fixed = chosen or world.size > 1 or device.type != "cpu"
        self._since = CpuTime.now()
        self._asked = 0
        """Periods in a row that asked for another number."""

    def __enter__(self) -> None:
        """Choose by the load since this object was made."""
        self._look(lasting=1)

    def __exit__(self, *_: object) -> None:
        """Take all threads again."""
        torch.set_num_threads(self.most)

    def follow(self) -> None:
        """Choose again once the load has changed for good; to be called between two updates."""
        if not self.fixed and time.perf_counter() - self._since.wall >= PERIOD:
            self._look(LASTING)

    def _look(self, lasting: int) -> None:
        """Take another number of threads if the load has asked for one at ``lasting`` looks in a row."""
        now, threads = CpuTime.now(), torch.get_num_threads()
        others, self._since = self._since.others_until(now), now
        wanted = threads if self.fixed or others is None else threads_beside(others, self.most)
        self._asked = 0 if wanted == threads else self._asked + 1
        if self._asked < lasting or wanted == threads:
            return
        self._asked = 0
        torch.set_num_threads(wanted)
        self.say(
            f"other programs: they use {others:.1f} of {cores()} cores; training takes {wanted} of {self.most} threads "
            "from now on, which may change rounding (threads in the configuration fixes the number)"
        )


def settled(config: Config, device: torch.device, world: World, say: Say, run: RunDirectory | None = None) -> Config:
    """Replace ``auto`` by bf16 or fp32, the same in all processes, and warn if bf16 was asked for where it is slower.

    A GPU that multiplies bf16 matrices uses it. A processor that does so uses it if its products of large matrices are
    clearly faster than in fp32, which takes half a second to measure. The network is not part of the measurement: where
    a small one gains little, two runs with the same seed might take different precisions. A ``run`` that goes on keeps
    the precision in which it began, where all processes have it: another measurement might end otherwise.

    Raises FileError for a run whose manifest cannot be read.
    """
    kept = None
    if run is not None and config.precision == "auto":
        kept = on_writer(world, lambda: _begun(run, device))
    chosen = resolve_precision(config.precision, device)
    rates = None
    if chosen == BF16 and device.type == "cpu" and kept is None:
        rates = [product_rate(device, precision, brief=True) / 1e9 for precision in (FP32, BF16)]
    everywhere = world.gather({"precision": format_of(chosen), "rates": rates})
    measured = [each["rates"] for each in everywhere if each["rates"]]
    if config.precision != "auto":
        if slower := [rates for rates in measured if rates[0] > MARGIN * rates[1]]:
            fp32, bf16 = slower[0]
            say(
                Caution(
                    f"warning: precision: bf16 is slower than fp32 on this processor: matrix products at {bf16:,.0f} "
                    f"GFLOP/s, in fp32 {fp32:,.0f}; fp32 or auto trains faster"
                )
            )
        return config
    no_faster = [rates for rates in measured if rates[1] <= MARGIN * rates[0]]
    name = "fp32" if no_faster or kept == "fp32" or any(each["precision"] == "fp32" for each in everywhere) else "bf16"
    if measured:
        fp32, bf16 = (no_faster or measured)[0]
        say(f"precision: {name}, by measurement: matrix products at {fp32:,.0f} GFLOP/s in fp32, {bf16:,.0f} in bf16")
    return config.model_copy(update={"precision": name})


def _begun(run: RunDirectory, device: torch.device) -> str | None:
    """The precision in which a run began; None where it began on another device, or does not say. Raises FileError."""
    manifest = read_json(run.manifest)
    if not isinstance(manifest, dict) or manifest.get("device") != name_of(device):
        return None
    precision = manifest.get("precision")
    return precision if precision in ("fp32", "bf16") else None


def speeds(config: Config, prepared: PreparedData, device: torch.device, world: World) -> tuple[float, float | None]:
    """The FLOP/s of the matrix products of all processes, and the time that they need for the work of a target token.

    Measured in all processes at once, as they train.
    """
    own = product_rate(device, resolve_precision(config.precision, device), brief=True)
    rate = float(world.sum(torch.tensor(own, dtype=torch.float64)))
    work = flops_per_token(config.model, prepared)
    return rate, None if work is None else work / rate


def flops_per_token(config: schema.Model, prepared: PreparedData) -> float | None:
    """Return the floating-point operations of training for one target token of a mean pair, as
    :mod:`nmt.model.cost` counts them; None for a model with a part that cannot run on the device ``meta``."""
    try:
        each = cost(config, prepared.tokenizers.target.size)
    except RuntimeError:
        return None
    source, target, _ = lengths_of(prepared)
    return each.training_flops(source + 1, target + 1) / int((target + 1).sum())
