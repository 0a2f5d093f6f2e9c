"""Signals, and other processes, in the middle of training."""

import random
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nmt.errors import FileError
from tests.torture.comparison import differences
from tests.torture.tally import Result, Tally
from tests.torture.trial_folder import NOTHING, TrialFolder, start, wait_for


def kill(folder: TrialFolder, times: int) -> Result:
    """Send SIGKILL at random moments, from the start of the process on, and resume until the run is finished.

    Each time, training must resume from the last checkpoint, which must never be older than the time before.
    """
    tally, generator = Tally("SIGKILL at a random moment of training, resumed"), random.Random(2)
    undisturbed = folder.undisturbed()
    while_writing = 0
    number, kills, saved = 0, 0, NOTHING  # of the run; kills since it began; the update that the last kill left saved
    problems: list[str] = []
    while tally.tried + kills < times:
        run = folder.run(f"killed-{number}") if kills else folder.fresh(f"killed-{number}")
        stale = _unfinished(run)
        process = folder.start(run.name)
        kind = generator.random()
        if kind < 0.2:
            time.sleep(generator.uniform(0, 4))  # while it starts
        elif line := wait_for(process, "resumed after", "update "):
            if saved > NOTHING and line != f"resumed after update {saved}":
                problems.append(f"{run}: update {saved} was saved, and then it said: {line}")
            time.sleep(generator.uniform(0, 0.2))
            if kind < 0.7:
                _wait_until_written(run, process, stale)
                time.sleep(generator.uniform(0, 0.005))
        process.kill()
        process.communicate()
        if process.returncode == -signal.SIGKILL:
            kills += 1
            while_writing += bool(_unfinished(run) - stale)
            before = saved
            try:
                saved = folder.saved(run)
            except FileError as error:
                problems += error.problems
            if saved < before:
                problems.append(f"{run}: update {before} was saved, and after the next SIGKILL {saved}")
        else:  # the run had finished
            failed = [f"{run}: ended with {process.returncode}"] if process.returncode else []
            problems += failed or differences(undisturbed, run)
            tally.add(problems, kills or bool(problems))
            number, kills, saved, problems = number + 1, 0, NOTHING, []
    if kills:
        tally.add(problems + (folder.finish(run.name) or differences(undisturbed, run)), kills)
    return tally.result(f"{while_writing} of them while a checkpoint was being written")


def _unfinished(run: Path) -> set[int]:
    """The inodes of checkpoints that are not complete."""
    return {path.stat().st_ino for path in (run / "checkpoints").glob(".*.new")}


def _wait_until_written(run: Path, process: "subprocess.Popen[str]", stale: set[int]) -> None:
    """Wait until a checkpoint is being written, or the process has ended."""
    with suppress(FileNotFoundError):  # the checkpoint was completed between glob and stat
        while process.poll() is None and not _unfinished(run) - stale:
            pass


def stop(folder: TrialFolder, times: int) -> Result:
    """Send Ctrl-C, SIGTERM or SIGHUP once there is a run directory: training saves, ends with 130, 143 or 129, and
    prints the command that resumes it, which is then executed."""
    tally, generator = Tally("Ctrl-C, SIGTERM or SIGHUP, resumed with the printed command"), random.Random(3)
    signals = ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129))
    undisturbed = folder.undisturbed()
    for run in _attempts(folder, tally, "stopped", times):
        sent, code = signals[tally.tried % len(signals)]
        process = folder.start(run.name)
        wait_for(process, generator.choice(("model: ", "update ", "update ")))
        time.sleep(generator.uniform(0, 0.2))
        process.send_signal(sent)
        _, err = process.communicate()
        if process.returncode == 0:  # the run had finished: not a trial
            continue
        command, *arguments = shlex.split(err.rpartition("continue with: ")[2])
        problems = [] if process.returncode == code else [f"ended with {process.returncode}, not {code}"]
        saved = folder.saved(run)
        again = start(command, *arguments)
        _, err = again.communicate()
        if again.returncode or f"resumed after update {saved}\n" not in err:
            problems.append(f"{run}: update {saved} was saved, but training did not resume from it: {err[-200:]}")
            tally.add(problems)
        else:
            tally.add(problems + differences(undisturbed, run))
    return tally.result()


def stop_twice(folder: TrialFolder, times: int) -> Result:
    """Send Ctrl-C again and again: training stops immediately and loses no checkpoint."""
    tally, generator, undisturbed = Tally("Ctrl-C twice"), random.Random(4), folder.undisturbed()
    for run in _attempts(folder, tally, "twice", times):
        process = folder.start(run.name)
        wait_for(process, "update ")
        time.sleep(generator.uniform(0, 0.1))
        before = folder.saved(run)
        begun = time.monotonic()
        for _ in range(20):  # until the process has ended
            process.send_signal(signal.SIGINT)
            time.sleep(0.005)
            if process.poll() is not None:
                break
        process.communicate()
        seconds = time.monotonic() - begun
        if process.returncode == 0:  # the run had finished: not a trial
            continue
        problems = [] if seconds < 2 else [f"it took {seconds:.1f} s to stop"]
        if process.returncode not in (-signal.SIGINT, 130):
            problems.append(f"ended with {process.returncode}")
        if folder.saved(run) < before:
            problems.append(f"{run}: update {before} was saved, and then {folder.saved(run)}")
        tally.add(problems + (folder.finish(run.name) or differences(undisturbed, run)))
    return tally.result()


def _attempts(folder: TrialFolder, tally: Tally, name: str, times: int) -> Iterator[Path]:
    """Run directories, until there were ``times`` trials: a run that finishes before its fault is not a trial."""
    for number in range(10 * times):
        if tally.tried < times:
            yield folder.fresh(f"{name}-{number}")
    if tally.tried < times:
        tally.add([f"{name}: only {tally.tried} of {10 * times} runs were reached in time"])


def two_at_once(folder: TrialFolder, times: int) -> Result:
    """Start training in a run directory where another process trains: it is refused, and the first is unaffected. Start
    two preparations with one cache: both succeed, with equal reports."""
    tally = Tally("two training processes in one run directory; two preparations of one cache")
    undisturbed = folder.undisturbed()
    for number in range(times):
        run = folder.fresh(f"two-{number}")
        first = folder.start(run.name)
        wait_for(first, "model: ")
        first.send_signal(signal.SIGSTOP)  # so that it cannot finish before the second starts
        second = start("nmt-train", "--config", str(folder.config), "--output", str(run), "--overwrite")
        _, err = second.communicate()
        first.send_signal(signal.SIGCONT)
        first.communicate()
        refused = second.returncode == 2 and "another nmt-train is running" in err
        tally.add([] if refused else [f"the second ended with {second.returncode}: {err[-200:]}"])
        tally.add([] if first.returncode == 0 and not differences(undisturbed, run) else [f"{run} differs"])

        cache = folder.path / f"cache-{number}"
        options = ("--config", str(folder.config), "--set", f"data.cache={cache}")
        both = [start("nmt-prepare", *options, "--json", str(folder.path / f"report-{k}")) for k in range(2)]
        ends = [process.communicate() for process in both]
        reports = {(folder.path / f"report-{k}").read_bytes() for k in range(2)}
        equal = all(process.returncode == 0 for process in both) and len(reports) == 1
        tally.add([] if equal else [f"two preparations: {ends[0][1][-200:]} {ends[1][1][-200:]}"])
    return tally.result()
