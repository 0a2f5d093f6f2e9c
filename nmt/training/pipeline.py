"""From a configuration to a trained and scored run."""

import json
import os
import platform
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from nmt import __version__
from nmt.config import Config, dump_config, load_run_config
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData, prepare
from nmt.data.report import describe
from nmt.errors import CheckpointError, ConfigError, Stopped
from nmt.evaluation.by_length import score_system
from nmt.evaluation.writing import DEFAULT, BinnedBy, lengths, tokenizer_of_run, unit_of
from nmt.foundation.device import keep_freed_memory, resolve_device, resolve_precision
from nmt.foundation.files import read_json, why_unwritable, write_json, write_text
from nmt.model import Seq2Seq, build_model
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import load_run
from nmt.runs.metrics import cut_metrics
from nmt.training.checkpointing import saved_progress
from nmt.training.log import Log
from nmt.training.progress import Progress
from nmt.training.trainer import Trainer
from nmt.training.validation import gold_pairs
from nmt.training.world import OneProcess
from nmt.translation.options import SearchOptions
from nmt.translation.translator import CheckStop, Translator
from nmt.translation.windows import WINDOW

Say = Callable[[str], None]
NO_STOP_REQUEST: AbstractContextManager[Callable[[], bool]] = nullcontext(lambda: False)

MOST_NAMED = 3
"""The number of files that a message names."""
CHANGEABLE_KEYS = {
    "output",
    "device",
    "threads",
    "data.cache",
    "data.processes",
    "training.updates",
    "training.save_every",
    "training.log_every",
    "training.validation.patience",
    "training.validation.samples",
    "decoding.beam_size",
    "decoding.batch_tokens",
    "evaluation",
}
"""Dotted keys, or sections of them, that may change when a run resumes.

The other keys of ``decoding`` also affect validation, whose BLEU decides which checkpoint is best. Another device,
number of threads or translation batch changes the order of additions: results are then equal only up to rounding.
"""


def train_run(
    config: Config,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Say,
    stop_request: AbstractContextManager[Callable[[], bool]] = NO_STOP_REQUEST,
    narrow: Callable[[PreparedData], PreparedData] = lambda prepared: prepared,
) -> bool:
    """Prepare, train, validate, keep the best checkpoint and score the test set; return False if stopped early.

    ``resume`` continues the run in its directory (past its last update, it repeats only the steps after that), and
    ``overwrite`` replaces it. ``stop_request`` is entered before anything is written into the run; its value says,
    between two updates or batches, whether to stop. ``narrow`` may leave out a part of the prepared data.

    Raises ConfigError if the run exists and neither ``resume`` nor ``overwrite`` is set, or if it was started with
    another configuration; DataError and CheckpointError as the parts do.
    """
    run = run_directory(config, resume=resume, overwrite=overwrite)
    device = resolve_device(config.device)
    if device.type == "cpu":
        keep_freed_memory()
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    if resume:
        refuse_other_config(run, config)
    tokenizer_of_run(config)  # fails before the slow part if it is not installed
    prepared = narrow(prepare(config, say))
    if not resume:
        say(describe(prepared.report))
    gold_pairs(config)
    torch.manual_seed(config.seed)
    model = make_model(config, prepared)  # before the run directory is touched, because any of this may fail
    world = OneProcess()
    with run.locked(say), stop_request as stop_requested:
        checkpoint = _open(run, config, prepared, resume=resume, overwrite=overwrite, say=say)
        if prepared.language_id:
            prepared.language_id.save(run.path)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        precision = "bf16" if resolve_precision(config.precision, device) == torch.bfloat16 else "fp32"
        attention = "no" if config.model.attention.type == "none" else config.model.attention.type
        say(f"model: {parameters:,} parameters, {attention} attention, {precision} on {device}")
        saved = saved_progress(run, checkpoint) if checkpoint else None
        if saved is not None:
            cut_metrics(run.metrics, saved.update, saved.validated)
        with closing(Log(run, say, purge=None if saved is None else saved.update + 1, world=world)) as log:
            trainer = Trainer(config, prepared, model, run, log, device, world)
            if checkpoint:
                trainer.resume(checkpoint)
                say(f"resumed after update {trainer.progress.update}")
            else:
                trainer.save()  # makes the run resumable, and fails now if the disk is full

            def check_stop() -> None:
                if world.any(stop_requested()):
                    raise Stopped

            try:
                trainer.fit(check_stop)
                trainer.average_best(check_stop)
                if prepared.test_pairs:
                    score_test(config, run, prepared.test_pairs, log, trainer.progress.update, check_stop)
            except Stopped:
                return False
    return True


def _open(
    run: RunDirectory, config: Config, prepared: PreparedData, *, resume: bool, overwrite: bool, say: Say
) -> str | None:
    """Create or repair the run directory; return the checkpoint to resume from, None for a new run."""
    manifest = make_manifest(config, prepared)
    if resume:
        refuse_other_config(run, config)  # again, because another process may have changed the run
        refuse_other_data(run, manifest)
        whole = run.resumable(say)
        refuse_fewer_updates(config, saved_progress(run, whole))
        if whole == "previous":
            run.fall_back()
        write_text(run.config, dump_config(config))
        prepared.tokenizers.save(run.tokenizer)  # the same, in case a file was damaged
        return "last"
    if overwrite:
        run.remove()
    elif run.exists:  # another process has made it since the first check
        raise _existing_run_error(run)
    run.create(config, prepared.tokenizers, prepared.report, manifest)
    return None


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


def score_test(
    config: Config, run: RunDirectory, pairs: Sequence[Pair], log: Log, step: int, check_stop: CheckStop
) -> None:
    """Translate the test set with the best checkpoint; write the output and its scores into the run.

    If ``check_stop`` raises between two batches, nothing is written.
    """
    device = resolve_device(config.device)
    translator = Translator.of(load_run(run.path, device, kernels=config.kernels), device, torch.float32)
    sources, references = zip(*pairs, strict=True)
    options = SearchOptions.from_config(config.decoding)
    translations = translator.translate(sources, options, first_window=WINDOW, check_stop=check_stop)
    hypotheses = [translation.text for translation in translations]
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
    log.say(f"test set: BLEU {bleu.value:.2f}  chrF {chrf.value:.2f}  {bleu.signature}")


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


def refuse_other_config(run: RunDirectory, config: Config) -> None:
    """Raise ConfigError that lists the keys, except CHANGEABLE_KEYS, that differ from those of a run."""
    before = _flat(load_run_config(run.path).model_dump(mode="json"))
    now = _flat(config.model_dump(mode="json"))
    changed = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    # a section of another type has other keys
    others = [key.removesuffix("type") for key in changed if key.endswith(".type")]
    differences = [
        f"{run.path}: {key} was {_format_value(before.get(key))} and is now {_format_value(now.get(key))}"
        for key in sorted(changed)
        if not any(key == known or key.startswith(known + ".") for known in CHANGEABLE_KEYS)
        and not any(key.startswith(section) and key != f"{section}type" for section in others)
    ]
    if differences:
        raise ConfigError(
            *differences, "a run resumes with the configuration it started with; restore it, or use a new --output"
        )


def refuse_fewer_updates(config: Config, progress: Progress) -> None:
    """Raise ConfigError if a run has already made more updates than the configuration allows."""
    if config.training.updates < progress.update:
        raise ConfigError(
            f"training.updates: {config.training.updates}, but the run has already made {progress.update}; a run can "
            "be extended, not shortened: use a new --output"
        )


def refuse_other_data(run: RunDirectory, manifest: dict[str, Any]) -> None:
    """Raise ConfigError if a run started with other text or tokenizers than a manifest names. They include BLEU's
    tokenizer: the scores of the checkpoints would not be comparable."""
    before = read_json(run.manifest)
    if not isinstance(before, dict):
        raise CheckpointError(f"{run.manifest}: not the manifest of a run")
    changed = [key for key in ("corpus_sha256", "tokenizer_sha256") if before.get(key) != manifest[key]]
    if changed:
        raise ConfigError(
            *(f"{run.manifest}: {key} was {before.get(key)} and is now {manifest[key]}" for key in changed),
            "the text has changed since the run started; restore it, or use a new --output",
        )
    scored, now = before.get("bleu_tokenizer", DEFAULT), manifest["bleu_tokenizer"]
    if scored != now:
        raise ConfigError(
            f"{run.manifest}: BLEU's tokenizer was {scored} and would now be {now}; to resume, set "
            f"evaluation.bleu_tokenizer to {scored}"
        )


def _format_value(value: Any) -> str:
    """Format a value as in YAML."""
    return repr(value) if isinstance(value, str) else json.dumps(value)


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    return {
        dotted: leaf
        for key, child in value.items()
        for dotted, leaf in _flat(child, f"{prefix}.{key}" if prefix else key).items()
    }
