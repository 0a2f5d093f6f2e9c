"""All trials there are, and how often each is made."""

import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.torture import configs, disk, faults, numbers, refusals, sameness, strangers, text
from tests.torture.work import Result, Work

TRIALS: dict[str, tuple[Callable[[Work, int], Result], int]] = {
    "kill": (faults.killed, 50),
    "stop": (faults.stopped, 10),
    "stop-twice": (faults.stopped_twice, 10),
    "disk": (disk.failing_disk, 100),
    "cache": (disk.failing_cache, 30),
    "file-size": (disk.small_files, 20),
    "output": (disk.failing_output, 30),
    "vanish": (disk.vanished, 5),
    "damage": (disk.damaged, 40),
    "two": (faults.two_at_once, 5),
    "numbers": (numbers.skipped, 12),
    "no-numbers": (numbers.failing, 6),
    "memory": (numbers.little_memory, 8),
    "changed": (refusals.changed, 2 * len(refusals.CHANGES)),
    "strangers": (strangers.strangers, len(strangers.ATTACKS)),
    "text": (text.nasty, 120),
    "large": (text.large, 2),
    "configs": (configs.fuzzed, 5000),
    "extremes": (configs.extreme, 100),
    "again": (sameness.same_seed, 2),
    "batches": (sameness.any_batch, 40),
    "moved": (sameness.moved, 2),
    "dry-run": (refusals.dry_runs, len(refusals.DRY)),
}
"""In the order of the table, by the name that --only takes: what is done, and how often."""


def suffer(name: str, times: int) -> tuple[Result, float]:
    """One kind of trial, in a folder of its own that vanishes; -> what came of it, and the seconds it took. Where the
    trial itself fails, nothing is known to have survived."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nmt-torture-") as folder:
        trial, _ = TRIALS[name]
        try:
            result = trial(Work(Path(folder)), times)
        except Exception as error:  # whatever it is: the other kinds go on
            traceback.print_exc()
            result = Result(f"the trial '{name}' itself", times, 0, (f"{type(error).__name__}: {error}",))
        return result, time.monotonic() - begun
