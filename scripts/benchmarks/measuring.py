"""Time, the rate of products, and the hardware."""

import os
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

import torch

from machine import cpu
from nmt.device import multiplies_bf16, timed
from nmt.fast.kernels.products import product

T = TypeVar("T")


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
    return f"{cpu()}, {threads}, {native}"
