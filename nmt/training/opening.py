"""The start of a run: refused, created, or opened to resume."""

import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import torch

from nmt import __version__
from nmt.config import Config, dump_config
from nmt.data.dataset import PreparedData
from nmt.data.tokenizer import Tokenizers
from nmt.device import format_of, name_of
from nmt.errors import ConfigError, FileError
from nmt.evaluation.metrics import metric_of
from nmt.evaluation.writing import tokenizer_of_run
from nmt.files import write_json, write_text
from nmt.messages import Say
from nmt.runs.directory import (
    RunDirectory,
    as_yaml,
    changes_to,
    existing_run_error,
    flat,
    is_one_of,
    read_manifest,
    refuse_other_config,
    refuse_other_parts,
    run_directory,
)
from nmt.runs.log import cut_metrics, read_metrics
from nmt.training.checkpointing import saved_progress
from nmt.training.progress import Progress
from nmt.training.world import Machine, World


def find_run(config: Config, *, resume: bool, overwrite: bool) -> str:
    """Return the path of the run directory. Checks directory, metric, BLEU tokenizer and ``start_from`` before the slow
    preparation; with ``resume``, also that the configuration is the run's."""
    tokenizer_of_run(config)
    metric_of(config.training.validation.metric)
    run = run_directory(config, resume=resume, overwrite=overwrite)
    if not resume:
        refuse_other_parts(config)
    else:
        refuse_other_config(run, config)
    return str(run.path)


def open_run(
    run: RunDirectory,
    config: Config,
    prepared: PreparedData,
    facts: Mapping[str, Any],
    machine: Machine,
    say: Say,
    *,
    resume: bool,
    overwrite: bool,
) -> tuple[int, bool]:
    """Create the directory of a run, or repair that of a run that continues; return the updates made, and whether
    nothing is left to do. The manifest has the ``facts``, and the hardware at the start."""
    manifest = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        **facts,
        "device": name_of(machine.device),
        "precision": format_of(machine.precision),
        "processes": machine.world.size,
        "threads": torch.get_num_threads(),
        "changes": [],
    }
    if resume:
        return _reopen(run, config, prepared.tokenizers, manifest, say)
    if overwrite:
        run.remove()
    elif run.exists:  # another process has made it since the first check
        raise existing_run_error(run)
    run.create(config, prepared.tokenizers, prepared.report, manifest)
    return 0, False


def _reopen(
    run: RunDirectory, config: Config, tokenizers: Tokenizers, manifest: dict[str, Any], say: Say
) -> tuple[int, bool]:
    before, processes = read_manifest(run), manifest["processes"]
    whole, progress = resumed_progress(run, config.training.updates, manifest, say)
    if (began := before.get("processes", processes)) != processes:
        accumulation = config.training.accumulation
        batches = f"{accumulation * processes} batches from now on (training.accumulation {accumulation} x {processes})"
        say(f"processes: {began} when the run began, {processes} now; each update has {batches}")
    if whole == "previous":
        run.fall_back()
    finished = is_finished(run, config, progress)
    if finished:
        try:
            run.weights("best")
        except FileError:  # it is replaced, and the results are made again
            finished = False
    if not finished:
        for path in (run.metrics, run.samples):  # later lines, and results that are made again
            cut_metrics(path, {"train": progress.update, "validation": progress.validated})
    new = changes_to(before, config, progress.update)
    for change in new:
        say(str(change))
    changes = before["changes"] + [asdict(each) for each in new]
    write_text(run.config, dump_config(config))  # first: a crash before the next line leaves a change to be recorded
    write_json(run.manifest, before | {"config": manifest["config"], "changes": changes})
    tokenizers.save(run.tokenizer)  # the same, in case a file was damaged
    return progress.update, finished


def resumed_progress(run: RunDirectory, updates: int, facts: Mapping[str, Any], say: Say) -> tuple[str, Progress]:
    """The checkpoint from which a run continues up to ``updates``, and its progress.

    Raises ConfigError for fewer updates than it has made, and for other text or tokenizers, by :func:`facts_of` it,
    than it began with, that of BLEU among them: the scores of the checkpoints would not be comparable.
    """
    before, keys = read_manifest(run), ("corpus_sha256", "tokenizer_sha256", "bleu_tokenizer")
    if changed := [key for key in keys if before.get(key) != facts[key]]:
        raise ConfigError(
            *(f"{run.manifest}: {key} was {before.get(key)} and is now {facts[key]}" for key in changed),
            "the text, or its language, has changed; restore it, or train another run, into a new --output",
        )
    checkpoint = run.resumable(say)
    progress = saved_progress(run, checkpoint)
    refuse_fewer_updates(updates, progress)
    return checkpoint, progress


def is_finished(run: RunDirectory, config: Config, progress: Progress) -> bool:
    """Whether a run that has come as far as ``progress`` is trained, averaged, and scored as ``config`` wants it.

    Raises FileError for a manifest that cannot be read.
    """
    if not progress.finished(config.training) or not run.has("best"):
        return False
    if any(is_one_of(change.key, ("decoding", "evaluation")) for change in changes_to(read_manifest(run), config)):
        return False
    last = {record.get("split"): record.get("step") for record in read_metrics(run.metrics)}
    if config.data.test is not None:
        written = run.test_hypotheses.exists() and run.test_scores.exists()
        return written and last.get("test") == progress.update
    averaged = config.training.average > 1 and len(progress.kept) > 1
    return not averaged or last.get("average") == progress.update


def facts_of(config: Config, prepared: PreparedData, bleu_tokenizer: str) -> dict[str, Any]:
    """The configuration, software and data of a run: the same in all of its processes."""
    packages = ("torch", "sentencepiece", "sacrebleu", "datasets", "safetensors", "numpy")
    return {
        "versions": {
            "nmt-attention": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
        },
        "config": config.model_dump(mode="json"),
        "seed": config.seed,
        "corpus_sha256": prepared.corpus_sha256,
        "tokenizer_sha256": prepared.tokenizers.sha256,
        "bleu_tokenizer": bleu_tokenizer,
    }


# --- refusals ---------------------------------------------------------------------------------------------------------


def refuse_fewer_updates(updates: int, progress: Progress) -> None:
    """Raise ConfigError if a run has already made more ``updates`` than the configuration allows."""
    if updates < progress.update:
        problem = f"training.updates: {updates}, but the run has already made {progress.update}"
        raise ConfigError(f"{problem}; use {progress.update} or more, or train another run, into a new --output")


def refuse_unequal(world: World, facts: Mapping[str, Any]) -> None:
    """Raise ConfigError, in all processes, that lists what differs between the facts of two."""
    mine = flat(facts)
    (first, first_host), *others = world.gather([mine, platform.node()])
    differences = [
        f"{key.removeprefix('config.')}: {as_yaml(first.get(key))} in rank 0 on {first_host}, "
        f"{as_yaml(other.get(key))} in rank {rank} on {host}"
        for rank, (other, host) in enumerate(others, 1)
        for key in sorted(first.keys() | other.keys())
        if first.get(key) != other.get(key)
    ]
    if differences:
        raise ConfigError(*differences, "all processes of a run need the same configuration, versions and files")
