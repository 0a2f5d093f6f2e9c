"""How long a function takes, and how fast this machine multiplies matrices."""

import statistics
import time
from collections.abc import Callable

import torch

PATIENCE = 0.2
"""Seconds that a brief measurement may take; its first product, a warm-up, comes on top."""
MARGIN = 1.1
"""How many times as fast as another precision one must be to count as faster: a measurement of a fraction of a second
is off by some per cent, and between equals fp32 is the exact one."""


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(task: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of one call."""
    synchronize(device)
    started = time.perf_counter()
    task()
    synchronize(device)
    return time.perf_counter() - started


def seconds(task: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Return the median time of ``repeats`` calls, after two calls as a warm-up."""
    return statistics.median([timed(task, device) for _ in range(repeats + 2)][2:])


def brief_seconds(task: Callable[[], object], device: torch.device, most: int = 9) -> float:
    """Return the shortest time of up to ``most`` calls, as many as fit into ``PATIENCE``, after one as a warm-up."""
    timed(task, device)
    times = [timed(task, device)]
    while len(times) < most and sum(times) + times[-1] <= PATIENCE:
        times.append(timed(task, device))
    return min(times)


def product_rate(device: torch.device, precision: torch.dtype, *, brief: bool = False) -> float:
    """Return the FLOP/s of PyTorch's product of large square matrices.

    ``brief``: within about a quarter of a second, on smaller matrices and with a result that varies by a few per cent.
    The global random generators are left alone.
    """
    size = (4096 if brief else 8192) if device.type == "cuda" else (1024 if brief else 2048)
    generator = torch.Generator(device).manual_seed(0)
    left, right, out = (torch.randn(size, size, device=device, dtype=precision, generator=generator) for _ in range(3))

    def product() -> torch.Tensor:
        return torch.mm(left, right, out=out)

    return 2 * size**3 / (brief_seconds(product, device) if brief else seconds(product, device, 9))
