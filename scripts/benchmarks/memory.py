"""Measure the peak memory of whole commands."""

import subprocess
import sys
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from nmt.cli.terminal import say
from nmt.files import write_text

CONFIG = "configs/benchmark/reference.yaml"
LAUNCHER = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)
"""A small process that starts a command and prints its peak in KiB: that of a child begins with its parent's memory."""


def measure_memory(model: str, lines: Sequence[str], many: int, updates: int) -> dict[str, int]:
    """Measure the peak resident memory of some tasks, in MB of 10^6 bytes: import PyTorch, translate with a run one
    line and ``many`` lines, train the reference network, write its report."""
    with TemporaryDirectory() as scratch:
        folder, path = Path(scratch), str(Path(model).absolute())

        def peak(*words: str) -> int:
            printed = subprocess.run(
                [sys.executable, "-c", LAUNCHER, *words], check=True, stdout=subprocess.PIPE
            ).stdout
            found = round(int(printed) * 1024 / 1e6)
            say(f"{found:,} MB: {' '.join(words)}")
            return found

        def translated(count: int) -> int:
            source, output = folder / "source", str(folder / "output")
            write_text(source, "".join(f"{line}\n" for line in islice(cycle(lines), count)))
            return peak(_command("nmt-translate"), "--model", path, "--input", str(source), "--output", output)

        settings = [f"output={folder / 'run'}", f"training.updates={updates}", f"training.validation.every={updates}"]
        return {
            "`import torch`": peak(sys.executable, "-c", "import torch"),
            "translating one line": translated(1),
            f"translating {len(lines):,} lines": translated(len(lines)),
            f"translating {many:,} lines": translated(many),
            f"training, `{CONFIG}`, {updates} updates": peak(
                _command("nmt-train"), "--config", CONFIG, "--set", *settings
            ),
            "its report": peak(_command("nmt-report"), str(folder / "run"), "--output", str(folder / "report.html")),
        }


def _command(name: str) -> str:
    return str(Path(sys.prefix, "bin", name))
