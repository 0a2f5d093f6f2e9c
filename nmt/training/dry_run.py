"""Rehearse training in a temporary directory, so that late failures happen now."""

import math
import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from nmt.config import Config
from nmt.config.schema import Training
from nmt.data.cache import cache_folder, try_cache
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData, prepare
from nmt.data.report import table
from nmt.device import peak_memory, resolve_device, resolve_precision, timed
from nmt.errors import ConfigError
from nmt.messages import Caution, Detail, Result, Say, duration
from nmt.runs.directory import RunDirectory, run_directory
from nmt.runs.loading import load_run
from nmt.runs.metrics import read_metrics
from nmt.training import opening, train
from nmt.training.machine import Machine
from nmt.training.progress import Extent, Progress
from nmt.training.reports import Log, number_of
from nmt.training.trainer import Trainer
from nmt.translation.searching import lines_for

UPDATES = 4
"""The number of updates: the first has the largest batch, the others measure the speed."""
WARM_UPS = 2
"""Rounds of updates before those that are timed on a GPU: eager ones, which compile kernels, and recorded ones."""
RUN, CACHE = "run", "cache"
"""The directories in the temporary directory."""


def dry_run(config: Config, *, resume: bool, overwrite: bool, say: Say) -> None:
    """Do everything once, in a temporary directory, that could fail later: the largest batch, a validation on the
    longest lines, writing and reading a checkpoint, BLEU on the longest lines of the test set; with ``resume``, compare
    configuration and text with those of the run, and load it. Only averaging is left out, which needs nothing else.
    The messages of training itself are details; the results are the estimate and that everything works.

    Raises the errors of training, and ConfigError if checkpoints or cache would not fit on their disks.
    """
    run = run_directory(config, resume=resume, overwrite=overwrite)
    try_cache(config.data)
    if run.path.exists():
        with run.locked(say):  # raises if another process trains there
            pass
    if resume:
        opening.refuse_other_config(run, config)
    with tempfile.TemporaryDirectory(prefix="nmt-dry-run-") as folder:
        once, device = _shortened(config, Path(folder)), resolve_device(config.device)
        done = _check_resume(run, once.model_copy(update={"training": config.training}), say) if resume else Progress()
        found: list[PreparedData] = []

        def narrow(prepared: PreparedData) -> PreparedData:
            say(table(prepared.report))
            found.extend((prepared, _hardest(config, prepared, device)))
            return found[-1]

        def rehearse(line: str) -> None:
            say(line if isinstance(line, Caution) else Detail(line))

        short = RunDirectory(train.train(once, say=rehearse, narrow=narrow))
        disk = _disk(config, run, short, Path(folder) / CACHE)
        whole, hardest = found
        rate = None if device.type == "cpu" else _rate_on_gpu(hardest, short, device)
        share = min(len(hardest.validation_pairs) / len(_validated(config, whole)), 1.0)
        took = estimate(
            config.training, Extent.of(config.training, whole, 1), read_metrics(short.metrics), done, share, rate
        )
        say(Result(f"{took}; {peak_memory(device) / 1e9:.1f} GB of memory; {disk / 1e6:,.1f} MB of disk"))
    say(Result("dry run: everything that training needs is there and works; nothing was kept"))


def _shortened(config: Config, folder: Path) -> Config:
    """The configuration of a short run in a temporary directory."""
    training, samples = config.training, min(1, config.training.validation.samples)
    short = {
        "updates": min(UPDATES, training.updates),
        "average": 1,
        "log_every": 1,
        "validation": training.validation.model_copy(update={"samples": samples}),
    }
    data = config.data.model_copy(update={"cache": str(folder / CACHE)})
    changed = {"output": str(folder / RUN), "data": data, "training": training.model_copy(update=short)}
    return config.model_copy(update=changed)


def _validated(config: Config, prepared: PreparedData) -> list[Pair]:
    """The pairs that validations translate."""
    return prepared.validation_pairs[: config.training.validation.sentences]


def _hardest(config: Config, prepared: PreparedData, device: torch.device) -> PreparedData:
    """Reduce validation and test set to the lines whose translation needs most memory, enough to fill every batch."""
    decoding, source = config.decoding, prepared.tokenizers.source

    def longest(pairs: Sequence[Pair], beam_size: int) -> list[Pair]:
        encoded = source.encode_first([pair.source for pair in pairs], decoding.max_source)
        lengths = [len(pieces) + 1 for pieces, _ in encoded]
        rows = max(1, decoding.batch_tokens // (beam_size * max(lengths, default=1)))
        places = sorted(range(len(pairs)), key=lambda place: -lengths[place])
        return [pairs[place] for place in places[: lines_for(rows, device)]]

    return replace(
        prepared,
        validation_pairs=longest(_validated(config, prepared), config.training.validation.beam_size),
        test_pairs=longest(prepared.test_pairs, decoding.beam_size),
    )


def _rate_on_gpu(prepared: PreparedData, short: RunDirectory, device: torch.device) -> float:
    """Return the target tokens per second of updates as training repeats them on a GPU."""
    with tempfile.TemporaryDirectory() as folder, closing(Log(RunDirectory(folder), lambda _: None)) as log:
        loaded = load_run(short.path, device, "last")
        machine = Machine(device, resolve_precision(loaded.config.precision, device), loaded.config.kernels)
        return warm_rate(train.make_trainer(loaded.config, prepared, loaded.model.train(), short, log, machine))


def warm_rate(trainer: Trainer) -> float:
    """Return the target tokens per second of the first updates once the kernels of their shapes are compiled and
    recorded."""
    groups = [batches for batches, _ in islice(trainer.groups(), UPDATES)]

    def updates() -> int:
        return sum(trainer.update(group).tokens for group in groups)

    for _ in range(WARM_UPS):
        tokens = updates()
    return tokens / timed(updates, trainer.device)


def estimate(
    training: Training,
    extent: Extent,
    records: Sequence[Mapping[str, Any]],
    done: Progress,
    share: float,
    rate: float | None = None,
) -> str:
    """Estimate the time of training from ``done`` on from the metrics of a short run, or from ``rate`` target tokens
    per second.

    The short run validated on a ``share`` of the pairs. An untrained network writes long translations, so later
    validations take less time.
    """
    rates = [each["target_tokens_per_second"] for each in records if each["split"] == "train"]
    rate = rate or statistics.median(rates[1:] or rates)
    seconds = next(each["seconds"] for each in records if each["split"] == "validation") / share
    updates, every = training.updates - done.update, training.validation.every
    epochs, count = extent.epochs(updates), math.ceil(training.updates / every) - done.update // every
    return (
        f"estimate: about {duration(epochs * extent.tokens / rate)} for {number_of(updates, 'update')} "
        f"({epochs:,.1f} epochs, {rate:,.0f} target tokens/s), and up to {duration(count * seconds)} for "
        f"{number_of(count, 'validation')}"
    )


def _disk(config: Config, run: RunDirectory, short: RunDirectory, cache: Path) -> int:
    """Return the bytes that the files of training will take on disk, judging by those of the dry run.

    Raises ConfigError if they would not fit on their disks.
    """
    best, last = _size(short.checkpoints / "best"), _size(short.checkpoints / "last")
    kept = config.training.average if config.training.average > 1 else 0
    # last, previous, and a new one of each while it is written
    checkpoints = 3 * last + (2 + kept) * best
    real = cache_folder(config.data.cache)
    encoded = sum(_size(entry) for entry in cache.iterdir() if not (real / entry.name).exists())
    problems = []
    for what, place, needed, there in (
        (f"output: {run.path}: the checkpoints need", run.path, checkpoints, _size(run.checkpoints)),
        (f"data.cache: {real}: the encoded text needs", real, encoded, 0),
    ):
        existing = next(path for path in (place, *place.absolute().parents) if path.exists())
        same = existing.stat().st_dev == short.path.stat().st_dev
        free = shutil.disk_usage(existing).free + there + (_size(short.path) + _size(cache) if same else 0)
        if needed > free:
            problems.append(f"{what} {needed / 1e6:,.1f} MB; {free / 1e6:,.1f} MB are free there")
    if problems:
        raise ConfigError(*problems)
    return checkpoints + encoded


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _check_resume(run: RunDirectory, config: Config, say: Say) -> Progress:
    """Return the progress of a run, which is only read. Raises the errors of resuming it."""
    machine, prepared = Machine(resolve_device(config.device)), prepare(config, say)
    opening.refuse_other_data(run, opening.make_manifest(config, prepared, machine))
    with tempfile.TemporaryDirectory() as folder, closing(Log(RunDirectory(folder), say)) as log:
        model = train.make_model(config.model, prepared.tokenizers)
        checkpointing = train.make_trainer(config, prepared, model, run, log, machine).checkpointing
        progress = checkpointing.restore(run.resumable(say))
        opening.refuse_fewer_updates(config.training.updates, progress)
        for problems in checkpointing.damaged(progress).values():
            say("; ".join(problems))
    say(f"{run.path} can be resumed after update {progress.update}")
    return progress
