"""Rehearse training in a temporary directory, so that late failures happen now."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from nmt.config import Config
from nmt.config.schema import Training
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData, prepare, try_cache
from nmt.data.report import table
from nmt.device import peak_memory, timed
from nmt.messages import Caution, Detail, Result, Say, duration
from nmt.runs.directory import RunDirectory, run_directory
from nmt.runs.log import read_metrics
from nmt.training import train
from nmt.training.checkpointing import facts_of, resumed_progress
from nmt.training.progress import Extent, Progress
from nmt.training.reports import number_of
from nmt.training.trainer import Trainer
from nmt.training.validation import Measures
from nmt.training.world import set_up
from nmt.translation.searching import lines_for

TIMED = 4
"""Updates whose speed is measured."""
WARM_UPS = 2
"""Rounds of them before, on a GPU: eager updates, which compile kernels, and recorded ones."""


def dry_run(config: Config, *, resume: bool, overwrite: bool, say: Say) -> None:
    """Do everything once, in a temporary directory, that could fail later: an update with the largest batch, a
    validation on the longest lines, writing and reading a checkpoint, BLEU on the longest lines of the test set; with
    ``resume``, compare configuration and text with those of the run. Only averaging is left out, which needs nothing
    else. The messages of training itself are details; the results are the estimate and that everything works.

    Raises the errors of training.
    """
    run = run_directory(config, resume=resume, overwrite=overwrite)
    measures = Measures.of(config)
    try_cache(config.data)
    if run.path.exists():
        with run.locked(say):  # raises if another process trains there
            pass

    def rehearse(line: str) -> None:
        say(line if isinstance(line, Caution) else Detail(line))

    with tempfile.TemporaryDirectory(prefix="nmt-dry-run-") as folder:
        machine = set_up(config)
        device = machine.device
        data = config.data.model_copy(update={"cache": str(Path(folder, "cache"))})
        short = _one_update(config.model_copy(update={"data": data, "output": str(Path(folder, "run"))}))
        whole, done = prepare(short, rehearse, own=run.path if resume else None), Progress()
        say(table(whole.report))
        if resume:
            training = short.training.model_copy(update={"start_from": None})
            short = short.model_copy(update={"training": training})
            facts = facts_of(config, whole, measures.bleu_tokenizer)
            _, done = resumed_progress(run, config.training.updates, facts, say)
            say(f"{run.path} can be resumed after update {done.update}")
        say("rehearsing updates, validation and test on the longest sentences")
        hardest = _hardest(config, whole, device)
        rehearsed = RunDirectory(short.output or "")
        trainer = train.train_on(hardest, short, rehearsed, machine, measures, say=rehearse)
        assert trainer is not None
        rate = speed(trainer, WARM_UPS if device.type == "cuda" else 0)
        metrics = read_metrics(rehearsed.metrics)
        [validation] = [each["seconds"] for each in metrics if each["split"] == "validation"]
        pairs = whole.validation_pairs[: config.training.validation.sentences]
        share = min(1.0, len(hardest.validation_pairs) / len(pairs))
        took = estimate(config.training, Extent.of(config.training, whole, 1), done, rate, validation, share)
    memory = peak_memory(device)
    say(Result(took + (f"; {memory / 1e9:.1f} GB of memory" if memory else "")))
    say(Result("dry run: everything that training needs is there and works; nothing was kept"))


def _one_update(config: Config) -> Config:
    """The configuration of a run of one update, which has the largest batch."""
    validation = config.training.validation
    validation = validation.model_copy(update={"samples": min(1, validation.samples)})
    training = config.training.model_copy(update={"updates": 1, "average": 1, "log_every": 1, "validation": validation})
    return config.model_copy(update={"training": training})


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


def speed(trainer: Trainer, warm_ups: int) -> float:
    """Return the target tokens per second of the first updates, after ``warm_ups`` rounds of them."""
    trainer.progress = replace(trainer.progress, update=0)  # a schedule knows no update after the last
    groups = [batches for batches, _ in islice(trainer.groups(), TIMED)]

    def updates() -> None:
        for group in groups:
            trainer.update(group)

    for _ in range(warm_ups):
        updates()
    tokens = sum(batch.target_tokens for group in groups for batch in group)
    return tokens / timed(updates, trainer.device)


def estimate(training: Training, extent: Extent, done: Progress, rate: float, validation: float, share: float) -> str:
    """Estimate the time of training from ``done`` on, at a ``rate`` of target tokens per second. A ``validation`` of a
    ``share`` of the pairs took so many seconds, an upper bound: an untrained network writes long translations."""
    updates, every = training.updates - done.update, training.validation.every
    due = {training.validation.first or every, *range(every, training.updates, every), training.updates}
    validated = max(done.validated, done.update - 1)
    epochs, count = extent.epochs(updates), sum(validated < each <= training.updates for each in due)
    return (
        f"estimate: about {duration(epochs * extent.tokens / rate)} for {number_of(updates, 'update')} "
        f"({epochs:,.1f} epochs, {rate:,.0f} target tokens/s), and up to {duration(count * validation / share)} for "
        f"{number_of(count, 'validation')}"
    )
