"""The remaining work of a run, read from its directory."""

from contextlib import suppress
from typing import NamedTuple

from nmt.data.dataset import corpus_sha256
from nmt.errors import ConfigError, NmtError
from nmt.experiments.jobs import Say
from nmt.experiments.runs import Run
from nmt.files import read_json
from nmt.runs.changes import LENGTH, WITHOUT_EFFECT
from nmt.runs.directory import RunDirectory
from nmt.training.opening import Ending, refuse_fewer_updates, refuse_other_config
from nmt.training.progress import Progress


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
