"""The run directory that a configuration names: what must not be touched is refused before anything is done."""

import os
from pathlib import Path

from nmt.config import Config
from nmt.errors import CheckpointError, ConfigError
from nmt.files import why_unwritable
from nmt.runs.directory import RunDirectory

MOST_NAMED = 3
"""The number of files that a message names."""


def run_directory(config: Config, *, resume: bool, overwrite: bool) -> RunDirectory:
    """The run directory of a configuration. Raises ConfigError if there is none, or if it must not be used."""
    if not config.output:
        raise ConfigError("output: no run directory is named; give --output RUN, or output: in the configuration")
    run = RunDirectory(config.output)
    if not os.fsencode(config.output).decode(errors="ignore") == config.output:
        raise ConfigError(f"output: {config.output!r}: a name that is not UTF-8; config.yaml could not hold it")
    if resume and overwrite:
        raise ConfigError("--resume and --overwrite exclude each other")
    for folder in (run.path, run.checkpoints, run.tokenizer, run.tensorboard):
        _refuse_unwritable(folder)
    run.refuse_links()
    if not run.exists and run.foreign:
        found = ", ".join(run.foreign[:MOST_NAMED]) + (", ..." if len(run.foreign) > MOST_NAMED else "")
        raise ConfigError(f"output: {run.path} holds other files ({found}); name a new or empty directory")
    if run.exists and not (resume or overwrite):
        with run.locked(lambda _: None):  # do not suggest to replace a run that is in training
            raise existing_run_error(run)
    if resume and not run.exists:
        raise CheckpointError(f"{run.path}: there is no run to resume; start it without --resume")
    if resume and not run.has("last"):
        raise CheckpointError(f"{run.checkpoints / 'last'}: missing, nothing to resume from; start with --overwrite")
    return run


def existing_run_error(run: RunDirectory) -> ConfigError:
    """Return the error that says how to go on where there is a run."""
    if not run.has("last"):
        return ConfigError(f"output: {run.path} holds a run without a checkpoint; replace it with --overwrite")
    return ConfigError(f"output: {run.path} holds a run; continue it with --resume, or replace it with --overwrite")


def _refuse_unwritable(folder: Path) -> None:
    """Raise ConfigError for a directory that cannot be created or is not writable."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ConfigError(f"output: {existing} is a file; name a directory")
    if problem := why_unwritable(existing):
        raise ConfigError(
            f"output: {existing} is not writable ({problem}); choose another directory or change its permissions"
        )
