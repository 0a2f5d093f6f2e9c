"""A training in a folder that vanishes, for all to fail now that would fail after hours."""

import json
import os
import resource
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from nmt.config import Config
from nmt.data.batching import plan_epoch
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData, cache_folder, prepare, remove_abandoned, try_cache
from nmt.errors import ConfigError, DataError, NmtError
from nmt.foundation.device import resolve_device
from nmt.foundation.files import printable
from nmt.runs.directory import RunDirectory
from nmt.training.log import Log, duration
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
from nmt.translation.windows import lines_for

PREFIX = "nmt-dry-run-"
"""Of the name of the folder that vanishes."""
UPDATES = 4
"""Updates that are tried: the first is of the largest batch, the others tell the rate."""
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
    remove_abandoned(Path(tempfile.gettempdir()), PREFIX)
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
                "training": training.model_copy(
                    update={"updates": min(UPDATES, training.updates), "average": 1, "log_every": 1}
                ),
            }
        )
        made = _try_restoring(run, once.model_copy(update={"training": training}), say) if resume else 0
        found: list[PreparedData] = []

        def narrowed(prepared: PreparedData) -> PreparedData:
            found.extend((prepared, _hardest(config, prepared)))
            return found[-1]

        train_run(once, say=say, narrowed=narrowed)
        _refuse_small_disks(config, run, Path(folder))
        whole, hardest = found
        say(estimate(config, whole, hardest, RunDirectory(Path(folder) / RUN), made))
    say("dry run: everything that training needs is there and works; nothing was kept")


def _try_temporary_folder(say: Say) -> None:
    """Raise ConfigError for a folder for temporary files that has no name a run can have; say if another is meant."""
    found, named = tempfile.gettempdir(), os.environ.get("TMPDIR")
    if printable(found) != found:
        raise ConfigError(f"TMPDIR: {printable(found)}: a name that is not UTF-8; set it to another folder")
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


def _hardest(config: Config, prepared: PreparedData) -> PreparedData:
    """Of validation and test set, the lines whose translation needs most memory: so many that batches are as large."""
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


def estimate(config: Config, prepared: PreparedData, narrowed: PreparedData, tried: RunDirectory, made: int = 0) -> str:
    """How long training will take after the updates ``made``, and how much memory it needs, by what a short run took.

    ``tried`` is that run, which validated on the pairs of ``narrowed`` alone.

    A network that has learned nothing writes long translations, so that validations take less time later.
    """
    training, validation = config.training, config.training.validation
    lines = [json.loads(line) for line in tried.metrics.read_text("utf-8").splitlines()]
    rates = [line["target_tokens_per_second"] for line in lines if line["split"] == "train"]
    rate = statistics.median(rates[1:] or rates)
    lengths = prepared.train.source_lengths, prepared.train.target_lengths
    batches = len(plan_epoch(*lengths, training.batch_tokens, seed=config.seed, epoch=0))
    updates = training.updates - made
    epochs = updates * training.accumulation / batches
    tokens = epochs * (int(prepared.train.target_lengths.sum()) + len(prepared.train))
    pairs = prepared.validation_pairs[: validation.sentences]
    share = max(1.0, len(pairs) / len(narrowed.validation_pairs))
    seconds = share * next(line["seconds"] for line in lines if line["split"] == "validation")
    count = training.updates // validation.every - made // validation.every + (made == 0)
    return (
        f"estimate: about {duration(tokens / rate)} for {updates:,} updates ({epochs:,.1f} epochs, "
        f"{rate:,.0f} target tokens/s), and up to {duration(count * seconds)} for {count:,} validations; "
        f"{_peak_memory(resolve_device(config.device)) / 1e9:.1f} GB of memory"
    )


def _peak_memory(device: torch.device) -> int:
    """Bytes that were used at most: on a GPU by tensors, on a CPU by the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


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


def _try_restoring(run: RunDirectory, config: Config, say: Say) -> int:
    """Raise what resuming a run would; it is only read. -> the updates that it has made."""
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
    return trainer.progress.update
