"""From a configuration to a trained and scored run."""

import platform
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import torch

from nmt import __version__
from nmt.config import Config, dump_config
from nmt.data.dataset import PreparedData, prepare
from nmt.data.report import table
from nmt.device import keep_freed_memory, name_of, product_rate, resolve_device, resolve_precision
from nmt.errors import FileError, Stopped
from nmt.evaluation.metrics import metric_of
from nmt.evaluation.writing import tokenizer_of_run
from nmt.files import read_json, write_json, write_text
from nmt.model import Seq2Seq, build_model
from nmt.runs.changes import Change, History, changes_as_json
from nmt.runs.directory import RunDirectory
from nmt.runs.metrics import cut_metrics
from nmt.training.checkpointing import saved_progress
from nmt.training.ending import NOTHING_DONE, Ending, best_run, final_lines, mend_row, score_test, write_row
from nmt.training.extent import flops_per_token
from nmt.training.log import Log
from nmt.training.output import existing_run_error, run_directory
from nmt.training.precision import settled
from nmt.training.progress import Progress
from nmt.training.refusals import (
    refuse_fewer_updates,
    refuse_other_config,
    refuse_other_data,
    refuse_unequal,
    refuse_unequal_data,
    say_other_number,
)
from nmt.training.summary import summary
from nmt.training.threads import Threads
from nmt.training.trainer import Trainer
from nmt.training.trust import GPUS, Trust, trusted
from nmt.training.validation import gold_pairs
from nmt.training.world import ONE_PROCESS, World, in_turn, on_writer, share_tensors

Say = Callable[[str], None]
NO_STOP_REQUEST: AbstractContextManager[Callable[[], bool]] = nullcontext(lambda: False)

BEGUN = "begun"
"""What a launch remembers as soon as its run has been created or opened."""


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

    on_writer(world, lambda: _examine(config, resume=resume, overwrite=overwrite))
    run = RunDirectory(config.output or "")
    device = _machine(config)
    threads = Threads(config, device, say, alone=world.size == 1)
    prepared = _prepared(config, narrow, say, world)
    if not resume:
        say(table(prepared.report))
    model = _same_model(config, prepared, world)  # before the run directory is touched, because it may fail

    def decide() -> Trust:
        return trusted(
            settled(config, device, world, say, run if resume else None), prepared, device, world, say, distrusted
        )

    with ExitStack() as stack:
        stack.enter_context(threads.adapted())
        trust = None if resume else decide()
        on_writer(world, lambda: stack.enter_context(run.locked(say)))
        stop_requested = stack.enter_context(stop_request)
        update, steps, epoch_again = on_writer(
            world, lambda: _open(run, config, prepared, trust, resume=resume, overwrite=overwrite, say=say, world=world)
        )
        ending = Ending(**steps)
        world.remember(BEGUN)
        if ending.complete:
            on_writer(world, lambda: mend_row(run, config, say))
            _say_finished(run, config, update, say)
            return True
        trust = trust or decide()  # not before: a finished run needs no trial
        used, failed = trust.config, trust.failed
        if failed is not None:
            on_writer(world, lambda: run.remember_kernels(failed))
        rate, token_seconds = _speeds(used, prepared, device, world)
        purge = update + 1 if resume else None
        with closing(Log(run, say, purge=purge, keep_average=ending.averaged, world=world)) as log:
            trainer = Trainer(used, prepared, model, run, log, device, world, token_seconds, threads)
            _say_all(summary(used, prepared, model, device, trainer.extent, rate), say)
            if resume:
                trainer.resume("last", epoch_again=epoch_again)
                _say_all([f"resumed after update {trainer.progress.update}", *ending.left], say)
            else:
                trainer.save()  # makes the run resumable, and fails now if the disk is full

            def check_stop() -> None:
                if stop_requested():
                    raise Stopped

            try:
                trainer.fit(check_stop)
                if not ending.averaged:
                    trainer.average_best(check_stop)
                if prepared.test_pairs:
                    best = best_run(used, prepared, run, device, world)
                    score_test(best, run, prepared.test_pairs, log, trainer.progress.update, check_stop, world)
            except Stopped:
                return False
            write_row(log, run, config)
            _say_all(final_lines(run), log.say)
    return True


def _examine(config: Config, *, resume: bool, overwrite: bool) -> None:
    """Raise the errors of the metric and of the run directory that a configuration names."""
    metric_of(config.training.validation.metric)
    run = run_directory(config, resume=resume, overwrite=overwrite)
    if resume:
        refuse_other_config(run, config)


def _machine(config: Config) -> torch.device:
    """Set up the process for training, and return its device."""
    device = resolve_device(config.device)
    if device.type == "cpu":
        keep_freed_memory()
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    return device


def _prepared(config: Config, narrow: Callable[[PreparedData], PreparedData], say: Say, world: World) -> PreparedData:
    """Prepare the data, and read or look for what else only the end of a run or a validation needs."""
    tokenizer_of_run(config)  # fails before the slow part if it is not installed
    prepared = narrow(in_turn(world, lambda: prepare(config, say)))
    refuse_unequal_data(world, prepared)
    gold_pairs(config)
    return prepared


def _open(
    run: RunDirectory,
    config: Config,
    prepared: PreparedData,
    trust: Trust | None,
    *,
    resume: bool,
    overwrite: bool,
    say: Say,
    world: World,
) -> tuple[int, dict[str, bool], bool]:
    """Create or repair the run directory; -> the updates that are made, which steps of its ending, and whether the
    epoch begins again, as JSON.

    ``trust`` says in which precision a new run begins.
    """
    manifest = make_manifest(config, prepared) | {"processes": world.size}
    if resume:
        refuse_other_config(run, config)  # again, because another process may have changed the run
        refuse_other_data(run, manifest)
        say_other_number(run, world, config.training.accumulation, say)
        whole = run.resumable(say)
        progress = saved_progress(run, whole)
        refuse_fewer_updates(config, progress)
        if whole == "previous":
            run.fall_back()
        ending = _ending(run, config, progress)
        if not ending.complete:
            _cut(run, progress, ending)  # first: the manifest says how the results that are left were made
        changes = _record_changes(run, config, progress.update, say)
        prepared.tokenizers.save(run.tokenizer)  # the same, in case a file was damaged
        # also if a crash came between the change and the next checkpoint
        rebatched = any((change.update, change.key) == (progress.update, "training.batch_tokens") for change in changes)
        return progress.update, asdict(ending), rebatched
    if overwrite:
        run.remove()
    elif run.exists:  # another process has made it since the first check
        raise existing_run_error(run)
    if trust is not None:
        manifest["precision"] = trust.config.precision
    run.create(config, prepared.tokenizers, prepared.report, manifest)
    return 0, asdict(NOTHING_DONE), False


def _record_changes(run: RunDirectory, config: Config, update: int, say: Say) -> tuple[Change, ...]:
    """Write the configuration of a run that resumes after an update, and what has changed in it; return all changes
    since the run began."""
    history = History.of(run).until(update)
    new = history.changed_to(config, update)
    for change in new:
        say(str(change))
    write_text(run.config, dump_config(config))  # first: a crash before the next line leaves a change to be recorded
    write_json(run.manifest, read_json(run.manifest) | {"changes": changes_as_json(history.changes + new)})
    return history.changes + new


def _ending(run: RunDirectory, config: Config, progress: Progress) -> Ending:
    """The steps after the last update that need not be repeated; none if ``best`` is damaged."""
    ending = Ending.of(run, config, progress)
    if ending.trained:
        try:
            run.weights("best")
        except FileError:
            return NOTHING_DONE  # resuming replaces it and says so
    return ending


def _cut(run: RunDirectory, progress: Progress, ending: Ending) -> None:
    """Remove the metrics of later updates than those of a checkpoint, and the results that are to be made again."""
    last = {"train": progress.update, "validation": progress.validated}
    if ending.averaged:
        last["average"] = progress.update
    for path in (run.metrics, run.samples):
        cut_metrics(path, last)


def _say_finished(run: RunDirectory, config: Config, update: int, say: Say) -> None:
    training = config.training
    ends = {
        "training.updates": training.updates,
        "training.epochs": training.epochs,
        "training.validation.patience": training.validation.patience,
    }
    longer = " or ".join(key for key, value in ends.items() if value is not None)
    say(f"{run.path}: finished after update {update:,}; nothing is left to do (to train on, raise {longer})")
    _say_all(final_lines(run), say)


def _say_all(lines: Iterable[str], say: Say) -> None:
    for line in lines:
        say(line)


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
        "config": config.model_dump(mode="json"),
        "seed": config.seed,
        "device": name_of(device),
        "threads": torch.get_num_threads(),
        "corpus_sha256": prepared.corpus_sha256,
        "tokenizer_sha256": prepared.tokenizers.sha256,
        "bleu_tokenizer": tokenizer_of_run(config).tokenizer,
        "changes": [],
    }
