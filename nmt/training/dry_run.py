"""Rehearse training in a temporary directory, so that late failures happen now."""

import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from nmt.config import Config
from nmt.data.cache import cache_folder, try_cache
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData, prepare
from nmt.data.report import table
from nmt.device import peak_memory, resolve_device, timed
from nmt.errors import ConfigError, DataError, NmtError
from nmt.files import printable
from nmt.messages import Caution, Detail, Result, duration
from nmt.runs.directory import RunDirectory, run_directory
from nmt.runs.loading import load_run
from nmt.training import opening, pipeline
from nmt.training.log import Log
from nmt.training.progress import Extent, Progress
from nmt.training.reports import number_of
from nmt.training.trainer import Trainer
from nmt.translation.searching import lines_for

PREFIX = "nmt-dry-run-"
"""The prefix of the name of the temporary directory."""
UPDATES = 4
"""The number of updates: the first has the largest batch, the others measure the speed."""
WARM_UPS = 2
"""Rounds of updates before those that are timed on a GPU: eager ones, which compile kernels, and recorded ones."""
RUN, CACHE = "run", "cache"
"""The directories in the temporary directory."""


def dry_run(config: Config, *, resume: bool, overwrite: bool, say: pipeline.Say) -> None:
    """Do everything once, in a temporary directory, that could fail later: the largest batch, a validation on the
    longest lines, writing and reading a checkpoint, BLEU on the longest lines of the test set; with ``resume``, compare
    configuration and text with those of the run, and load it. Only averaging is left out, which needs nothing else.
    The messages of training itself are details; the results are the estimate and that everything works.

    Raises the errors of training, and ConfigError if checkpoints or cache would not fit on their disks.
    """
    run = run_directory(config, resume=resume, overwrite=overwrite)
    try_cache(config.data)
    _check_temporary_directory(say)
    if run.path.exists():
        with run.locked(say):  # raises if another process trains there
            pass
    if resume:
        opening.refuse_other_config(run, config)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder, _explained(folder):
        training = config.training
        once = config.model_copy(
            update={
                "output": str(Path(folder) / RUN),
                "data": config.data.model_copy(update={"cache": str(Path(folder) / CACHE)}),
                "training": training.model_copy(
                    update={
                        "updates": min(UPDATES, training.updates or UPDATES),
                        "epochs": None,
                        "average": 1,
                        "log_every": 1,
                        "validation": training.validation.model_copy(
                            update={"samples": min(1, training.validation.samples)}
                        ),
                    }
                ),
            }
        )
        done = _check_resume(run, once.model_copy(update={"training": training}), say) if resume else Progress()
        found: list[PreparedData] = []

        def narrow(prepared: PreparedData) -> PreparedData:
            say(table(prepared.report))
            found.extend((prepared, _hardest(config, prepared)))
            return found[-1]

        def rehearse(line: str) -> None:
            say(line if isinstance(line, Caution) else Detail(line))

        pipeline.train_run(once, say=rehearse, narrow=narrow)
        disk = _disk(config, run, Path(folder))
        whole, hardest = found
        short = RunDirectory(Path(folder) / RUN)
        device = resolve_device(config.device)
        rate = None if device.type == "cpu" else _warm_rate(once, hardest, short, device)
        say(Result(f"{estimate(config, whole, hardest, short, done, rate)}; {disk}"))
    say(Result("dry run: everything that training needs is there and works; nothing was kept"))


def _check_temporary_directory(say: pipeline.Say) -> None:
    """Raise ConfigError for a temporary directory whose name is not UTF-8; say so if TMPDIR is not used."""
    found, named = tempfile.gettempdir(), os.environ.get("TMPDIR")
    if printable(found) != found:
        raise ConfigError(f"TMPDIR: {printable(found)}: a name that is not UTF-8; set it to another directory")
    if named and not os.access(named, os.W_OK | os.X_OK):
        say(f"TMPDIR: {named}: not writable; the dry run uses {found}")


@contextmanager
def _explained(folder: str) -> Iterator[None]:
    """Explain the temporary directory in errors that mention it."""
    try:
        yield
    except (NmtError, OSError) as error:
        problems = error.problems if isinstance(error, NmtError) else [f"{error.filename}: {error.strerror}"]
        if not any(folder in problem for problem in problems):
            raise
        # the cache of a dry run is not at data.cache
        problems = [problem.partition("; set data.cache")[0] for problem in problems]
        explanation = f"{folder} is the temporary directory of the dry run; if it is full, set TMPDIR to a larger disk"
        raise DataError(*problems, explanation) from error


def _hardest(config: Config, prepared: PreparedData) -> PreparedData:
    """Reduce validation and test set to the lines whose translation needs most memory, enough to fill every batch."""
    decoding, validation, source = config.decoding, config.training.validation, prepared.tokenizers.source
    device = resolve_device(config.device)

    def longest(pairs: Sequence[Pair], beam_size: int) -> list[Pair]:
        encoded = source.encode_first([pair.source for pair in pairs], decoding.max_source)
        lengths = [len(pieces) + 1 for pieces, _ in encoded]
        rows = max(1, decoding.batch_tokens // (beam_size * max(lengths, default=1)))
        places = sorted(range(len(pairs)), key=lambda place: -lengths[place])
        return [pairs[place] for place in places[: lines_for(rows, device)]]

    return replace(
        prepared,
        validation_pairs=longest(prepared.validation_pairs[: validation.sentences], validation.beam_size),
        test_pairs=longest(prepared.test_pairs, decoding.beam_size),
    )


def _warm_rate(config: Config, prepared: PreparedData, short: RunDirectory, device: torch.device) -> float:
    """Return the target tokens per second of updates as training repeats them on a GPU."""
    with tempfile.TemporaryDirectory() as folder, closing(Log(RunDirectory(folder), lambda _: None)) as log:
        loaded = load_run(short.path, device, "last")
        trainer = Trainer(loaded.config, prepared, loaded.model.train(), short, log, device)
        return warm_rate(trainer)


def warm_rate(trainer: Trainer) -> float:
    """Return the target tokens per second of the first updates once the kernels of their shapes are compiled and
    recorded."""
    batches = trainer.batches()
    groups = [[batch for _, batch in islice(batches, trainer.config.accumulation)] for _ in range(UPDATES)]

    def updates() -> int:
        return sum(trainer.update(group, trainer.progress.position).tokens for group in groups)

    for _ in range(WARM_UPS):
        tokens = updates()
    return tokens / timed(updates, trainer.device)


def estimate(
    config: Config,
    prepared: PreparedData,
    narrowed: PreparedData,
    short: RunDirectory,
    done: Progress,
    rate: float | None = None,
) -> str:
    """Estimate the time of training from ``done`` on, and its memory, from a short run, or from ``rate`` target tokens
    per second.

    The short run validated on the pairs of ``narrowed`` alone. An untrained network writes long translations, so later
    validations take less time.
    """
    training, validation = config.training, config.training.validation
    lines = [json.loads(line) for line in short.metrics.read_text("utf-8").splitlines()]
    rates = [line["target_tokens_per_second"] for line in lines if line["split"] == "train"]
    rate = rate or statistics.median(rates[1:] or rates)
    extent = Extent.of(config, prepared, 1)
    total = extent.total(training, done)
    updates = total - done.update
    epochs = extent.epochs_left(training, done)
    tokens = epochs * extent.tokens
    pairs = prepared.validation_pairs[: validation.sentences]
    share = max(1.0, len(pairs) / len(narrowed.validation_pairs))
    seconds = share * next(line["seconds"] for line in lines if line["split"] == "validation")
    _, count = extent.validations(training, done)
    return (
        f"estimate: about {duration(tokens / rate)} for {number_of(updates, 'update')} ({epochs:,.1f} epochs, "
        f"{rate:,.0f} target tokens/s), and up to {duration(count * seconds)} for {number_of(count, 'validation')}; "
        f"{peak_memory(resolve_device(config.device)) / 1e9:.1f} GB of memory"
    )


def _disk(config: Config, run: RunDirectory, folder: Path) -> str:
    """Return how much disk the files of training will take, judging by those of the dry run.

    Raises ConfigError if they would not fit on their disks.
    """
    short, cache = RunDirectory(folder / RUN), folder / CACHE
    best, last = _size(short.checkpoints / "best"), _size(short.checkpoints / "last")
    average = config.training.average
    kept = 0 if average == 1 else average
    # last, previous, and a new one of each while it is written
    checkpoints = 3 * last + (2 + kept) * best
    real = cache_folder(config.data.cache)
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
            needs = [f"{what} {needed / 1e6:,.1f} MB" for what, _, needed, _ in wants if needed]
            problems.append(f"{'; '.join(needs)}; {free / 1e6:,.1f} MB are free there")
    if problems:
        raise ConfigError(*problems)
    return f"{(checkpoints + encoded) / 1e6:,.1f} MB of disk"


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _check_resume(run: RunDirectory, config: Config, say: pipeline.Say) -> Progress:
    """Return the progress of a run, which is only read. Raises the errors of resuming it."""
    device = resolve_device(config.device)
    prepared = prepare(config, say)
    opening.refuse_other_data(run, opening.make_manifest(config, prepared))
    with tempfile.TemporaryDirectory() as folder, closing(Log(RunDirectory(folder), say)) as log:
        trainer = Trainer(config, prepared, pipeline.make_model(config, prepared), run, log, device)
        progress = trainer.checkpointing.restore(run.resumable(say))
        opening.refuse_fewer_updates(config, progress)
        for problems in trainer.checkpointing.damaged(progress).values():
            say("; ".join(problems))
    say(f"{run.path} can be resumed after update {progress.update}")
    return progress
