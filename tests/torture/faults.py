"""Training while the machine and other people do their worst."""

import random
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from nmt.errors import FileError
from tests.torture.work import NOTHING, Result, Trials, Work, differences, runs, start, wait_for


def killed(work: Work, kills: int) -> Result:
    """SIGKILL at random moments, anywhere from the start of the process on, until a training is through; and again.

    It must go on from what was saved last, each time, and never from less than the time before."""
    calm, trials, chance = work.calm(), Trials("SIGKILL at a random moment of training, resumed"), random.Random(2)
    inside = 0
    number, since, saved = 0, 0, NOTHING
    problems: list[str] = []
    while trials.tried + since < kills:
        run = work.run(f"killed-{number}") if since else work.fresh(f"killed-{number}")
        stale = _unfinished(run)
        process = work.start(run.name)
        assert process.stderr is not None
        kind = chance.random()
        if kind < 0.2:
            time.sleep(chance.uniform(0, 4))  # while it starts
        elif line := wait_for(process.stderr, "resumed after", "update "):
            if saved > NOTHING and line != f"resumed after update {saved}":
                problems.append(f"{run}: update {saved} was saved, and then it said: {line}")
            time.sleep(chance.uniform(0, 0.2))
            if kind < 0.7:
                _wait_until_written(run, process, stale)
                time.sleep(chance.uniform(0, 0.005))
        process.kill()
        process.communicate()
        if process.returncode == -signal.SIGKILL:
            since += 1
            inside += bool(_unfinished(run) - stale)
            before = saved
            try:
                saved = work.saved(run)
            except FileError as error:
                problems += error.problems
            if saved < before:
                problems.append(f"{run}: update {before} was saved, and after the next SIGKILL {saved}")
        else:  # it was through already
            problems += (
                differences(calm, run) if process.returncode == 0 else [f"{run}: ended with {process.returncode}"]
            )
            trials.add(problems, since or bool(problems))
            number, since, saved, problems = number + 1, 0, NOTHING, []
    if since:
        trials.add(problems + (work.finish(run.name) or differences(calm, run)), since)
    return trials.result(f"{inside} of them while a checkpoint was being written")


def _unfinished(run: Path) -> set[int]:
    """The checkpoints that are written aside, each a number of the file system."""
    return {path.stat().st_ino for path in (run / "checkpoints").glob(".*.new")}


def _wait_until_written(run: Path, process: "subprocess.Popen[str]", stale: set[int]) -> None:
    """Until a checkpoint is being written, or the training is through."""
    with suppress(FileNotFoundError):  # it was put in its place between two looks
        while process.poll() is None and not _unfinished(run) - stale:
            pass


def stopped(work: Work, times: int) -> Result:
    """Ctrl-C, SIGTERM and SIGHUP, from when there is a run on: it saves, ends with 130, 143 or 129, and says how to go
    on; that is then done, literally."""
    calm, trials, chance = work.calm(), Trials("Ctrl-C, SIGTERM or SIGHUP, gone on with as it says"), random.Random(3)
    signals = ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129))
    for run in runs(work, trials, "stopped", times):
        sent, code = signals[trials.tried % len(signals)]
        process = work.start(run.name)
        assert process.stderr is not None
        wait_for(process.stderr, chance.choice(("model: ", "update ", "update ")))
        time.sleep(chance.uniform(0, 0.2))
        process.send_signal(sent)
        _, err = process.communicate()
        if process.returncode == 0:  # it was through already: no trial
            continue
        command, *arguments = shlex.split(err.rpartition("continue with: ")[2])
        problems = [] if process.returncode == code else [f"ended with {process.returncode}, not {code}"]
        saved = work.saved(run)
        again = start(command, *arguments)
        _, err = again.communicate()
        if again.returncode or f"resumed after update {saved}\n" not in err:
            problems.append(f"{run}: update {saved} was saved, and it did not go on from there: {err[-200:]}")
            trials.add(problems)
        else:
            trials.add(problems + differences(calm, run))
    return trials.result()


def stopped_twice(work: Work, times: int) -> Result:
    """A second Ctrl-C leaves at once, and loses nothing older."""
    calm, trials, chance = work.calm(), Trials("Ctrl-C twice"), random.Random(4)
    for run in runs(work, trials, "twice", times):
        process = work.start(run.name)
        assert process.stderr is not None
        wait_for(process.stderr, "update ")
        time.sleep(chance.uniform(0, 0.1))
        before = work.saved(run)
        begun = time.monotonic()
        for _ in range(20):  # until the process is gone
            process.send_signal(signal.SIGINT)
            time.sleep(0.005)
            if process.poll() is not None:
                break
        process.communicate()
        seconds = time.monotonic() - begun
        if process.returncode == 0:  # it was through already: no trial
            continue
        problems = [] if seconds < 2 else [f"it took {seconds:.1f} s to leave"]
        if process.returncode not in (-signal.SIGINT, 130):
            problems.append(f"ended with {process.returncode}")
        if work.saved(run) < before:
            problems.append(f"{run}: update {before} was saved, and then {work.saved(run)}")
        trials.add(problems + (work.finish(run.name) or differences(calm, run)))
    return trials.result()


def two_at_once(work: Work, times: int) -> Result:
    """Into one run directory: the second is refused, and the first is as if nothing had been. Two preparations of one
    cache: both end well, with the same."""
    calm, trials = work.calm(), Trials("two trainings into one run; two preparations of one cache")
    for number in range(times):
        run = work.fresh(f"two-{number}")
        first = work.start(run.name)
        assert first.stderr is not None
        wait_for(first.stderr, "model: ")
        first.send_signal(signal.SIGSTOP)  # so that it cannot be through before the second looks
        second = start("nmt-train", "--config", str(work.config), "--output", str(run), "--overwrite")
        _, err = second.communicate()
        first.send_signal(signal.SIGCONT)
        first.communicate()
        refused = second.returncode == 2 and "another nmt-train is at work" in err
        trials.add([] if refused else [f"the second ended with {second.returncode}: {err[-200:]}"])
        trials.add([] if first.returncode == 0 and not differences(calm, run) else [f"{run} is not as it should be"])

        cache = work.folder / f"cache-{number}"
        options = ("--config", str(work.config), "--set", f"data.cache={cache}")
        both = [start("nmt-prepare", *options, "--json", str(work.folder / f"report-{k}")) for k in range(2)]
        ends = [process.communicate() for process in both]
        reports = {(work.folder / f"report-{k}").read_bytes() for k in range(2)}
        well = all(process.returncode == 0 for process in both) and len(reports) == 1
        trials.add([] if well else [f"two preparations: {ends[0][1][-200:]} {ends[1][1][-200:]}"])
    return trials.result()
