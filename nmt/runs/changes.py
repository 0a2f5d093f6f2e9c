"""The configuration of a run, and the changes that were made to it whenever training resumed.

``manifest.json`` has the configuration that the run began with and a list of changes, each with its update. Both
together are what the run was trained with, whatever somebody has since written into ``config.yaml``.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from nmt.config import Config
from nmt.errors import CheckpointError
from nmt.files import read_json
from nmt.runs.directory import RunDirectory

WITHOUT_EFFECT = (
    "output",
    "device",
    "threads",
    "kernels",
    "data.cache",
    "data.processes",
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
LENGTH = ("training.epochs", "training.updates", "training.accumulation", "training.validation.patience")
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


@dataclass(frozen=True)
class History:
    """The configuration with which a run was trained."""

    began: Mapping[str, Any]
    """Values by dotted key."""
    changes: tuple[Change, ...]
    """In the order of their updates."""

    @classmethod
    def of(cls, run: RunDirectory) -> "History":
        """Read the manifest of a run. Raises FileError."""
        manifest = read_json(run.manifest)
        try:
            changes = TypeAdapter(tuple[Change, ...]).validate_python(manifest.get("changes", []))
            return cls(flat(dict(manifest["config"])), changes)
        except (AttributeError, LookupError, TypeError, ValueError, ValidationError):
            raise CheckpointError(f"{run.manifest}: not the manifest of a run") from None

    def until(self, update: int) -> "History":
        """Leave out later changes than those of an update, as a run does that goes back to an older checkpoint."""
        return History(self.began, tuple(each for each in self.changes if each.update <= update))

    def values(self) -> dict[str, Any]:
        """Return the values by dotted key after the last change."""
        return {**self.began, **{change.key: change.new for change in self.changes}}

    def changed_to(self, config: Config, update: int) -> tuple[Change, ...]:
        """Return the changes that lead from here to a configuration, but for the name of the run directory."""
        before, now = self.values(), flat(config.model_dump(mode="json"))
        return tuple(
            Change(update, key, before.get(key), now.get(key))
            for key in sorted(before.keys() | now.keys())
            if before.get(key) != now.get(key) and key != "output"
        )


def changes_as_json(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Convert changes for the manifest."""
    return [asdict(change) for change in changes]


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
