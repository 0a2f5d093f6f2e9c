"""Whether a run may go on: with this configuration and text, and with these processes."""

import platform
from collections.abc import Callable, Sequence
from typing import Any

import torch

from nmt import __version__
from nmt.config import Config
from nmt.data.dataset import PreparedData
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.evaluation.writing import DEFAULT
from nmt.files import read_json
from nmt.runs.changes import COURSE, LENGTH, WITHOUT_EFFECT, History, as_yaml, flat, is_one_of
from nmt.runs.directory import RunDirectory
from nmt.training.progress import Progress
from nmt.training.world import World


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


def say_other_number(run: RunDirectory, world: World, accumulation: int, say: Callable[[str], None]) -> None:
    """Say how many batches an update has if the run began with another number of processes."""
    before = read_json(run.manifest).get("processes", 1)
    if before != world.size:
        say(
            f"the run began with {_processes(before)} and goes on with {_processes(world.size)}: each update has "
            f"{accumulation * world.size} batches from now on (training.accumulation {accumulation} x "
            f"{_processes(world.size)})"
        )


def _processes(number: int) -> str:
    return f"{number} process{'es' if number > 1 else ''}"
