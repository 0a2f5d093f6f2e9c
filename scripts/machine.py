"""The machine and the commit that results come from."""

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path


def cpu() -> str:
    """The model of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def machine() -> str:
    """The processor and the number of its cores."""
    return f"{os.cpu_count()} cores of {cpu()}"


def commit() -> str:
    """The commit in the current directory, ``-dirty`` if files differ from it; ``unknown`` outside a repository."""
    describe = ["git", "describe", "--always", "--dirty"]
    answer = subprocess.run(describe, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def provenance() -> dict[str, str]:
    """Where the results of this command come from."""
    command = shlex.join(["python", *sys.argv])
    origin = {"command": command, "commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine()}
    return origin | {"torch": version("torch")}
