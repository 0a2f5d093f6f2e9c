"""The run directory at the start of training: refused, created, or opened to resume."""

import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import torch

from nmt import __version__
from nmt.config import Config, dump_config
from nmt.data.dataset import PreparedData
from nmt.device import name_of, resolve_device
from nmt.errors import ConfigError, FileError
from nmt.evaluation.writing import DEFAULT, tokenizer_of_run
from nmt.files import read_json, write_json, write_text
from nmt.messages import Say
from nmt.runs.changes import COURSE, LENGTH, WITHOUT_EFFECT, as_yaml, changes_to, flat, is_one_of, read_changes
from nmt.runs.directory import RunDirectory, existing_run_error
from nmt.runs.metrics import cut_metrics, read_metrics
from nmt.training.checkpointing import saved_progress
from nmt.training.progress import Progress
from nmt.training.world import World


def is_finished(run: RunDirectory, config: Config, progress: Progress) -> bool:
    """Whether a run that has come as far as ``progress`` is trained, averaged, and scored as ``config`` wants it.

    Raises FileError for a manifest that cannot be read.
    """
    if not progress.finished(config.training) or not run.has("best"):
        return False
    if any(is_one_of(change.key, ("decoding", "evaluation")) for change in changes_to(run, config)):
        return False
    last = {record.get("split"): record.get("step") for record in read_metrics(run.metrics)}
    if config.data.test is not None:
        written = run.test_hypotheses.exists() and run.test_scores.exists()
        return written and last.get("test") == progress.update
    averaged = config.training.average > 1 and len(progress.kept) > 1
    return not averaged or last.get("average") == progress.update


def create_run(
    run: RunDirectory, config: Config, prepared: PreparedData, precision: str, processes: int, *, overwrite: bool
) -> None:
    """Create the directory of a run that begins in a precision, with a number of processes."""
    if overwrite:
        run.remove()
    elif run.exists:  # another process has made it since the first check
        raise existing_run_error(run)
    manifest = make_manifest(config, prepared) | {"processes": processes, "precision": precision}
    run.create(config, prepared.tokenizers, prepared.report, manifest)


def reopen_run(
    run: RunDirectory, config: Config, prepared: PreparedData, processes: int, say: Say
) -> tuple[int, bool, bool]:
    """Repair the directory of a run that goes on; return the updates that are made, whether nothing is left to do, and
    whether the epoch in progress begins again, because it is cut into other batches now."""
    refuse_other_data(run, make_manifest(config, prepared))
    say_other_number(run, processes, config.training.accumulation, say)
    whole = run.resumable(say)
    progress = saved_progress(run, whole)
    refuse_fewer_updates(config, progress)
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
    new = changes_to(run, config, progress.update)
    for change in new:
        say(str(change))
    changes = read_changes(run) + new
    write_text(run.config, dump_config(config))  # first: a crash before the next line leaves a change to be recorded
    update = {"config": config.model_dump(mode="json"), "changes": [asdict(each) for each in changes]}
    write_json(run.manifest, read_json(run.manifest) | update)
    prepared.tokenizers.save(run.tokenizer)  # the same, in case a file was damaged
    # also if a crash came between the change and the next checkpoint
    again = any(each.update >= progress.update and each.key == "training.batch_tokens" for each in changes)
    return progress.update, finished, again


def make_manifest(config: Config, prepared: PreparedData) -> dict[str, Any]:
    """The content of ``manifest.json``: data, software and hardware at the start of a run."""
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
        "device": name_of(resolve_device(config.device)),
        "threads": torch.get_num_threads(),
        "corpus_sha256": prepared.corpus_sha256,
        "tokenizer_sha256": prepared.tokenizers.sha256,
        "bleu_tokenizer": tokenizer_of_run(config).tokenizer,
        "changes": [],
    }


# --- refusals ---------------------------------------------------------------------------------------------------------


def refuse_other_config(
    run: RunDirectory, config: Config, allowed: Sequence[str] = (*WITHOUT_EFFECT, *LENGTH, *COURSE)
) -> None:
    """Raise ConfigError that lists the keys, except those that are ``allowed``, in which a configuration differs from
    the one with which a run was trained."""
    changed = {change.key: change for change in changes_to(run, config)}
    # a section of another type has other keys
    others = [key.removesuffix("type") for key in changed if key.endswith(".type")]
    differences = [
        f"{run.path}: {key} was {as_yaml(change.old)} and is now {as_yaml(change.new)}"
        for key, change in changed.items()
        if not is_one_of(key, allowed)
        and not any(key.startswith(section) and key != f"{section}type" for section in others)
    ]
    if differences:
        raise ConfigError(
            *differences,
            "a run resumes with the configuration it started with, but for learning rate, schedule, batch size, "
            "dropout, patience and length; restore it, or use a new --output",
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


def refuse_unequal(world: World, config: Config, prepared: PreparedData) -> None:
    """Raise ConfigError, in all processes, that lists what differs between the configurations, versions, texts or
    tokenizers of two."""
    mine = flat(config.model_dump(mode="json")) | {
        "the version of nmt-attention": __version__,
        "the version of PyTorch": str(torch.__version__),
        "the tokenizers": prepared.tokenizers.sha256,
        **{f"the text of data.{split}": digest for split, digest in prepared.digests.items()},
    }
    (first, first_host), *others = world.gather([mine, platform.node()])
    differences = [
        f"{key}: {as_yaml(first.get(key))} in rank 0 on {first_host}, {as_yaml(other.get(key))} in rank {rank} on "
        f"{host}"
        for rank, (other, host) in enumerate(others, 1)
        for key in sorted(first.keys() | other.keys())
        if first.get(key) != other.get(key)
    ]
    if differences:
        raise ConfigError(*differences, "all processes of a run need the same configuration, versions and files")


def say_other_number(run: RunDirectory, processes: int, accumulation: int, say: Say) -> None:
    """Say how many batches an update has if the run began with another number of processes."""
    before = read_json(run.manifest).get("processes", 1)
    if before != processes:
        say(
            f"processes: {before} when the run began, {processes} now; each update has {accumulation * processes} "
            f"batches from now on (training.accumulation {accumulation} x {processes})"
        )
