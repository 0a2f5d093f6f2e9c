"""Compare run directories; make the checksums of a changed checkpoint fit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nmt.files import digest, read_json
from nmt.runs.checkpoints import CHECKSUMS

MAY_DIFFER = ("seconds", "target_tokens_per_second", "system")
"""Values that may differ between equal runs: times, and the name of the directory."""


def differences(one: Path, other: Path) -> list[str]:
    """The files in which two finished runs differ; times may differ, and the place."""
    left, right = _contents(one), _contents(other)
    return sorted(name for name in left.keys() | right.keys() if left.get(name, ()) != right.get(name, ()))


def _contents(run: Path) -> dict[str, Any]:
    """Weights, optimizer, progress, metrics, translations, scores and tokenizers of a run by file name, and the names
    of all other files, except TensorBoard's, one for each process, and those of ``previous``."""
    names = (str(path.relative_to(run)) for path in run.rglob("*"))
    return {
        name: COMPARED[Path(name).name](run / name) if Path(name).name in COMPARED else None
        for name in names
        if not name.startswith(("tensorboard/", "checkpoints/previous"))
    }


def _comparable(value: Any) -> Any:
    """A value of JSON without what may differ."""
    if isinstance(value, dict):
        return {name: _comparable(each) for name, each in value.items() if name not in MAY_DIFFER}
    return [_comparable(each) for each in value] if isinstance(value, list) else value


COMPARED: dict[str, Callable[[Path], Any]] = {
    "model.safetensors": Path.read_bytes,
    "training.safetensors": Path.read_bytes,
    "training.json": lambda path: _comparable(read_json(path)),
    "metrics.jsonl": lambda path: [_comparable(json.loads(line)) for line in path.read_text("utf-8").splitlines()],
    "test.hypotheses.txt": Path.read_bytes,
    "test.scores.json": lambda path: _comparable(read_json(path)),
    "source.model": Path.read_bytes,
    "target.model": Path.read_bytes,
}


def snapshot(folder: Path) -> dict[str, bytes]:
    """The content of every file below a folder, by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def reseal(checkpoint: Path) -> None:
    """Make the checksums of a checkpoint fit its files, as an attacker would."""
    files = (path for path in checkpoint.iterdir() if path.name != CHECKSUMS and is_small(path))
    (checkpoint / CHECKSUMS).write_text(json.dumps({path.name: digest(path) for path in files}), "utf-8")


def is_small(path: Path) -> bool:
    """Whether a path is a file that can be read in a moment."""
    return path.is_file() and path.stat().st_size < 1 << 30
