"""From a configuration to a trained and scored run."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from typing import Any

import torch
from torch import Tensor

from nmt.config import Config
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData, prepare
from nmt.data.report import table
from nmt.device import resolve_device
from nmt.errors import Stopped
from nmt.evaluation.metrics import METRICS, format_values, metric_of
from nmt.evaluation.writing import BinnedBy, scoring, tokenizer_of_run
from nmt.files import write_json, write_text
from nmt.messages import Result
from nmt.model import Seq2Seq, build_model
from nmt.runs.directory import RunDirectory, run_directory
from nmt.runs.loading import LoadedRun, load_run
from nmt.runs.metrics import best_validation, read_metrics
from nmt.training.log import TEST, Log
from nmt.training.machine import Threads, set_up, settled, speeds
from nmt.training.opening import (
    Ending,
    open_run,
    refuse_other_config,
    refuse_unequal,
    refuse_unequal_data,
)
from nmt.training.reports import hyperparameters, summary
from nmt.training.trainer import Trainer
from nmt.training.trial import trusted_kernels
from nmt.training.validation import gold_pairs, translated
from nmt.training.world import ONE_PROCESS, Json, World, in_shares, in_turn, on_writer, share_tensors
from nmt.translation.options import SearchOptions
from nmt.translation.translator import CheckStop, Translator

Say = Callable[[str], None]
NO_STOP_REQUEST: AbstractContextManager[Callable[[], bool]] = nullcontext(lambda: False)


def train_run(
    config: Config,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Say,
    stop_request: AbstractContextManager[Callable[[], bool]] = NO_STOP_REQUEST,
    narrow: Callable[[PreparedData], PreparedData] = lambda prepared: prepared,
    world: World = ONE_PROCESS,
) -> bool:
    """Prepare, train, validate, keep the best checkpoint and score the test set; return False if stopped early.

    ``resume`` continues the run in its directory (past its last update, it repeats only the steps after that), and
    ``overwrite`` replaces it. ``stop_request`` is entered before anything is written into the run; its value says,
    between two updates or batches, whether to stop. ``narrow`` may leave out a part of the prepared data. ``world``:
    the processes that train together, each of which calls this function; one of them reads and writes the run.

    Raises ConfigError if the run exists and neither ``resume`` nor ``overwrite`` is set, or if it was started with
    another configuration; DataError and CheckpointError as the parts do.
    """
    refuse_unequal(world, config)
    say = say if world.writes else _say_nothing

    on_writer(world, lambda: _examine(config, resume=resume, overwrite=overwrite))
    run = RunDirectory(config.output or "")
    device = set_up(config.device, config.threads)
    threads = Threads(config, device, world, say)
    prepared = _prepared(config, narrow, say, world)
    if not resume:
        say(table(prepared.report))
    model = _same_model(config, prepared, world)  # before the run directory is touched, because it may fail

    def settle() -> Config:
        chosen = settled(config, device, world, say, run if resume else None)
        kernels = trusted_kernels(chosen, model, prepared, device, world, say)
        return chosen.model_copy(update={"kernels": kernels})

    with ExitStack() as stack:
        stack.enter_context(threads)
        settled_config = None if resume else settle()
        on_writer(world, lambda: stack.enter_context(run.locked(say)))
        stop_requested = stack.enter_context(stop_request)
        precision = None if settled_config is None else settled_config.precision

        def opened() -> Json:
            return open_run(
                run, config, prepared, precision, say, resume=resume, overwrite=overwrite, processes=world.size
            )

        update, steps, epoch_again = on_writer(world, opened)
        ending = Ending(**steps)
        if ending.complete:
            _say_finished(run, config, update, say)
            return True
        used = settled_config or settle()  # not before: a finished run needs no trial
        rate, token_seconds = speeds(used, prepared, device, world)
        purge = update + 1 if resume else None
        log = stack.enter_context(closing(Log(run, say, purge=purge, keep_average=ending.averaged, world=world)))
        trainer = Trainer(used, prepared, model, run, log, device, world, token_seconds)
        _say_all(summary(used, prepared, model, device, trainer.extent, rate), say)
        if resume:
            trainer.resume("last", epoch_again=epoch_again)
            _say_all([f"resumed after update {trainer.progress.update}", *ending.left], say)
        else:
            trainer.save()  # makes the run resumable, and fails now if the disk is full

        check_stop = _between_updates(threads, stop_requested)
        try:
            trainer.fit(check_stop)
            if not ending.averaged:
                trainer.average_best(check_stop)
            if prepared.test_pairs:
                best = best_run(used, prepared, run, device, world)
                score_test(best, run, prepared.test_pairs, log, trainer.progress.update, check_stop, world)
        except Stopped:
            return False
        log.hyperparameters(hyperparameters(config), final_metrics(read_metrics(run.metrics)))
        _say_all(final_lines(run), log.say)
    return True


def _between_updates(threads: Threads, stop_requested: Callable[[], bool]) -> CheckStop:
    """Return what is called between two updates or batches; it raises Stopped if a stop was requested."""

    def check_stop() -> None:
        threads.follow()
        if stop_requested():
            raise Stopped

    return check_stop


def _examine(config: Config, *, resume: bool, overwrite: bool) -> None:
    """Raise the errors of the metric and of the run directory that a configuration names."""
    metric_of(config.training.validation.metric)
    run = run_directory(config, resume=resume, overwrite=overwrite)
    if resume:
        refuse_other_config(run, config)


def _prepared(config: Config, narrow: Callable[[PreparedData], PreparedData], say: Say, world: World) -> PreparedData:
    """Prepare the data, and read or look for what else only the end of a run or a validation needs."""
    tokenizer_of_run(config)  # fails before the slow part if it is not installed
    prepared = narrow(in_turn(world, lambda: prepare(config, say)))
    refuse_unequal_data(world, prepared)
    gold_pairs(config)
    return prepared


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


# --- after the last update --------------------------------------------------------------------------------------------


def best_run(
    config: Config, prepared: PreparedData, run: RunDirectory, device: torch.device, world: World
) -> LoadedRun:
    """The run with its best weights, in all processes; one of them reads its files."""
    if world.size == 1:
        return load_run(run.path, device, kernels=config.kernels)

    def read() -> Mapping[str, Tensor]:
        return load_run(run.path, torch.device("cpu")).model.state_dict()

    weights = share_tensors(world, read)
    model = build_model(config.model, prepared.tokenizers.source.size, prepared.tokenizers.target.size)
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
    translator = Translator.of([best], resolve_device(config.device), torch.float32)
    sources, references = zip(*pairs, strict=True)
    options = SearchOptions.from_config(config.decoding)

    def translate(share: Sequence[str]) -> Iterator[str]:
        return translated(translator, share, options, "translating the test set", check_stop)

    hypotheses = in_shares(world, sources, translate)
    if not world.writes:
        return
    name, section = run.path.name, config.evaluation
    how = scoring(None, {name: config}, sources, references, log.say)
    system = how.score(name, sources, hypotheses, references, bins=section.bins, resamples=section.bootstrap)
    write_text(run.test_hypotheses, "".join(f"{line}\n" for line in hypotheses))
    write_json(run.test_scores, system.as_dict() | {"binned_by": str(BinnedBy("source", how.source_unit))})
    scores = {metric: score.value for metric, score in system.scores.items()}
    log.record(step, TEST, **scores, signature=system.bleu.signature)


def final_metrics(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The scalars of TensorBoard by which runs compare: those of the weights that translate, and of the test set.

    The weights may be the average of checkpoints; of several records of a kind the last one counts.
    """
    records = list(records)
    tests = [{}, *(each for each in records if each.get("split") == "test")]
    groups = {"best": best_validation(records), "test": tests[-1]}
    return {
        f"{group}/{name}": record[name]
        for group, record in groups.items()
        for name in METRICS
        if record.get(name) is not None
    }


def final_lines(run: RunDirectory) -> list[Result]:
    """The results of a finished run, in words: the scores of the test set, and which weights translate."""
    records = read_metrics(run.metrics)
    lines = [
        f"test set: {format_values(each)}  {each['signature']}" for each in records if each.get("split") == "test"
    ][-1:]
    if best := best_validation(records):
        weights = f"that of update {best['step']:,}"
        if best["split"] == "average":
            weights = f"the average of those of updates {', '.join(f'{update:,}' for update in best['updates'])}"
        lines.append(f"best checkpoint: {weights}: {run.folder('best')}")
    return [Result(line) for line in lines]
