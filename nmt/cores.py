"""The cores that this process may use, and how its threads wait for each other.

This module must not import PyTorch: its OpenMP library reads what :func:`share_cores` sets when it is loaded.
"""

import math
import os
from pathlib import Path

SPINS = 10_000
"""Turns for which a thread of OpenMP waits for its partners before it sleeps; the library's own choice is 300,000.

A spinning thread wastes its core while another program has its partner's.
"""


def share_cores() -> None:
    """Let the threads of OpenMP sleep soon, and start no more of them than a limit on the process's time allows.

    Sets ``GOMP_SPINCOUNT`` and ``OMP_NUM_THREADS``, which child processes inherit; values that are set already stay.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
    if (limit := time_limit()) is not None and limit < cores():
        os.environ.setdefault("OMP_NUM_THREADS", str(math.ceil(limit)))


def cores() -> int:
    """Count the cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def time_limit(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> float | None:
    """Return the cores' worth of time that Linux's control groups allow this process; None without a limit.

    A container with ``--cpus 2.5`` has a limit of 2.5. Limits of enclosing groups count, too (version 2).
    """
    limits = []
    for line in _text(membership).splitlines():
        if line.startswith("0::"):
            inner = root / line.removeprefix("0::").lstrip("/")
            for group in (inner, *inner.parents):
                quota, _, period = _text(group / "cpu.max").partition(" ")  # "max 100000" without a limit
                if quota.isdecimal() and group.is_relative_to(root):
                    limits.append(int(quota) / int(period))
    return min(limits, default=None)


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError):
        return ""
