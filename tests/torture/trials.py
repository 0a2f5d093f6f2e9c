"""The list of all trials, and how often each is made."""

import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.torture import attacks, configs, disk, faults, numbers, ranks, refusals, sameness, strangers, text
from tests.torture.tally import Result
from tests.torture.trial_folder import TrialFolder

TRIALS: dict[str, tuple[Callable[[TrialFolder, int], Result], int]] = {
    "kill": (faults.kill, 50),
    "ranks": (ranks.kill_ranks, 30),
    "stop": (faults.stop, 10),
    "stop-twice": (faults.stop_twice, 10),
    "disk": (disk.failing_disk, 100),
    "cache": (disk.failing_cache, 30),
    "file-size": (disk.limited_file_size, 20),
    "output": (disk.limited_output, 30),
    "vanish": (disk.vanishing_run, 5),
    "damage": (disk.damaged_checkpoint, 40),
    "two": (faults.two_at_once, 5),
    "numbers": (numbers.skipped_updates, 12),
    "no-numbers": (numbers.no_finite_gradient, 6),
    "memory": (numbers.out_of_memory, 8),
    "changed": (refusals.changed_resumption, 2 * len(refusals.CHANGES)),
    "strangers": (strangers.crafted_runs, len(attacks.ATTACKS)),
    "text": (text.hostile, 120),
    "large": (text.large, 2),
    "configs": (configs.fuzzed, 5000),
    "extremes": (configs.extreme, 100),
    "again": (sameness.same_seed, 2),
    "batches": (sameness.other_batches, 40),
    "moved": (sameness.moved_run, 2),
    "dry-run": (refusals.dry_runs, len(refusals.MISTAKES)),
}
"""The trial and the number of times it is made, by the name that ``--only`` takes, in the order of the table."""


def run_trial(name: str, times: int) -> tuple[Result, float]:
    """Make one kind of trial in a temporary folder; return the result and the seconds it took.

    If the trial itself fails, all of its times count as lost.
    """
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nmt-torture-") as folder:
        trial, _ = TRIALS[name]
        try:
            result = trial(TrialFolder(Path(folder)), times)
        except Exception as error:  # the other kinds of trial go on
            traceback.print_exc()
            result = Result(f"the trial '{name}' itself", times, 0, (f"{type(error).__name__}: {error}",))
        return result, time.monotonic() - begun
