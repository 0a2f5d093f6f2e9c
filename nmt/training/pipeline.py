"""From a configuration to a trained and scored run."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext

import torch

from nmt.config import Config
from nmt.cores import CpuTime
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData, prepare
from nmt.data.report import table
from nmt.device import resolve_device
from nmt.errors import Stopped
from nmt.evaluation.by_length import scoring
from nmt.evaluation.metrics import format_values, metric_of
from nmt.evaluation.writing import tokenizer_of_run
from nmt.files import read_json, write_json, write_text
from nmt.messages import Result, Say
from nmt.model import Seq2Seq, build_model
from nmt.runs.directory import RunDirectory, run_directory
from nmt.runs.loading import LoadedRun, load_weights
from nmt.runs.metrics import best_validation, read_metrics
from nmt.training.log import Log
from nmt.training.machine import Threads, set_up, settled_precision
from nmt.training.opening import create_run, refuse_other_config, refuse_unequal, reopen_run
from nmt.training.reports import summary
from nmt.training.trainer import Trainer
from nmt.training.trial import trusted_kernels
from nmt.training.validation import gold_pairs, translated
from nmt.training.world import ONE_PROCESS, Json, World, in_shares, in_turn, on_writer, share_tensors
from nmt.translation.options import SearchOptions
from nmt.translation.translator import CheckStop, Translator

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
    say = say if world.writes else lambda _: None
    on_writer(world, lambda: _examine(config, resume=resume, overwrite=overwrite))
    run = RunDirectory(config.output or "")
    device, begun = set_up(config.device, config.threads), CpuTime.now()
    prepared = _prepared(config, narrow, say, world)
    if not resume:
        say(table(prepared.report))
    model = _same_model(config, prepared, world)
    with ExitStack() as stack:
        threads = None
        if config.threads is None and "OMP_NUM_THREADS" not in os.environ and world.size == 1 and device.type == "cpu":
            threads = stack.enter_context(Threads(begun, say))
        used = _settled(config, model, prepared, run if resume else None, device, world, say)
        on_writer(world, lambda: stack.enter_context(run.locked(say)))
        stop_requested = stack.enter_context(stop_request)

        def opened() -> Json:
            if resume:
                return reopen_run(run, config, prepared, world.size, say)
            create_run(run, config, prepared, used.precision, world.size, overwrite=overwrite)
            return 0, False, False

        update, finished, epoch_again = on_writer(world, opened)
        if finished:
            done = f"finished after update {update:,}; nothing is left to do (to train on, raise training.updates)"
            say(f"{run.path}: {done}")
            _say_results(run, say)
            return True
        log = stack.enter_context(closing(Log(run, say, purge=update + 1 if resume else None, world=world)))
        trainer = Trainer(used, prepared, model, run, log, device, world)
        for line in summary(used, prepared, model, device, trainer.extent):
            say(line)
        if resume:
            trainer.resume("last", epoch_again=epoch_again)
            say(f"resumed after update {trainer.progress.update}")
        else:
            trainer.save()  # makes the run resumable, and fails now if the disk is full

        def check_stop() -> None:
            if threads is not None:
                threads.follow()
            if stop_requested():
                raise Stopped

        try:
            trainer.fit(check_stop)
            trainer.average_best(check_stop)
            if prepared.test_pairs:
                weights = share_tensors(world, lambda: run.weights("best"))
                load_weights(model, weights, str(run.folder("best")))
                best = LoadedRun(used, prepared.tokenizers, model.eval())
                score_test(best, run, prepared.test_pairs, log, trainer.progress.update, check_stop, world)
        except Stopped:
            return False
        _say_results(run, say)
    return True


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
    refuse_unequal(world, config, prepared)
    gold_pairs(config)
    return prepared


def _settled(
    config: Config,
    model: Seq2Seq,
    prepared: PreparedData,
    resumed: RunDirectory | None,
    device: torch.device,
    world: World,
    say: Say,
) -> Config:
    """The configuration with the precision and the kernels that are used."""
    manifest = None if resumed is None else on_writer(world, lambda: read_json(resumed.manifest))
    config = config.model_copy(update={"precision": settled_precision(config.precision, device, world, say, manifest)})
    return config.model_copy(update={"kernels": trusted_kernels(config, model, prepared, device, world, say)})


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
    how = scoring({run.path.name: config}, sources, references, log.say)
    system = how.score(run.path.name, hypotheses)
    write_text(run.test_hypotheses, "".join(f"{line}\n" for line in hypotheses))
    write_json(run.test_scores, system.as_dict() | {"binned_by": str(how.binned_by)})
    scores = {metric: score.value for metric, score in system.scores.items()}
    log.record(step, "test", **scores, signature=system.bleu.signature)


def _say_results(run: RunDirectory, say: Say) -> None:
    """Say the scores of the test set, and which weights translate."""
    records = read_metrics(run.metrics)
    tests = [each for each in records if each.get("split") == "test"]
    if tests:
        say(Result(f"test set: {format_values(tests[-1])}  {tests[-1]['signature']}"))
    if best := best_validation(records):
        weights = f"that of update {best['step']:,}"
        if best["split"] == "average":
            weights = f"the average of those of updates {', '.join(f'{update:,}' for update in best['updates'])}"
        say(Result(f"best checkpoint: {weights}: {run.folder('best')}"))
