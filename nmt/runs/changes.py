"""The configuration of a run, and the changes that were made to it whenever training resumed.

``manifest.json`` has the configuration that the run is trained with, whatever somebody has since written into
``config.yaml``, and a list of changes, each with its update.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nmt.config import Config
from nmt.errors import CheckpointError, ConfigError
from nmt.files import read_json
from nmt.messages import Say
from nmt.runs.directory import RunDirectory

WITHOUT_EFFECT = (
    "output",
    "device",
    "threads",
    "kernels",
    "data.cache",
    "training.save_every",
    "training.log_every",
    "training.timeout",
    "training.validation.samples",
    "decoding.beam_size",
    "decoding.batch_tokens",
    "evaluation",
)
"""Dotted keys, or sections of them, that change no number of training but by rounding: another device, number of
threads or translation batch changes the order of additions. The other keys of ``decoding`` also affect validation,
whose BLEU decides which checkpoint is best."""
LENGTH = ("training.updates", "training.accumulation", "training.validation.patience")
"""Those that a longer run, or one of another number of processes, may change."""
COURSE = (
    "training.optimizer.learning_rate",
    "training.schedule",
    "training.batch_tokens",
    "model.dropout",
    "model.encoder.dropout",
    "model.decoder.dropout",
)
"""Those that a person may change in the course of training."""


@dataclass(frozen=True)
class Change:
    """Another value of one key of the configuration, from an update on."""

    update: int
    """The number of updates that were made before."""
    key: str
    """A dotted key."""
    old: Any
    """JSON; null for a key that the section did not have."""
    new: Any

    def __str__(self) -> str:
        return f"after update {self.update:,}: {self.key} changed from {as_yaml(self.old)} to {as_yaml(self.new)}"


def changes_to(manifest: Mapping[str, Any], config: Config, update: int = 0) -> list[Change]:
    """Return the changes, after an ``update``, from the configuration in a manifest to another one, but for the name of
    the run directory."""
    before, now = flat(manifest["config"]), flat(config.model_dump(mode="json"))
    return [
        Change(update, key, before.get(key), now.get(key))
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and key != "output"
    ]


def differences(manifest: Mapping[str, Any], config: Config, allowed: Iterable[str]) -> list[str]:
    """Say in which keys, except those that are ``allowed``, a configuration differs from that in a manifest."""
    changed = {change.key: change for change in changes_to(manifest, config)}
    # a section of another type has other keys
    others = [key.removesuffix("type") for key in changed if key.endswith(".type")]
    return [
        f"{key} was {as_yaml(change.old)} and is now {as_yaml(change.new)}"
        for key, change in changed.items()
        if not is_one_of(key, allowed)
        and not any(key.startswith(section) and key != f"{section}type" for section in others)
    ]


def refuse_other_config(
    run: RunDirectory, config: Config, allowed: Iterable[str] = (*WITHOUT_EFFECT, *LENGTH, *COURSE)
) -> None:
    """Raise ConfigError that lists the keys, except those that are ``allowed``, in which a configuration differs from
    the one with which a run was trained."""
    if changed := differences(read_manifest(run), config, allowed):
        raise ConfigError(
            *changed,
            f"{run.path}: a run resumes with the configuration it started with, but for learning rate, schedule, "
            f"batch size, dropout, patience and length; restore it (--config can be left out), or train another run, "
            f"without --resume: nmt-train --config {run.config} --output NEW",
        )


def read_manifest(run: RunDirectory) -> dict[str, Any]:
    """Read the manifest of a run. Raises FileError."""
    manifest = read_json(run.manifest)
    kinds = {"config": dict, "changes": list}
    if not isinstance(manifest, dict) or any(not isinstance(manifest.get(key), kind) for key, kind in kinds.items()):
        raise CheckpointError(f"{run.manifest}: not the manifest of a run")
    return manifest


def say_precisions(runs: Iterable[RunDirectory], say: Say) -> None:
    """Say it if runs were trained in different precisions."""
    manifests = {run.path: read_json(run.manifest) for run in runs if run.manifest.exists()}
    found = {
        path: each["precision"] for path, each in manifests.items() if isinstance(each, dict) and "precision" in each
    }
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{run} in {each}" for run, each in found.items())
        say(f"trained in different precisions: {listed}; for a fair comparison train all with --set precision=fp32")


def is_one_of(key: str, keys: Iterable[str]) -> bool:
    """Whether a dotted key is one of these, or in a section that is."""
    return any(key == each or key.startswith(f"{each}.") for each in keys)


def flat(section: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten a section to values by dotted key."""
    if not isinstance(section, Mapping):
        return {prefix: section}
    return {
        dotted: leaf
        for key, child in section.items()
        for dotted, leaf in flat(child, f"{prefix}.{key}" if prefix else key).items()
    }


def as_yaml(value: Any) -> str:
    """Format a value as in YAML."""
    return repr(value) if isinstance(value, str) else json.dumps(value)
