"""A training in a folder that vanishes, for all to fail now that would fail after hours."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from nmt.checkpoint import RunDirectory
from nmt.config import Config
from nmt.corpus import Pair
from nmt.dataset import Prepared, cache_folder, prepare, remove_dead, try_cache
from nmt.device import resolve_device
from nmt.errors import ConfigError, DataError, NmtError
from nmt.files import readable
from nmt.training.log import Log
from nmt.training.pipeline import (
    Say,
    make_manifest,
    make_model,
    refuse_fewer_updates,
    refuse_other_config,
    refuse_other_data,
    run_directory,
    train_run,
)
from nmt.training.trainer import Trainer
from nmt.translator import lines_for

PREFIX = "nmt-dry-run-"
"""Of the name of the folder that vanishes."""
RUN, CACHE = "run", "cache"
"""What is in it."""


def dry_run(config: Config, *, resume: bool, overwrite: bool, say: Say) -> None:
    """Do once, in a folder that vanishes, everything that could fail later: the largest batch, a validation of the
    longest lines, a checkpoint written and read, BLEU of the test set's longest lines; with ``resume``, compare
    configuration and text with those of the run, and load it. Only the mean of several checkpoints is left out: it
    needs nothing else.

    Raises what training would, and ConfigError if checkpoints or cache would not fit on their disks.
    """
    run = run_directory(config, resume=resume, overwrite=overwrite)
    try_cache(config)
    _try_temporary_folder(say)
    remove_dead(Path(tempfile.gettempdir()), PREFIX)
    if run.path.exists():
        with run.locked(say):  # nobody else trains there
            pass
    if resume:
        refuse_other_config(run, config)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder, _in(folder):
        training = config.training
        once = config.model_copy(
            update={
                "output": str(Path(folder) / RUN),
                "data": config.data.model_copy(update={"cache": str(Path(folder) / CACHE)}),
                "training": training.model_copy(update={"updates": 1, "average": 1}),
            }
        )
        if resume:
            _try_restoring(run, once.model_copy(update={"training": training}), say)
        train_run(once, say=say, narrowed=lambda prepared: _hardest(config, prepared))
        _refuse_small_disks(config, run, Path(folder))
    say("dry run: everything that training needs is there and works; nothing was kept")


def _try_temporary_folder(say: Say) -> None:
    """Raise ConfigError for a folder for temporary files that has no name a run can have; say if another is meant."""
    found, named = tempfile.gettempdir(), os.environ.get("TMPDIR")
    if readable(found) != found:
        raise ConfigError(f"TMPDIR: {readable(found)}: a name that is not UTF-8; set it to another folder")
    if named and not os.access(named, os.W_OK | os.X_OK):
        say(f"TMPDIR: {named}: cannot be written to; the dry run works in {found}")


@contextmanager
def _in(folder: str) -> Iterator[None]:
    """To an error in this folder, of which nobody has heard, it is added what the folder is."""
    try:
        yield
    except (NmtError, OSError) as error:
        told = error.problems if isinstance(error, NmtError) else [f"{error.filename}: {error.strerror}"]
        if not any(folder in problem for problem in told):
            raise
        what = (problem.partition("; set data.cache")[0] for problem in told)  # which is not where that is
        raise DataError(
            *what, f"{folder} is where a dry run works; if it has too little room, set TMPDIR to a folder with more"
        ) from error


def _hardest(config: Config, prepared: Prepared) -> Prepared:
    """Of validation and test set, the lines whose translation needs most memory: so many that batches are as large."""
    decoding, validation, source = config.decoding, config.training.validation, prepared.tokenizers.source
    device = resolve_device(config.device)

    def longest(pairs: Sequence[Pair], beam_size: int) -> list[Pair]:
        encoded = source.encode_first([pair.source for pair in pairs], decoding.max_source)
        lengths = [min(len(pieces), decoding.max_source) + 1 for pieces in encoded]
        rows = max(1, decoding.batch_tokens // (beam_size * max(lengths, default=1)))
        places = sorted(range(len(pairs)), key=lambda place: -lengths[place])
        return [pairs[place] for place in places[: lines_for(rows, device)]]

    return replace(
        prepared,
        validation_pairs=longest(prepared.validation_pairs[: validation.sentences], validation.beam_size),
        test_pairs=longest(prepared.test_pairs, decoding.beam_size),
    )


def _refuse_small_disks(config: Config, run: RunDirectory, folder: Path) -> None:
    """Raise ConfigError if what a training writes would not fit where it goes, by what it wrote into a folder that is
    going to vanish."""
    tried, cache = RunDirectory(folder / RUN), folder / CACHE
    best, last = _size(tried.checkpoints / "best"), _size(tried.checkpoints / "last")
    average = config.training.average
    checkpoints = 3 * last + (2 + (average if average > 1 else 0)) * best  # last, previous, each once more, aside
    real = cache_folder(config)
    encoded = sum(_size(entry) for entry in cache.iterdir() if not (real / entry.name).exists())
    disks: dict[int, list[tuple[str, Path, int, int]]] = {}
    for what, place, needed, there in (
        (f"output: {run.path}: the checkpoints need", run.path, checkpoints, _size(run.checkpoints)),
        (f"data.cache: {real}: the encoded text needs", real, encoded, 0),
    ):
        existing = next(path for path in (place, *place.absolute().parents) if path.exists())
        disks.setdefault(existing.stat().st_dev, []).append((what, existing, needed, there))
    problems = []
    for disk, wants in disks.items():
        free = shutil.disk_usage(wants[0][1]).free + sum(there for *_, there in wants)
        free += _size(folder) if folder.stat().st_dev == disk else 0
        if sum(needed for _, _, needed, _ in wants) > free:
            told = [f"{what} {needed / 1e6:,.1f} MB" for what, _, needed, _ in wants if needed]
            problems.append(f"{'; '.join(told)}; {free / 1e6:,.1f} MB are free there")
    if problems:
        raise ConfigError(*problems)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _try_restoring(run: RunDirectory, config: Config, say: Say) -> None:
    """Raise what resuming a run would; it is only read."""
    device = resolve_device(config.device)
    prepared = prepare(config, say)
    refuse_other_data(run, make_manifest(config, prepared, device))
    with tempfile.TemporaryDirectory() as folder, closing(Log(RunDirectory(folder), say)) as log:
        trainer = Trainer(config, prepared, make_model(config, prepared), run, log, device)
        trainer.restore(run.resumable(say))
        refuse_fewer_updates(config, trainer.progress)
        for problems in trainer.damaged().values():
            say("; ".join(problems))
    say(f"{run.path} can be resumed after update {trainer.progress.update}")
