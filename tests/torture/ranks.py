"""Processes that train together, of which some are killed."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.torture.comparison import differences
from tests.torture.tally import Result, Tally
from tests.torture.trial_folder import NOTHING, TrialFolder, start, wait_for

RANKS = 2
LAST_MOMENT = 1.0
"""Seconds after a sign of life in which the kill comes."""


def kill_ranks(folder: TrialFolder, times: int) -> Result:
    """Send SIGKILL to a random rank at random moments, and resume the run until it is finished.

    Training goes on from the newest checkpoint, which is never older than the time before.
    """
    tally, generator = Tally(f"SIGKILL of one of {RANKS} ranks at a random moment, resumed"), random.Random(7)
    undisturbed = folder.fresh("undisturbed-ranks")
    problems = _finished(begin(folder, undisturbed.name), "")
    number = 0
    while tally.tried < times and not problems:
        run = folder.fresh(f"ranks-{number}")
        kills, older = _killed_until_finished(folder, run, times - tally.tried, generator)
        if kills or older:
            tally.add(older + differences(undisturbed, run), kills or 1)
        number += 1
    if problems:
        tally.add(problems, times)
    return tally.result()


def begin(folder: TrialFolder, name: str) -> "subprocess.Popen[str]":
    """Start the ranks of a run with torchrun, or resume it if it has a checkpoint."""
    command = str(Path(sys.executable).with_name("nmt-train"))
    options = ["--standalone", "--nproc-per-node", str(RANKS), "--no-python"]
    return start("torchrun", *options, command, *folder.arguments(name), env=os.environ | {"OMP_NUM_THREADS": "1"})


def children(process: "subprocess.Popen[str]") -> list[int]:
    """The processes that torchrun has started."""
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    return []


def _killed_until_finished(
    folder: TrialFolder, run: Path, most: int, generator: random.Random
) -> tuple[int, list[str]]:
    """Kill ranks of a new run up to ``most`` times; -> how often, and the problems."""
    process, kills, saved, problems = begin(folder, run.name), 0, NOTHING, list[str]()
    while kills < most and wait_for(process, "model: ", "resumed after", "update "):
        time.sleep(generator.uniform(0, LAST_MOMENT))
        ranks = children(process)
        if len(ranks) < RANKS:  # they have finished
            continue
        with suppress(ProcessLookupError):
            os.kill(generator.choice(ranks), signal.SIGKILL)
            kills += 1
        process.communicate()
        before, saved = saved, folder.saved(run)
        if saved < before:
            problems.append(f"{run}: update {before} was saved, and after the next SIGKILL {saved}")
        process = begin(folder, run.name)
    return kills, problems + _finished(process, f"{run}: ")


def _finished(process: "subprocess.Popen[str]", where: str) -> list[str]:
    _, err = process.communicate()
    return [] if process.returncode == 0 else [f"{where}torchrun ended with {process.returncode}: {err[-300:]}"]
