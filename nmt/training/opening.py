"""The run directory before its first update: refused, created, or opened to go on."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import torch

from nmt import __version__
from nmt.config import Config, dump_config
from nmt.data.dataset import PreparedData
from nmt.device import name_of, resolve_device
from nmt.errors import CheckpointError, ConfigError, DataError, FileError
from nmt.evaluation.writing import DEFAULT, tokenizer_of_run
from nmt.files import read_json, write_json, write_text
from nmt.runs.changes import (
    COURSE,
    LENGTH,
    WITHOUT_EFFECT,
    Change,
    History,
    as_yaml,
    changes_as_json,
    flat,
    is_one_of,
)
from nmt.runs.directory import RunDirectory, existing_run_error
from nmt.runs.metrics import cut_metrics, read_metrics
from nmt.training.checkpointing import saved_progress
from nmt.training.progress import Progress
from nmt.training.world import World

Say = Callable[[str], None]


# --- what is left to do -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ending:
    """Which steps of a run need not be repeated, because their results are there."""

    trained: bool
    """All updates are made, and ``best`` exists."""
    averaged: bool
    """The average of checkpoints is made, or there is none."""
    scored: bool
    """The test set is translated and scored, or there is none."""
    same_options: bool
    """As ``decoding`` and ``evaluation`` of the configuration say."""

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do."""
        return self.averaged and self.scored and self.same_options

    @property
    def left(self) -> list[str]:
        """A line that says what is left to do after training; none if training is left."""
        if not self.trained:
            return []
        steps = [] if self.averaged else ["averaging checkpoints"]
        steps += [] if self.scored and self.same_options else ["translating and scoring the test set"]
        return [f"training is finished; what is left: {' and '.join(steps)}"]

    @classmethod
    def of(cls, run: RunDirectory, config: Config, progress: Progress) -> "Ending":
        """Look into the directory of a run that has come as far as ``progress``; ``config`` is the wanted one.

        Raises FileError for a manifest that cannot be read.
        """
        if not progress.finished(config.training) or not run.has("best"):
            return NOTHING_DONE
        last = {record.get("split"): record.get("step") for record in read_metrics(run.metrics)}
        tested, changed = last.get("test") == progress.update, History.of(run).changed_to(config, progress.update)
        written = run.test_hypotheses.exists() and run.test_scores.exists()
        return cls(
            trained=True,
            averaged=tested
            or config.training.average == 1
            or len(progress.kept) < 2
            or last.get("average") == progress.update,
            scored=config.data.test is None or (tested and written),
            same_options=not any(is_one_of(change.key, ("decoding", "evaluation")) for change in changed),
        )


NOTHING_DONE = Ending(trained=False, averaged=False, scored=False, same_options=False)


# --- creating and opening ---------------------------------------------------------------------------------------------


def open_run(
    run: RunDirectory,
    config: Config,
    prepared: PreparedData,
    precision: str | None,
    say: Say,
    *,
    resume: bool,
    overwrite: bool,
    processes: int,
) -> tuple[int, dict[str, bool], bool]:
    """Create or repair the run directory; -> the updates that are made, which steps of its ending, and whether the
    epoch begins again, as JSON.

    ``precision`` is the one in which a new run begins.
    """
    manifest = make_manifest(config, prepared) | {"processes": processes}
    if resume:
        refuse_other_config(run, config)  # again, because another process may have changed the run
        refuse_other_data(run, manifest)
        say_other_number(run, processes, config.training.accumulation, say)
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
    if precision is not None:
        manifest["precision"] = precision
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


# --- refusals ---------------------------------------------------------------------------------------------------------


def refuse_other_config(
    run: RunDirectory, config: Config, allowed: Sequence[str] = (*WITHOUT_EFFECT, *LENGTH, *COURSE)
) -> None:
    """Raise ConfigError that lists the keys, except those that are ``allowed``, in which a configuration differs from
    the one with which a run was trained."""
    changed = {change.key: change for change in History.of(run).changed_to(config, 0)}
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
    """Raise ConfigError if a run has already made more updates, or read more, than the configuration allows."""
    updates, epochs = config.training.updates, config.training.epochs
    position = progress.position
    if epochs is not None and (position.epoch, position.batch) > (epochs, 0):
        read = f"{position.epoch} and a part of the next" if position.batch else f"{position.epoch}"
        raise ConfigError(
            f"training.epochs: {epochs}, but the run has already read {read}; a run can be extended, not shortened: "
            "use a new --output"
        )
    if updates is not None and updates < progress.update:
        raise ConfigError(
            f"training.updates: {updates}, but the run has already made {progress.update}; a run can "
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


def refuse_unequal(world: World, config: Config) -> None:
    """Raise ConfigError, in all processes, that lists what differs between the configurations or versions of two."""
    host = platform.node()
    mine = flat(config.model_dump(mode="json")) | {
        "the version of nmt-attention": __version__,
        "the version of PyTorch": str(torch.__version__),
    }
    (first, first_host), *others = world.gather([mine, host])
    differences = [
        f"{key}: {as_yaml(first.get(key))} in rank 0 on {first_host}, {as_yaml(other.get(key))} in rank "
        f"{rank} on {other_host}"
        for rank, (other, other_host) in enumerate(others, 1)
        for key in sorted(first.keys() | other.keys())
        if first.get(key) != other.get(key)
    ]
    if differences:
        raise ConfigError(*differences, "all processes of a run need the same configuration and the same versions")


def refuse_unequal_data(world: World, prepared: PreparedData) -> None:
    """Raise DataError, in all processes, if some have read other text than the first or learned other tokenizers."""
    mine = {"digests": prepared.digests, "tokenizers": prepared.tokenizers.sha256, "host": platform.node()}
    first, *others = world.gather(mine)
    problems = []
    for rank, other in enumerate(others, 1):
        digests, where = other["digests"], f"rank {rank} on {other['host']}"
        differing = [f"data.{key}" for key in first["digests"] if digests[key] != first["digests"][key]]
        what = [f"text in {', '.join(differing)}"] if differing else []
        if other["tokenizers"] != first["tokenizers"]:
            what.append("tokenizers")
        problems += [f"{where} has other {each} than rank 0 on {first['host']}" for each in what]
    if problems:
        raise DataError(*problems, "all processes of a run must read the same files: copy them, or share the directory")


def say_other_number(run: RunDirectory, processes: int, accumulation: int, say: Say) -> None:
    """Say how many batches an update has if the run began with another number of processes."""
    before = read_json(run.manifest).get("processes", 1)
    if before != processes:
        say(
            f"the run began with {_processes(before)} and goes on with {_processes(processes)}: each update has "
            f"{accumulation * processes} batches from now on (training.accumulation {accumulation} x "
            f"{_processes(processes)})"
        )


def _processes(number: int) -> str:
    return f"{number} process{'es' if number > 1 else ''}"
