"""The remaining work of an experiment, read from its directories."""

from collections.abc import Mapping, Set
from contextlib import suppress
from typing import NamedTuple

from nmt.data.dataset import corpus_sha256
from nmt.errors import ConfigError, NmtError
from nmt.experiments.jobs import Say
from nmt.experiments.making import is_made
from nmt.experiments.plan import Plan
from nmt.experiments.runs import PlannedText, Run
from nmt.files import read_json
from nmt.runs.changes import LENGTH, WITHOUT_EFFECT
from nmt.runs.directory import RunDirectory
from nmt.training.opening import Ending, refuse_fewer_updates, refuse_other_config
from nmt.training.progress import Progress

Unfinished = Mapping[str, tuple[str, ...]]
"""By label of a run: the options with which ``nmt-train`` finishes it."""


class Remaining(NamedTuple):
    """The remaining work of a run."""

    options: tuple[str, ...] | None
    """Options of ``nmt-train`` beside the configuration; None for a finished run."""
    described: str
    """In words."""


def remaining(run: Run, say: Say) -> Remaining:
    """Look into the run directory and change nothing.

    Raises ConfigError if the run is being trained, or was begun with another configuration or corpus.
    """
    directory = RunDirectory(run.path)
    if not directory.exists:
        return Remaining((), f"new: {run.path}")
    try:
        with directory.locked(say):
            pass
    except ConfigError as error:
        raise ConfigError(*(f"{run.label}: {problem}" for problem in error.problems)) from None
    if not (directory.has("last") or directory.has("previous")):
        return Remaining(("--overwrite",), f"stopped before anything was saved, starts again: {run.path}")
    made: Progress | None = None  # if the last checkpoint cannot tell, resuming explains why
    with suppress(NmtError, ValueError):
        made = Progress.from_json(read_json(directory.checkpoints / "last" / "training.json"))
    _refuse_another_experiment(run, directory, made, say)
    if made is None:
        return Remaining(("--resume",), f"to be resumed: {run.path}")
    after = f"after update {made.update:,}"
    ending = Ending.of(directory, run.config, made)
    if ending.complete:
        return Remaining(None, f"finished {after}: {run.path}")
    if ending.averaged and ending.scored:
        return Remaining(("--resume",), f"finished {after}, to be scored with other options: {run.path}")
    return Remaining(("--resume",), f"to be resumed {after}: {run.path}")


def _refuse_another_experiment(run: Run, directory: RunDirectory, made: Progress | None, say: Say) -> None:
    """Raise ConfigError if the run is not an earlier stage of the run that the experiment describes."""
    problems: list[str] = []
    try:
        refuse_other_config(directory, run.config, (*WITHOUT_EFFECT, *LENGTH))
    except ConfigError as error:
        problems += error.problems[:-1]  # the last one is advice for nmt-train
    try:
        refuse_fewer_updates(run.config, made or Progress())
    except ConfigError as error:
        problems += error.problems
    try:
        if read_json(directory.manifest)["corpus_sha256"] != corpus_sha256(run.config.data):
            problems.append(f"{run.path}: its corpora have changed since it was begun")
    except (NmtError, LookupError, TypeError) as error:
        say(f"{run.label}: not compared with its corpora: {error}")
    if problems:
        raise ConfigError(
            *(f"{run.label}: {problem}" for problem in problems),
            f"{run.label}: restore that, choose another --output, or replace the run with --overwrite {run.label}",
        )


def remaining_runs(plan: Plan, overwritten: Set[str], say: Say) -> Unfinished:
    """Say what is left to do for each run. Raises ConfigError, with all problems, for runs of another experiment."""
    unfinished, problems = dict[str, tuple[str, ...]](), list[str]()
    for run in plan.runs:
        if run.label in overwritten and run.path.exists():
            unfinished[run.label] = ("--overwrite",)
            say(f"{run.label}: to be replaced: {run.path}")
            continue
        try:
            left = remaining(run, say)
        except NmtError as error:
            problems += error.problems
            continue
        say(f"{run.label}: {left.described}")
        if left.options is not None:
            unfinished[run.label] = left.options
    if problems:
        raise ConfigError(*problems)
    return unfinished


def remaining_texts(plan: Plan, whole: Plan, unfinished: Unfinished, say: Say) -> list[PlannedText]:
    """Say which texts are made, and return those that are to be made.

    ``plan`` is the part of the ``whole`` that this command is for. Raises ConfigError, with all problems, where another
    part must come first, and for runs that were begun with a text that is to be made again.
    """
    here, waiting, problems = {run.label for run in plan.runs}, list[PlannedText](), list[str]()
    for text in plan.texts:
        others = [run for run in text.runs if run.label not in here]
        missing = [run.label for run in others if remaining(run, say).options is not None]
        if missing:
            first = " ".join(f"--only {label}" for label in missing)
            problems.append(f"{text.name}: {', '.join(missing)} must be finished first; run with {first}")
        elif any(run.label in unfinished for run in text.runs) or not is_made(text):
            say(f"{text.name}: to be made: {text.lines}, {text.translations}")
            waiting.append(text)
        else:
            say(f"{text.name}: made: {text.lines}, {text.translations}")
    again = {text.name for text in waiting if text.manifest.exists()}
    for run in plan.runs:
        for name in again.intersection(run.texts):
            if _is_begun(run, unfinished):
                problems.append(
                    f"{run.label}: was trained on {name}, which is to be made again, because what it is made from has "
                    f"changed; restore that, or replace the run, too, with --overwrite {run.label}"
                )
        for text in whole.texts:
            absent = text.name in run.texts and text not in plan.texts and run.label in unfinished
            if absent and not is_made(text):
                problems.append(f"{run.label}: its text {text.name} must be made first; run with --only {text.name}")
    if problems:
        raise ConfigError(*problems)
    return waiting


def _is_begun(run: Run, unfinished: Unfinished) -> bool:
    """Whether something is there that would go on."""
    return run.path.exists() and unfinished.get(run.label) != ("--overwrite",)
