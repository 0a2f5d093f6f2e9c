"""An experiment from its plan to its table: what each run still needs, the processes that train, the results."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from threading import Lock, Thread
from typing import Any

from nmt.data.dataset import corpus_sha256, prepare
from nmt.data.report import table
from nmt.device import format_of, name_of
from nmt.errors import ConfigError, NmtError, ProcessError
from nmt.experiments.plan import Plan, Run
from nmt.experiments.results import draw_all, translate_all
from nmt.files import alone, read_json, write_json
from nmt.messages import Result, Say, silent
from nmt.model import build_model
from nmt.runs import directory
from nmt.runs.directory import RunDirectory
from nmt.training.checkpointing import is_finished, refuse_fewer_updates
from nmt.training.progress import Progress
from nmt.training.trial import Trial, choose_precision
from nmt.training.world import set_up
from nmt.translation.translator import CheckStop

Flags = tuple[str, ...]
"""Flags with which ``nmt-train`` finishes a run, beside the configuration."""


def run_experiment(
    plan: Plan,
    jobs: int,
    *,
    draw: bool,
    dry_run: bool,
    say: Say,
    stop_request: AbstractContextManager[CheckStop],
    stop_signal: Callable[[], int | None],
    options: Sequence[str] = (),
) -> str:
    """Train the runs that are not finished, translate and score the test sets, draw the figures; return the table.

    Up to ``jobs`` runs are trained side by side, with further ``options`` of ``nmt-train``. Without ``draw`` there are
    no figures, and the table is "". ``dry_run`` rehearses the first unfinished run of each system, and does nothing
    else. From when the data are prepared, ``stop_request`` is entered; ``stop_signal`` then gives the signal that
    requested a stop, if one did, for the trainings.

    Raises Stopped after a stop was requested, ProcessError if a training fails.
    """
    unfinished = remaining_runs(plan, say)

    def train(wanted: Mapping[str, Flags], check_stop: CheckStop, said: Collection[str] = ()) -> None:
        started = {}
        for run in plan.runs:
            if run.label in wanted:
                settings = (word for setting in run.settings for word in ("--set", setting))
                arguments = ("--config", plan.base, *settings, "--output", str(run.path), *wanted[run.label], *options)
                started[run.label] = ("nmt.cli.train", *arguments)
        # trainings choose what to show: their lines are results
        codes = run_jobs(started, jobs, lambda line: say(Result(line)), stop_signal, said)
        check_stop()
        if failed := [f"{label}: nmt-train ended with {_end(code)}" for label, code in codes.items() if code]:
            raise ProcessError(*(f"{problem}; see its messages above" for problem in failed))

    if dry_run:
        first = {run.system: run.label for run in reversed(plan.runs) if run.label in unfinished}
        with stop_request as check_stop:
            train({label: (*unfinished[label], "--dry-run") for label in first.values()}, check_stop)
        trained, tests = f"{len(unfinished)} of {len(plan.runs)} runs would be trained", ", ".join(plan.tests)
        drawn = f"; figures and tables would go to {plan.output}" if draw else ""
        say(f"dry run: {trained}; all would translate {tests}{drawn}")
        return ""
    said = prepare_all(plan, unfinished, say)
    unfinished = with_precision(plan, unfinished, say)
    with stop_request as check_stop:
        train(unfinished, check_stop, said)
        translate_all(plan, say, check_stop)
        if draw:
            return draw_all(plan, say)
    for run in plan.runs:
        say(f"{run.label}: translations: {', '.join(str(plan.translations(run, test)) for test in plan.tests)}")
    return ""


def _end(code: int) -> str:
    """Describe how a process ended, by its exit code."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"


# --- what is left to do -----------------------------------------------------------------------------------------------


def remaining_runs(plan: Plan, say: Say) -> dict[str, Flags]:
    """Say what is left to do for each run; return the options of those that are not finished, by label.

    Looks into the run directories and changes nothing. Raises ConfigError, with all problems, for runs that were begun
    with another configuration or corpus, and for new ones that cannot start from the run that they name.
    """
    unfinished, problems = dict[str, Flags](), dict[str, list[str]]()
    for run in plan.runs:
        try:
            options, described = remaining(run)
            if options is not None and "--resume" not in options:
                directory.refuse_other_parts(run.config)
        except NmtError as error:
            for problem in error.problems:
                problems.setdefault(problem, []).append(run.label)
            continue
        say(f"{run.label}: {described}: {run.path}")
        if options is not None:
            unfinished[run.label] = options
    if problems:
        advice = "restore what has changed, choose another --output, or delete a run directory to train it again"
        if any("training.start_from: " in problem for problem in problems):
            advice += "; train a run that others start from first, with --only"
        raise ConfigError(*(f"{', '.join(labels)}: {problem}" for problem, labels in problems.items()), advice)
    return unfinished


def remaining(run: Run) -> tuple[Flags | None, str]:
    """Return the options of ``nmt-train`` for a run, None if it is finished, and a description for people. A run that
    is resumed keeps its precision. Raises ConfigError for a run of another experiment."""
    trained = RunDirectory(run.path)
    if not trained.exists:
        return (), "new"
    if not trained.has("last"):
        if trained.has("best"):
            raise ConfigError(f"{trained.checkpoints / 'last'}: missing; it records how far the run has come")
        return ("--overwrite",), "stopped before anything was saved, starts again"
    progress: Progress | None = None
    with suppress(NmtError, ValueError):  # if the last checkpoint is damaged, resuming explains it
        progress = Progress.from_json(read_json(trained.checkpoints / "last" / "training.json"))
    try:
        chosen = ("precision",) if run.config.precision == "auto" else ()
        allowed = (*directory.WITHOUT_EFFECT, *directory.LENGTH, *chosen)
        directory.refuse_other_config(trained, run.config, allowed)
    except ConfigError as error:
        raise ConfigError(*error.problems[:-1]) from None  # the last one is advice for nmt-train
    refuse_fewer_updates(run.config.training.updates, progress or Progress())
    manifest = directory.read_manifest(trained)
    resume = ("--resume", *(("--set", f"precision={manifest['config']['precision']}") if chosen else ()))
    if manifest.get("corpus_sha256") != corpus_sha256(run.config.data):
        raise ConfigError(f"{run.path}: its corpora have changed since it was begun")
    if progress is None:
        return resume, "to be resumed"
    if is_finished(trained, run.config, progress):
        return None, f"finished after update {progress.update:,}"
    return resume, f"to be resumed after update {progress.update:,}"


def _is_new(run: Run, unfinished: Mapping[str, Flags]) -> bool:
    """Whether a run starts from the beginning: it is neither finished nor resumed."""
    return "--resume" not in unfinished.get(run.label, ("--resume",))


# --- precision and data -----------------------------------------------------------------------------------------------


def with_precision(plan: Plan, unfinished: Mapping[str, Flags], say: Say) -> dict[str, Flags]:
    """Add the precision to the options of new runs that leave it open, so that all compute in the same.

    It is that of the runs begun on the same hardware; else it is measured once, and kept in the output directory.
    """
    options = dict(unfinished)
    left_open = [run for run in plan.runs if run.config.precision == "auto"]
    begun = [directory.read_manifest(RunDirectory(run.path)) for run in left_open if not _is_new(run, unfinished)]
    for run in left_open:
        if _is_new(run, unfinished):
            options[run.label] += ("--set", f"precision={_precision(plan, run, begun, say)}")
    return options


def _precision(plan: Plan, run: Run, records: list[dict[str, Any]], say: Say) -> str:
    """Return the precision in the first record of the hardware of a run, that in the output directory coming last; if
    there is none, measure it with this run, and write that record."""
    config, path = run.config, plan.output / "precision.json"
    machine = set_up(config)
    device = name_of(machine.device)
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path, say):
        for record in [*records, *([read_json(path)] if path.exists() else [])]:
            if isinstance(record, dict) and record.get("device") == device:
                return str(record["precision"])
        prepared = prepare(config, silent)
        model = build_model(config.model, *prepared.tokenizers.sizes)
        trial = Trial(model, config, prepared)
        precision = format_of(choose_precision("auto", machine, {}, trial, say).precision)
        write_json(path, {"device": device, "precision": precision})
        return precision


def prepare_all(plan: Plan, unfinished: Mapping[str, Flags], say: Say) -> set[str]:
    """Prepare the data of the runs that start from the beginning, and say once what each of them would say about the
    same data; return the lines that were said. Raises the errors of preparation."""
    said = set[str]()

    def say_once(text: str) -> None:
        if text not in said:
            said.add(text)
            say(text)

    new = [run.config for run in plan.runs if _is_new(run, unfinished)]
    keys = (json.dumps([each.data.model_dump(), each.tokenizer.model_dump(), each.training.start_from]) for each in new)
    for config in dict(zip(keys, new, strict=True)).values():
        say_once(table(prepare(config, say_once).report))
    return {line for text in said for line in text.splitlines()}


# --- processes --------------------------------------------------------------------------------------------------------

POLL_SECONDS = 0.05
LAST_WORDS_SECONDS = 5.0
"""To wait for the output of a process that has ended."""
CHILD = (
    "import ctypes, os, signal, sys; parent, module = int(sys.argv[1]), sys.argv[2]; del sys.argv[1:3]; "
    "sys.platform == 'linux' and ctypes.CDLL(None).prctl(1, signal.SIGKILL); "  # PR_SET_PDEATHSIG
    "parent == os.getppid() or sys.exit(1); "
    "from importlib import import_module; sys.exit(import_module(module).main())"
)
"""A process that ends with its parent, however that ends: another call must not find an orphan training the run."""


def run_jobs(
    jobs: Mapping[str, Sequence[str]],
    count: int,
    say: Say,
    stop_signal: Callable[[], int | None],
    said: Collection[str] = (),
) -> dict[str, int]:
    """Run up to ``count`` jobs at a time, and pass on the lines that they print, except those that were ``said``
    before; return the exit code of each that was started.

    A job is a process by its label, which begins each of its lines: a module that has ``main``, and its arguments.
    ``stop_signal`` gives the number of a signal when a stop was requested. The signal is sent to all jobs, no other is
    started, and the function waits for all of them.
    """
    waiting, codes = dict(jobs), dict[str, int]()
    running: dict[str, tuple[subprocess.Popen[str], Thread]] = {}
    lock, stopped = Lock(), False

    def relay(label: str, line: str) -> None:
        if line not in said:
            with lock:
                say(f"{label}: {line}")

    try:
        while waiting or running:
            number = stop_signal()
            if number is not None and not stopped:
                stopped = True
                waiting.clear()
                for process, _ in running.values():
                    process.send_signal(number)
            while waiting and len(running) < count:
                label = next(iter(waiting))
                running[label] = _start(waiting.pop(label), partial(relay, label))
            for label, (process, reader) in list(running.items()):
                if process.poll() is not None:
                    reader.join(LAST_WORDS_SECONDS)  # a child of a killed process may keep the pipe open
                    codes[label] = process.returncode
                    del running[label]
            time.sleep(POLL_SECONDS)
    finally:
        for process, _ in running.values():
            process.kill()
    return codes


def _start(job: Sequence[str], relay: Callable[[str], None]) -> tuple["subprocess.Popen[str]", Thread]:
    process = subprocess.Popen(
        # -P: a file of the working directory must not take the place of a module
        [sys.executable, "-P", "-c", CHILD, str(os.getpid()), *job],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # Ctrl-C reaches only this process, which passes it on once
    )

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                relay(line.rstrip())

    reader = Thread(target=read, daemon=True)
    reader.start()
    return process, reader
