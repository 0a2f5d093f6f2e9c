"""What decides which kernels run, and what they compute: the device, its driver, versions, and their code."""

import hashlib
import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from nmt import __version__
from nmt.device import instructions

DRIVER = Path("/proc/driver/nvidia/version")


def place_of(device: torch.device) -> dict[str, Any]:
    """Describe where kernels run, as JSON; what is known of them holds where all of it is the same."""
    return {
        "device": _gpu(device) if device.type == "cuda" else _cpu(),
        "versions": {
            "nmt-attention": __version__,
            "kernels": _sources(),
            "torch": str(torch.__version__),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version() if device.type == "cuda" else None,
            "triton": _triton(),
            "compiler": os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang"),  # Triton needs one
        },
    }


def _gpu(device: torch.device) -> dict[str, Any]:
    found = torch.cuda.get_device_properties(device)
    driver = DRIVER.read_text("utf-8", "replace").partition("\n")[0] if DRIVER.exists() else None
    return {
        "name": found.name,
        "capability": f"{found.major}.{found.minor}",
        "driver": driver,
        "cuda of the driver": getattr(torch._C, "_cuda_getDriverVersion", lambda: None)(),
    }


def _cpu() -> dict[str, Any]:
    return {"name": f"cpu ({platform.machine()}, {torch.backends.cpu.get_cpu_capability()})", "has": instructions()}


def _sources() -> str:
    """The digest of the code of this room, which changes more often than the version."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _triton() -> str | None:
    for name in ("triton", "pytorch-triton"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
