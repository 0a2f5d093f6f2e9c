"""From a configuration to a trained and scored run."""

import os
import platform
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt import __version__
from nmt.config import Config, dump_config
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData, prepare
from nmt.data.report import describe
from nmt.errors import CheckpointError, ConfigError, Stopped
from nmt.evaluation.by_length import score_system
from nmt.evaluation.writing import BinnedBy, lengths, tokenizer_of_run, unit_of
from nmt.foundation.device import keep_freed_memory, resolve_device, resolve_precision
from nmt.foundation.files import why_unwritable, write_json, write_text
from nmt.foundation.messages import Result, counted
from nmt.foundation.speed import product_rate
from nmt.foundation.world import ONE_PROCESS, World, in_shares, in_turn, on_writer, share_tensors
from nmt.model import Seq2Seq, build_model
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import LoadedRun, load_run
from nmt.runs.metrics import cut_metrics, read_metrics
from nmt.training.checkpointing import saved_progress
from nmt.training.extent import flops_per_token
from nmt.training.log import Log
from nmt.training.progress import Progress
from nmt.training.refusals import (
    refuse_fewer_updates,
    refuse_other_config,
    refuse_other_data,
    refuse_unequal,
    refuse_unequal_data,
    say_other_number,
)
from nmt.training.summary import hyperparameters, summary
from nmt.training.trainer import Trainer
from nmt.training.trust import GPUS, trusted
from nmt.training.validation import gold_pairs
from nmt.translation.options import SearchOptions
from nmt.translation.translator import CheckStop, Translator
from nmt.translation.windows import WINDOW

Say = Callable[[str], None]
NO_STOP_REQUEST: AbstractContextManager[Callable[[], bool]] = nullcontext(lambda: False)

BEGUN = "begun"
"""What a launch remembers as soon as its run has been created or opened."""
MOST_NAMED = 3
"""The number of files that a message names."""


def train_run(
    config: Config,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Say,
    stop_request: AbstractContextManager[Callable[[], bool]] = NO_STOP_REQUEST,
    narrow: Callable[[PreparedData], PreparedData] = lambda prepared: prepared,
    world: World = ONE_PROCESS,
    distrusted: Collection[str] = GPUS,
) -> bool:
    """Prepare, train, validate, keep the best checkpoint and score the test set; return False if stopped early.

    ``resume`` continues the run in its directory (past its last update, it repeats only the steps after that), and
    ``overwrite`` replaces it. ``stop_request`` is entered before anything is written into the run; its value says,
    between two updates or batches, whether to stop. ``narrow`` may leave out a part of the prepared data. ``world``:
    the processes that train together, each of which calls this function; one of them reads and writes the run.
    ``distrusted``: the types of devices on which the fast kernels are tried before they are used.

    Raises ConfigError if the run exists and neither ``resume`` nor ``overwrite`` is set, or if it was started with
    another configuration; DataError and CheckpointError as the parts do.
    """
    refuse_unequal(world, config)
    say = say if world.writes else _say_nothing

    def examine() -> None:
        run = run_directory(config, resume=resume, overwrite=overwrite)
        if resume:
            refuse_other_config(run, config)

    on_writer(world, examine)
    run = RunDirectory(config.output or "")
    device = resolve_device(config.device)
    if device.type == "cpu":
        keep_freed_memory()
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    tokenizer_of_run(config)  # fails before the slow part if it is not installed
    prepared = narrow(in_turn(world, lambda: prepare(config, say)))
    refuse_unequal_data(world, prepared)
    if not resume:
        say(describe(prepared.report))
    gold_pairs(config)
    model = _same_model(config, prepared, world)  # before the run directory is touched, because it may fail
    used = trusted(config, prepared, device, world, say, distrusted)
    with ExitStack() as stack:
        on_writer(world, lambda: stack.enter_context(run.locked(say)))
        stop_requested = stack.enter_context(stop_request)
        checkpoint = on_writer(
            world, lambda: _open(run, config, prepared, resume=resume, overwrite=overwrite, say=say, world=world)
        )
        world.remember(BEGUN)
        rate, token_seconds = _speeds(config, prepared, device, world)
        purge = on_writer(world, lambda: _cut(run, checkpoint) if checkpoint else None)
        with closing(Log(run, say, purge=purge, world=world)) as log:
            trainer = Trainer(used, prepared, model, run, log, device, world, token_seconds)
            for line in summary(used, prepared, model, device, trainer.extent, rate):
                say(line)
            if checkpoint:
                trainer.resume(checkpoint)
                say(f"resumed after update {trainer.progress.update}")
            else:
                trainer.save()  # makes the run resumable, and fails now if the disk is full

            def check_stop() -> None:
                if stop_requested():
                    raise Stopped

            try:
                trainer.fit(check_stop)
                trainer.average_best(check_stop)
                if prepared.test_pairs:
                    best = best_run(used, prepared, run, device, world)
                    score_test(best, run, prepared.test_pairs, log, trainer.progress.update, check_stop, world)
                log.hyperparameters(hyperparameters(config), final_metrics(run))
                _say_best(trainer.progress, run, log)
            except Stopped:
                return False
    return True


def _open(
    run: RunDirectory,
    config: Config,
    prepared: PreparedData,
    *,
    resume: bool,
    overwrite: bool,
    say: Say,
    world: World,
) -> str | None:
    """Create or repair the run directory; return the checkpoint to resume from, None for a new run."""
    manifest = make_manifest(config, prepared) | {"processes": world.size}
    if resume:
        refuse_other_config(run, config)  # again, because another process may have changed the run
        refuse_other_data(run, manifest)
        say_other_number(run, world, say)
        whole = run.resumable(say)
        refuse_fewer_updates(config, saved_progress(run, whole))
        if whole == "previous":
            run.fall_back()
        write_text(run.config, dump_config(config))
        prepared.tokenizers.save(run.tokenizer)  # the same, in case a file was damaged
        _save_language_id(run, prepared)
        return "last"
    if overwrite:
        run.remove()
    elif run.exists:  # another process has made it since the first check
        raise _existing_run_error(run)
    run.create(config, prepared.tokenizers, prepared.report, manifest)
    _save_language_id(run, prepared)
    return None


def _save_language_id(run: RunDirectory, prepared: PreparedData) -> None:
    if prepared.language_id:
        prepared.language_id.save(run.path)


def _cut(run: RunDirectory, checkpoint: str) -> int:
    """Remove the metrics of the updates after a checkpoint; -> the first step that TensorBoard is to forget."""
    saved = saved_progress(run, checkpoint)
    for path in (run.metrics, run.samples):
        cut_metrics(path, saved.update, saved.validated)
    return saved.update + 1


def _say_nothing(line: str) -> None:
    """What the processes that do not write say."""


def _speeds(config: Config, prepared: PreparedData, device: torch.device, world: World) -> tuple[float, float | None]:
    """The FLOP/s of the matrix products of all processes, and the time that they need for the work of a target token.

    Measured in all processes at once, as they train.
    """
    own = product_rate(device, resolve_precision(config.precision, device), brief=True)
    rate = float(world.sum(torch.tensor(own, dtype=torch.float64)))
    work = flops_per_token(config.model, prepared)
    return rate, None if work is None else work / rate


def final_metrics(run: RunDirectory) -> dict[str, float]:
    """The scalars of TensorBoard by which runs compare: of the best validation, and of the test set."""
    last = {record["split"]: record for record in read_metrics(run.metrics) if record.get("best", True)}
    names = {"validation": ("best", ("loss", "bleu", "aer")), "test": ("test", ("bleu", "chrf"))}
    return {
        f"{group}/{name}": last[split][name]
        for split, (group, metrics) in names.items()
        for name in metrics
        if last.get(split, {}).get(name) is not None
    }


def _say_best(progress: Progress, run: RunDirectory, log: Log) -> None:
    best = progress.best
    if best is not None:
        log.say(Result(f"best checkpoint: that of update {best.update:,}: {run.folder('best')}"))


def _same_model(config: Config, prepared: PreparedData, world: World) -> Seq2Seq:
    """The untrained network, with the same weights in all processes."""
    torch.manual_seed(config.seed)
    model = make_model(config, prepared)
    if world.size > 1:  # another processor may have rounded otherwise
        model.load_state_dict(share_tensors(world, model.state_dict))
    return model


def make_model(config: Config, prepared: PreparedData) -> Seq2Seq:
    """The network that a configuration describes, untrained, on the CPU."""
    return build_model(config.model, prepared.tokenizers.source.size, prepared.tokenizers.target.size)


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
            raise _existing_run_error(run)
    if resume and not run.exists:
        raise CheckpointError(f"{run.path}: there is no run to resume; start it without --resume")
    if resume and not run.has("last"):
        raise CheckpointError(f"{run.checkpoints / 'last'}: missing, nothing to resume from; start with --overwrite")
    return run


def _existing_run_error(run: RunDirectory) -> ConfigError:
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


def best_run(
    config: Config, prepared: PreparedData, run: RunDirectory, device: torch.device, world: World
) -> LoadedRun:
    """The run with its best weights, in all processes; one of them reads its files."""
    if world.size == 1:
        return load_run(run.path, device, kernels=config.kernels)

    def read() -> Mapping[str, Tensor]:
        return load_run(run.path, torch.device("cpu")).model.state_dict()

    weights = share_tensors(world, read)
    model = make_model(config, prepared)
    model.load_state_dict(weights)
    return LoadedRun(config, prepared.tokenizers, model.to(device).eval())


def score_test(
    best: LoadedRun,
    run: RunDirectory,
    pairs: Sequence[Pair],
    log: Log,
    step: int,
    check_stop: CheckStop,
    world: World = ONE_PROCESS,
) -> None:
    """Translate the test set with the best checkpoint; write the output and its scores into the run.

    If ``check_stop`` raises between two batches, nothing is written.
    """
    config = best.config
    translator = Translator.of(best, resolve_device(config.device), torch.float32)
    sources, references = zip(*pairs, strict=True)
    options = SearchOptions.from_config(config.decoding)

    def translate(share: Sequence[str]) -> Iterator[str]:
        translations = translator.stream(share, options, first_window=WINDOW, check_stop=check_stop)
        watched = counted(translations, "translating the test set", len(share), "sentences")
        return (translation.text for translation in watched)

    hypotheses = in_shares(world, sources, translate)
    if not world.writes:
        return
    binned_by = BinnedBy("source", unit_of(config.data.source_language))
    system = score_system(
        run.path.name,
        lengths(sources, binned_by.unit),
        hypotheses,
        references,
        tokenizer=tokenizer_of_run(config).tokenizer,
        bins=config.evaluation.bins,
        resamples=config.evaluation.bootstrap,
    )
    write_text(run.test_hypotheses, "".join(f"{line}\n" for line in hypotheses))
    write_json(run.test_scores, system.as_dict() | {"binned_by": str(binned_by)})
    bleu, chrf = system.scores
    log.record(step, "test", bleu=bleu.value, chrf=chrf.value, signature=bleu.signature)
    log.say(Result(f"test set: BLEU {bleu.value:.2f}  chrF {chrf.value:.2f}  {bleu.signature}"))


def make_manifest(config: Config, prepared: PreparedData) -> dict[str, Any]:
    """The content of ``manifest.json``: data, software and hardware at the start of a run."""
    device = resolve_device(config.device)
    packages = ("torch", "sentencepiece", "sacrebleu", "datasets", "safetensors", "numpy")
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "nmt-attention": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
        },
        "seed": config.seed,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu ({platform.machine()})",
        "threads": torch.get_num_threads(),
        "corpus_sha256": prepared.corpus_sha256,
        "tokenizer_sha256": prepared.tokenizers.sha256,
        "bleu_tokenizer": tokenizer_of_run(config).tokenizer,
    }
