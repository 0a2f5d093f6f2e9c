"""From a configuration to a trained and scored run."""

from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path

import torch

from nmt.config import Config
from nmt.data.dataset import PreparedData, prepare
from nmt.data.report import table
from nmt.device import format_of, name_of
from nmt.evaluation.by_length import scoring
from nmt.evaluation.metrics import format_values
from nmt.evaluation.writing import source_length
from nmt.files import write_json, write_text
from nmt.messages import Result, Say, silent
from nmt.model import build_model
from nmt.runs.checkpoints import load_weights
from nmt.runs.directory import RunDirectory, read_manifest, run_directory
from nmt.runs.loading import start
from nmt.runs.log import best_validation, read_metrics
from nmt.training.checkpointing import facts_of, refuse_unequal, reopen_run
from nmt.training.reports import Log, summary
from nmt.training.trainer import Trainer
from nmt.training.trial import Trial, choose_kernels, choose_precision
from nmt.training.validation import Measures
from nmt.training.world import ONE_PROCESS, Machine, World, in_turn, on_writer, set_up, share_tensors
from nmt.translation.searching import SearchOptions
from nmt.translation.translator import CheckStop, never_stop

StopRequest = AbstractContextManager[CheckStop]
"""Entered before anything is written into the run; its value is called between two updates or batches."""
NO_STOP_REQUEST: StopRequest = nullcontext(never_stop)


def train(
    config: Config,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Say = silent,
    stop_request: StopRequest = NO_STOP_REQUEST,
    world: World = ONE_PROCESS,
) -> Path:
    """Train as ``nmt-train`` does; return the run directory, ``config.output``, for :meth:`Translator.load`.

    >>> config = load_config("tiny.yaml", ["training.updates=2", "output=runs/two-updates"])
    >>> train(config)
    PosixPath('runs/two-updates')
    >>> train(config)
    Traceback (most recent call last):
    ...
    nmt.errors.ConfigError: output: runs/two-updates holds a run; continue it with --resume, or replace it with ...

    An interruption (KeyboardInterrupt) leaves a run that ``resume`` continues from its last checkpoint. Training uses
    ``config.threads`` threads of PyTorch and seeds its generator; both last.

    Args:
        config: from :func:`load_config`.
        resume: continue the run in the run directory; a finished one repeats only what is missing after training.
        overwrite: replace it.
        say: receives each line that ``nmt-train`` prints; ``print`` shows them.
        stop_request: gives a function that raises Stopped to stop.
        world: the processes that train together, each of which calls this function; one of them reads and writes the
            run.

    Raises ConfigError if there is a run and neither ``resume`` nor ``overwrite`` is set, or if it was started with
    another configuration, DataError for unusable text, FileError for a run that cannot be read or written, NmtError if
    training cannot go on, TypeError for a configuration that is not loaded, Stopped if a stop was requested.
    """
    if not isinstance(config, Config):
        raise TypeError(f"config must be a Config, as nmt.load_config(FILE) returns it; found {config!r}")
    say = say if world.writes else silent
    path = on_writer(world, lambda: str(run_directory(config, resume=resume, overwrite=overwrite).path))
    run, machine, measures = RunDirectory(path), set_up(config, world), Measures.of(config)
    prepared = in_turn(world, lambda: prepare(config, say, own=run.path if resume else None))
    if not resume:
        say(table(prepared.report))
    train_on(
        prepared, config, run, machine, measures, resume=resume, overwrite=overwrite, say=say, stop_request=stop_request
    )
    return run.path


def train_on(
    prepared: PreparedData,
    config: Config,
    run: RunDirectory,
    machine: Machine,
    measures: Measures,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Say = silent,
    stop_request: StopRequest = NO_STOP_REQUEST,
) -> Trainer | None:
    """Train on prepared data, as :func:`train`; return the trainer, None if the run was finished before."""
    world = machine.world
    facts = facts_of(config, prepared, measures.bleu_tokenizer)
    refuse_unequal(world, facts)
    begun = on_writer(world, lambda: read_manifest(run)) if resume else {}
    torch.manual_seed(config.seed)
    model = build_model(config.model, *prepared.tokenizers.sizes)
    if (other := config.training.start_from) is not None and not resume:
        facts["start_from"] = on_writer(world, lambda: start(model, other, config.data.tags, say))
    for tensor in model.state_dict().values():  # another processor may have rounded otherwise
        world.broadcast(tensor)
    trial = Trial(model, config, prepared)
    machine = choose_precision(config.precision, machine, begun, trial, say)
    machine = choose_kernels(machine, trial, say)
    with ExitStack() as stack:
        on_writer(world, lambda: stack.enter_context(run.locked(say)))
        check_stop = stack.enter_context(stop_request)
        facts |= {"device": name_of(machine.device), "precision": format_of(machine.precision)}
        facts |= {"processes": world.size, "threads": torch.get_num_threads()}
        if resume:
            update, finished = on_writer(world, partial(reopen_run, run, config, prepared.tokenizers, facts, say))
            if finished:
                more = "training.updates" if update >= config.training.updates else "training.validation.patience"
                done = f"finished after update {update:,}; nothing is left to do (to train on, raise {more})"
                say(f"{run.path}: {done}")
                _say_results(run, say)
                return None
        else:
            files = config, prepared.tokenizers, prepared.report, facts
            on_writer(world, partial(run.create, *files, overwrite=overwrite))
        log = Log(run, say, purge=update + 1 if resume else None, writes=world.writes)
        trainer = Trainer(config, prepared, model, log, machine, measures)
        for line in summary(config.training, prepared, model, machine, trainer.extent):
            say(line)
        if resume:
            trainer.progress = trainer.checkpointing.restore()
            say(f"resumed after update {trainer.progress.update}")
        else:
            trainer.save()  # makes the run resumable, and fails now if the disk is full
        trainer.fit(check_stop)
        trainer.average_best(check_stop)
        score_test(config, prepared, run, trainer, check_stop)
        _say_results(run, say)
    return trainer


# --- after the last update --------------------------------------------------------------------------------------------


def score_test(
    config: Config, prepared: PreparedData, run: RunDirectory, trainer: Trainer, check_stop: CheckStop
) -> None:
    """Translate the test set, if there is one, with the best checkpoint, in fp32; write output and scores."""
    if not prepared.test_pairs:
        return
    world, validator, log = trainer.world, trainer.validator, trainer.log
    trainer.optimizer.state.clear()  # the checkpoint has the moments; Adam's are twice as large as the weights
    load_weights(trainer.model, share_tensors(world, lambda: run.weights("best")), str(run.folder("best")))
    sources, references = zip(*prepared.test_pairs, strict=True)
    most, read = config.decoding.max_source, [prepared.tokenizers.hide(each).texts[0] for each in sources]
    if cut := sum(longer for _, longer in prepared.tokenizers.source.encode_first(read, most)):
        long = f"{cut:,} of {len(sources):,} lines are longer than decoding.max_source"
        log.say(f"test set: {long}; only their first {most} pieces are read")
    search = SearchOptions.from_config(config.decoding)
    hypotheses = validator.translate(sources, search, torch.float32, "translating the test set", check_stop)
    if not world.writes:
        return
    how = scoring({run.path.name: config}, sources, references, log.say, tokenizer=validator.measures.bleu_tokenizer)
    system = how.score(run.path.name, hypotheses)
    write_text(run.test_hypotheses, "".join(f"{line}\n" for line in hypotheses))
    write_json(run.test_scores, system.as_dict() | {"binned_by": source_length(how.source_unit)})
    scores = {metric: score.value for metric, score in system.scores.items()}
    log.record(trainer.progress.update, "test", **scores, signature=system.bleu.signature)


def _say_results(run: RunDirectory, say: Say) -> None:
    records = read_metrics(run.metrics)
    if tests := [each for each in records if each.get("split") == "test"]:
        say(Result(f"test set: {format_values(tests[-1])} (BLEU: {tests[-1]['signature']})"))
    if best := best_validation(records):
        weights = f"that of update {best['step']:,}"
        if best["split"] == "average":
            weights = f"the average of those of updates {', '.join(f'{update:,}' for update in best['updates'])}"
        say(Result(f"best checkpoint: {weights}: {run.folder('best')}"))
