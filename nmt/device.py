"""The device and the precision that a model computes in, its memory, and how fast it is."""

import ctypes
import platform
import re
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from nmt.errors import ConfigError, nearest

if sys.platform != "win32":
    import resource


def resolve_device(name: str) -> torch.device:
    """Return the device that a configuration or command line names; ``auto`` is a GPU if there is one.

    A GPU that is named by its index becomes the current one, on which kernels and graphs start. On a GPU, products in
    fp32 stay in fp32 from now on. Raises ConfigError for a name PyTorch does not know and for a GPU that is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device: '{name}' is not a device; use auto, cpu, cuda or cuda:0") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device: '{name}' is not supported; use auto, cpu, cuda or cuda:0")
    count = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ConfigError(f"device: '{name}' not found: PyTorch sees {count} GPUs, numbered from 0; use auto or cpu")
    if device.type == "cuda":
        backends: Any = torch.backends
        for products in (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn):
            products.fp32_precision = "ieee"  # by default cuDNN rounds factors to TF32, which has 10 bits
        if device.index is not None:
            torch.cuda.set_device(device)
    return device


def name_of(device: torch.device) -> str:
    """Return the name of the hardware: ``NVIDIA H100 80GB HBM3``, ``cpu (x86_64)``."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu ({platform.machine()})"


def multiplies_bf16(device: torch.device) -> bool:
    """Whether the hardware has instructions that multiply bf16 matrices; a processor may yet be faster in fp32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def precision_of(name: str, device: torch.device) -> torch.dtype:
    """Return the type of matrix products by its name. Raises ConfigError for another name, and for int8 on a GPU."""
    if name not in FORMATS:
        problem = f"precision: {name!r} is not one of {', '.join(FORMATS)}"
        raise ConfigError("; ".join([problem, *nearest(name, FORMATS)]))
    if name == "int8" and device.type != "cpu":
        raise ConfigError(f"precision: int8 is for CPUs; use bf16 on '{device}'")
    return FORMATS[name]


def resolve_precision(name: str, device: torch.device) -> torch.dtype:
    """Return the type of matrix products of training; ``auto`` is bf16 where the hardware has instructions for it."""
    return FORMATS[("bf16" if multiplies_bf16(device) else "fp32") if name == "auto" else name]


def format_of(precision: torch.dtype) -> str:
    """Return the name by which users know a precision."""
    return next(name for name, each in FORMATS.items() if each == precision)


FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}
"""Number formats of matrix products, by name, the most exact one first."""


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[object]:
    """Return the context in which a model computes in ``dtype``; parameters stay fp32.

    With int8, products that are not quantized are computed in bf16 where the hardware has it.
    """
    if dtype == torch.int8 and multiplies_bf16(device):
        dtype = torch.bfloat16
    return torch.autocast(device.type, dtype) if dtype == torch.bfloat16 else nullcontext()


def keep_freed_memory() -> None:
    """Make glibc keep large freed blocks for the next step (CPU: page faults cost about a quarter of a step), in one
    arena, where the thread that translates a validation set finds what the updates have freed."""
    if (mallopt := _glibc("mallopt")) is None:
        return
    trim_threshold, top_pad, mmap_threshold, arena_max = -1, -2, -3, -8  # malloc.h
    largest = (mmap_threshold, 1 << 25), (mmap_threshold, 1 << 30)  # old versions refuse the second, and keep the first
    for parameter, value in (*largest, (trim_threshold, (1 << 31) - 1), (top_pad, 1 << 26), (arena_max, 1)):
        mallopt(parameter, value)


def release_freed_memory() -> None:
    """Make glibc return freed blocks to the system, all that lie between others too. Does nothing without glibc."""
    if (trim := _glibc("malloc_trim")) is not None:
        trim(0)


def _glibc(name: str) -> Any:
    """A function of glibc; None where there is none."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None


def peak_memory(device: torch.device) -> int:
    """The peak memory in bytes: on a GPU of tensors, on a CPU of the process; 0 on Windows, which does not say."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    if sys.platform != "win32":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return 0


LACKS_MEMORY = re.compile(
    r"can't allocate memory"  # PyTorch's own allocator on a CPU
    r"|(CUDA|CUDA driver|Triton) error.*: out of memory|Cuda failure.*out of memory"  # the driver, Triton, NCCL
    r"|STATUS_ALLOC_FAILED|DEVICE_ALLOCATION_FAILED",  # cuBLAS, cuDNN
    re.IGNORECASE,
)
"""The messages of libraries that run out of memory; PyTorch's exception is only that of its allocator on a GPU."""


def out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one during which it was raised, means out of memory."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return True
        if isinstance(error, RuntimeError) and LACKS_MEMORY.search(str(error)):
            return True
        error = error.__context__
    return False


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
