"""Rehearse training in a temporary directory, so that late failures happen now."""

import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from nmt.config import Config
from nmt.config.schema import Training
from nmt.data.cache import cache_folder, try_cache
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData, prepare
from nmt.data.report import table
from nmt.device import peak_memory, resolve_device, resolve_precision, timed
from nmt.errors import ConfigError
from nmt.files import read_json
from nmt.messages import Caution, Detail, Result, Say, duration
from nmt.runs.directory import RunDirectory, run_directory
from nmt.runs.metrics import read_metrics
from nmt.training import opening, train
from nmt.training.machine import Machine
from nmt.training.progress import Extent, Progress
from nmt.training.reports import Log, number_of
from nmt.training.trainer import Trainer
from nmt.translation.searching import lines_for

TIMED = 4
"""Updates whose speed is measured."""
WARM_UPS = 2
"""Rounds of them before, on a GPU: eager updates, which compile kernels, and recorded ones."""


def dry_run(config: Config, *, resume: bool, overwrite: bool, say: Say) -> None:
    """Do everything once, in a temporary directory, that could fail later: an update with the largest batch, a
    validation on the longest lines, writing and reading a checkpoint, BLEU on the longest lines of the test set; with
    ``resume``, compare configuration and text with those of the run, and load it. Only averaging is left out, which
    needs nothing else. The messages of training itself are details; the results are the estimate and that everything
    works.

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
        cache, device = Path(folder, "cache"), resolve_device(config.device)
        config_here = config.model_copy(update={"data": config.data.model_copy(update={"cache": str(cache)})})
        done = _check_resume(run, config_here, say) if resume else Progress()
        found: list[PreparedData] = []

        def narrow(prepared: PreparedData) -> PreparedData:
            say(table(prepared.report))
            found.extend((prepared, _hardest(config, prepared, device)))
            return found[-1]

        def rehearse(line: str) -> None:
            say(line if isinstance(line, Caution) else Detail(line))

        short = RunDirectory(train.train(_one_update(config_here, Path(folder, "run")), say=rehearse, narrow=narrow))
        whole, hardest = found
        with _trainer(config_here, hardest, short) as trainer:
            rate = speed(trainer, WARM_UPS if device.type == "cuda" else 0)
        [validation] = [each["seconds"] for each in read_metrics(short.metrics) if each["split"] == "validation"]
        pairs = whole.validation_pairs[: config.training.validation.sentences]
        share = min(1.0, len(hardest.validation_pairs) / len(pairs))
        took = estimate(config.training, Extent.of(config.training, whole, 1), done, rate, validation, share)
        files = _files(config, run, short, cache)
    _refuse_full_disks(files)
    disk = sum(size for _, _, size in files)
    say(Result(f"{took}; {peak_memory(device) / 1e9:.1f} GB of memory; {disk / 1e6:,.1f} MB of disk"))
    say(Result("dry run: everything that training needs is there and works; nothing was kept"))


def _one_update(config: Config, output: Path) -> Config:
    """The configuration of a run of one update, which has the largest batch."""
    validation = config.training.validation
    validation = validation.model_copy(update={"samples": min(1, validation.samples)})
    training = config.training.model_copy(update={"updates": 1, "average": 1, "log_every": 1, "validation": validation})
    return config.model_copy(update={"output": str(output), "training": training})


def _hardest(config: Config, prepared: PreparedData, device: torch.device) -> PreparedData:
    """Reduce validation and test set to the lines whose translation needs most memory, enough to fill every batch."""
    decoding, source, validation = config.decoding, prepared.tokenizers.source, config.training.validation

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


@contextmanager
def _trainer(config: Config, prepared: PreparedData, run: RunDirectory) -> Iterator[Trainer]:
    """A trainer of a run that has not begun, and that reports nowhere."""
    device = resolve_device(config.device)
    machine = Machine(device, resolve_precision(config.precision, device), config.kernels)
    model = train.make_model(config.model, prepared.tokenizers)
    with tempfile.TemporaryDirectory() as folder:
        log = Log(RunDirectory(folder), train.silent)
        yield train.make_trainer(config, prepared, model, run, log, machine)


def _check_resume(run: RunDirectory, config: Config, say: Say) -> Progress:
    """Return the progress of a run, which is only read. Raises the errors of resuming it."""
    prepared = prepare(config, say)
    with _trainer(config, prepared, run) as trainer:
        checkpointing = trainer.checkpointing
        manifest = opening.make_manifest(config, prepared, checkpointing.machine)
        opening.refuse_other_data(run, read_json(run.manifest), manifest)
        progress = checkpointing.restore(run.resumable(say))
        opening.refuse_fewer_updates(config.training.updates, progress)
        for problems in checkpointing.damaged(progress).values():
            say("; ".join(problems))
    say(f"{run.path} can be resumed after update {progress.update}")
    return progress


# --- the estimate -----------------------------------------------------------------------------------------------------


def speed(trainer: Trainer, warm_ups: int) -> float:
    """Return the target tokens per second of the first updates, after ``warm_ups`` rounds of them."""
    groups = [batches for batches, _ in islice(trainer.groups(), TIMED)]

    def updates() -> None:
        for group in groups:
            trainer.update(group)

    for _ in range(warm_ups):
        updates()
    tokens = sum(batch.target_tokens for group in groups for batch in group)
    return tokens / timed(updates, trainer.device)


def estimate(training: Training, extent: Extent, done: Progress, rate: float, validation: float, share: float) -> str:
    """Estimate the time of training from ``done`` on, at a ``rate`` of target tokens per second, when a ``validation``
    of a ``share`` of the pairs takes so many seconds.

    An untrained network writes long translations, so later validations take less time.
    """
    updates, every = training.updates - done.update, training.validation.every
    epochs, count = extent.epochs(updates), math.ceil(training.updates / every) - done.update // every
    return (
        f"estimate: about {duration(epochs * extent.tokens / rate)} for {number_of(updates, 'update')} "
        f"({epochs:,.1f} epochs, {rate:,.0f} target tokens/s), and up to {duration(count * validation / share)} for "
        f"{number_of(count, 'validation')}"
    )


def _files(config: Config, run: RunDirectory, short: RunDirectory, cache: Path) -> list[tuple[str, Path, int]]:
    """Return the key, the place and the bytes of what training will write, judging by the files of a short run."""
    best, last = _size(short.checkpoints / "best"), _size(short.checkpoints / "last")
    averaged = config.training.average if config.training.average > 1 else 0
    real = cache_folder(config.data.cache)
    return [
        # last, previous, and a new one of each while it is written
        ("output", run.path, max(0, 3 * last + (2 + averaged) * best - _size(run.checkpoints))),
        ("data.cache", real, sum(_size(entry) for entry in cache.iterdir() if not (real / entry.name).exists())),
    ]


def _refuse_full_disks(files: Sequence[tuple[str, Path, int]]) -> None:
    """Raise ConfigError, with the key and the place, for files that do not fit on their disks."""
    problems = []
    for key, place, size in files:
        existing = next(path for path in (place, *place.absolute().parents) if path.exists())
        if size > (free := shutil.disk_usage(existing).free):
            needed = f"{key}: {place}: training needs {size / 1e6:,.1f} MB"
            problems.append(f"{needed}; {free / 1e6:,.1f} MB are free there")
    if problems:
        raise ConfigError(*problems)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
