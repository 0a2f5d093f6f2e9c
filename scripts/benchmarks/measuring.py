"""Time, peak memory, the rate of products, and the hardware."""

import os
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import torch

from machine import cpu
from nmt.device import multiplies_bf16, timed
from nmt.fast.kernels.products import product

T = TypeVar("T")


@contextmanager
def peak_memory(device: torch.device, out: list[int | None]) -> Iterator[None]:
    """Append the peak memory in bytes beyond that in use before; on a CPU, resident memory on Linux, otherwise None."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_reserved(device)
        yield
        out.append(torch.cuda.max_memory_reserved(device) - before)  # with the memory of CUDA graphs
        return
    marks = Path("/proc/self/clear_refs")
    if not marks.exists():
        yield
        out.append(None)
        return
    marks.write_text("5")  # resets the peak to the present value
    before = _resident("VmRSS")
    yield
    out.append(_resident("VmHWM") - before)


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


def seconds(task: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Return the median time of ``repeats`` calls, after two calls as a warm-up."""
    return statistics.median([timed(task, device) for _ in range(repeats + 2)][2:])


def large_product_rate(device: torch.device, precision: torch.dtype) -> float:
    """Return the FLOP/s of training's products of matrices so large that nothing else takes time: the fastest of some
    calls. The global random generators are left alone."""
    size, generator = 8192 if device.type == "cuda" else 2048, torch.Generator(device).manual_seed(0)
    left, right = (torch.randn(size, size, device=device, dtype=precision, generator=generator) for _ in range(2))
    return 2 * size**3 / min(timed(lambda: product(left, right), device) for _ in range(11))


def alone(task: Callable[..., T], *arguments: object) -> T:
    """Execute a task in a new process, so that memory left by another task affects neither its time nor its peak."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(task, *arguments).result()


def hardware(device: torch.device) -> str:
    """The GPU; or the processor, the threads in use and what they can do."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    native = "bf16 products in hardware" if multiplies_bf16(device) else "no bf16 products in hardware"
    threads = f"{torch.get_num_threads()} threads on {os.cpu_count()} cores"
    return f"{cpu()}, {threads}, {native}, PyTorch {torch.__version__}"
