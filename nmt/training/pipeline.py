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
from nmt.runs.directory import RunDirectory, load_run
from nmt.training.log import Log
from nmt.training.progress import Progress
from nmt.training.trainer import Trainer, saved_progress
from nmt.training.validation import gold_pairs
from nmt.translation.options import SearchOptions
from nmt.translation.translator import CheckStop, Translator
from nmt.translation.windows import WINDOW

Say = Callable[[str], None]
Stopping = AbstractContextManager[Callable[[], bool]]
"""Entered before anything is written into the run; what it gives says, between two steps or batches, whether to
stop."""
NEVER: Stopping = nullcontext(lambda: False)

MOST_NAMED = 3
"""Files that a message names."""
HARMLESS = {
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
"""What may differ between a run and its resumption: dotted keys, or the sections that hold them.

Validation has a beam of its own but else decodes as ``decoding`` says, and its BLEU decides what is best. Another
device, number of threads or batch of translations adds up in another order: the same but for rounding, not bit for bit.
"""


def train_run(
    config: Config,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Say,
    stopping: Stopping = NEVER,
    narrowed: Callable[[PreparedData], PreparedData] = lambda prepared: prepared,
) -> bool:
    """Prepare, train, validate, keep the best, score the test set; -> False if ``stopping`` ended it early.

    A run that is resumed after its last update does again what comes after it. ``narrowed`` may leave out a part of
    what is prepared.

    Raises ConfigError if the run exists and neither ``resume`` nor ``overwrite`` is asked for, or if it was started
    with another configuration; DataError, CheckpointError as the parts do.
    """
    run = run_directory(config, resume=resume, overwrite=overwrite)
    device = resolve_device(config.device)
    if device.type == "cpu":
        keep_freed_memory()
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    if resume:
        refuse_other_config(run, config)
    tokenizer_of_run(config)  # one that is not installed is found out before the slow part
    prepared = narrowed(prepare(config, say))
    if not resume:
        say(describe(prepared.report))
    gold_pairs(config)
    torch.manual_seed(config.seed)
    model = make_model(config, prepared)  # what cannot be read or built costs no run that is there
    with run.locked(say), stopping as stopped:
        checkpoint = _opened(run, config, prepared, device, resume=resume, overwrite=overwrite, say=say)
        if prepared.language_id:
            prepared.language_id.save(run.path)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        precision = "bf16" if resolve_precision(config.precision, device) == torch.bfloat16 else "fp32"
        say(f"model: {parameters:,} parameters, {config.model.attention.type} attention, {precision} on {device}")
        begun = saved_progress(run, checkpoint) if checkpoint else None
        if begun is not None:
            run.cut_metrics(begun.update, begun.validated)
        with closing(Log(run, say, purge=None if begun is None else begun.update + 1)) as log:
            trainer = Trainer(config, prepared, model, run, log, device)
            if checkpoint:
                trainer.restore(checkpoint)
                trainer.mend()
                say(f"resumed after update {trainer.progress.update}")
            else:
                trainer.save()  # from here on there is something to resume; and a disk that is full is found out

            def check_stop() -> None:
                if stopped():
                    raise Stopped

            try:
                trainer.fit(check_stop)
                trainer.average_best(check_stop)
                if prepared.test_pairs:
                    score_test(config, run, prepared.test_pairs, device, log, trainer.progress.update, check_stop)
            except Stopped:
                return False
    return True


def _opened(
    run: RunDirectory,
    config: Config,
    prepared: PreparedData,
    device: torch.device,
    *,
    resume: bool,
    overwrite: bool,
    say: Say,
) -> str | None:
    """Make the run directory ready; -> the checkpoint to go on from, None for a new run."""
    manifest = make_manifest(config, prepared, device)
    if resume:
        refuse_other_config(run, config)  # once more: somebody may have trained here meanwhile
        refuse_other_data(run, manifest)
        whole = run.resumable(say)
        refuse_fewer_updates(config, saved_progress(run, whole))
        if whole == "previous":
            run.fall_back()
        write_text(run.config, dump_config(config))
        prepared.tokenizers.save(run.tokenizer)  # the same, and whole
        return "last"
    if overwrite:
        run.remove()
    elif run.exists:  # made by somebody else meanwhile
        raise _exists_already(run)
    run.create(config, prepared.tokenizers, prepared.report, manifest)
    return None


def make_model(config: Config, prepared: PreparedData) -> Seq2Seq:
    """The network that a configuration describes, untrained, on the CPU."""
    sizes = prepared.tokenizers.source.size, prepared.tokenizers.target.size
    return build_model(config.model, *sizes)


def run_directory(config: Config, *, resume: bool, overwrite: bool) -> RunDirectory:
    """Where the run goes. Raises ConfigError if there is none, or one that must not be touched."""
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
        with run.locked(lambda _: None):  # a run that is being trained must not be called one to replace
            raise _exists_already(run)
    if resume and not run.exists:
        raise CheckpointError(f"{run.path}: there is no run to resume; start it without --resume")
    if resume and not run.has("last"):
        raise CheckpointError(f"{run.checkpoints / 'last'}: missing, nothing to resume from; start with --overwrite")
    return run


def _exists_already(run: RunDirectory) -> ConfigError:
    if not run.has("last"):
        return ConfigError(f"output: {run.path} holds a run that had saved nothing yet; replace it with --overwrite")
    return ConfigError(f"output: {run.path} holds a run; continue it with --resume, or replace it with --overwrite")


def _refuse_unwritable(folder: Path) -> None:
    """Raise ConfigError for a directory that cannot be made, or not written to."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ConfigError(f"output: {existing} is a file; name a directory")
    if problem := why_unwritable(existing):
        raise ConfigError(
            f"output: {existing} is not writable ({problem}); choose another directory or change its permissions"
        )


def score_test(
    config: Config,
    run: RunDirectory,
    pairs: Sequence[Pair],
    device: torch.device,
    log: Log,
    step: int,
    check_stop: CheckStop,
) -> None:
    """Translate the test set with the best checkpoint; keep the output and its scores in the run.

    ``check_stop`` may end it between two batches; then nothing is kept.
    """
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


def make_manifest(config: Config, prepared: PreparedData, device: torch.device) -> dict[str, Any]:
    """What ``manifest.json`` says: of what, with what and where a run was begun."""
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
    """Raise ConfigError, with a list, if a run was begun with another configuration but for what is HARMLESS."""
    before = _flat(load_run_config(run.path).model_dump(mode="json"))
    now = _flat(config.model_dump(mode="json"))
    differences = [
        f"{run.path}: {key} was {_told(before.get(key))} and is now {_told(now.get(key))}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and not any(key == h or key.startswith(h + ".") for h in HARMLESS)
    ]
    if differences:
        raise ConfigError(*differences, "a run is resumed as it was begun; restore these, or train into a new --output")


def refuse_fewer_updates(config: Config, progress: Progress) -> None:
    """Raise ConfigError if more updates are made than shall be: no training can take them back."""
    if config.training.updates < progress.update:
        raise ConfigError(
            f"training.updates: {config.training.updates}, and {progress.update} are made already; a run can be made "
            "longer, not shorter: train into a new --output"
        )


def refuse_other_data(run: RunDirectory, manifest: dict[str, Any]) -> None:
    """Raise ConfigError if a run was begun with other text or tokenizers than a manifest names, BLEU's included: the
    scores of checkpoints could not be compared."""
    before = read_json(run.manifest)
    if not isinstance(before, dict):
        raise CheckpointError(f"{run.manifest}: not the manifest of a run")
    changed = [key for key in ("corpus_sha256", "tokenizer_sha256") if before.get(key) != manifest[key]]
    if changed:
        raise ConfigError(
            *(f"{run.manifest}: {key} was {before.get(key)} and is now {manifest[key]}" for key in changed),
            "the text has changed since the run was begun; restore it, or train into a new --output",
        )
    scored, now = before.get("bleu_tokenizer", DEFAULT), manifest["bleu_tokenizer"]
    if scored != now:
        raise ConfigError(
            f"{run.manifest}: BLEU's tokenizer was {scored} and would now be {now}; to resume, set "
            f"evaluation.bleu_tokenizer to {scored}"
        )


def _told(value: Any) -> str:
    """As YAML has it."""
    return repr(value) if isinstance(value, str) else json.dumps(value)


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    return {
        dotted: leaf
        for key, child in value.items()
        for dotted, leaf in _flat(child, f"{prefix}.{key}" if prefix else key).items()
    }
