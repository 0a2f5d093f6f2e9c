"""Records of a training run: ``metrics.jsonl`` and ``samples.jsonl``, read and cut back to the checkpoint from which it
resumes; the counters beside them; ``film.safetensors``."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter
from safetensors.numpy import load, save

from nmt.errors import FileError, NmtError
from nmt.files import read_json, require_regular_file, write_bytes, writing
from nmt.runs.checkpoints import inspect

LARGEST_METRICS = 1 << 30
"""Bytes of the file of an untrusted run."""


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the records of either file; a kill may cut the last line. Raises FileError if it is no regular file."""
    if not path.exists():
        return []
    require_regular_file(path, LARGEST_METRICS)
    records = []
    for line in path.read_bytes().split(b"\n"):
        with suppress(ValueError, RecursionError):
            records.append(json.loads(line))
    return [each for each in records if isinstance(each, dict) and "step" in each]


def best_validation(records: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the last record that was the best so far, of a validation or of an average; empty without one."""
    judged = [each for each in records if each.get("split") in ("validation", "average") and each.get("best")]
    return judged[-1] if judged else {}


def updates_of_best(records: Iterable[Mapping[str, Any]]) -> tuple[int, ...]:
    """Return the update of the weights in ``best``, or those of the checkpoints they average; empty if unknown."""
    best = best_validation(records)
    updates = best.get("updates", [best.get("step")])
    return tuple(each for each in updates if isinstance(each, int))


def last_progress(run: Path) -> dict[str, Any]:
    """Read the counters of the last checkpoint of a run directory; none if it is unreadable."""
    for name in ("last", "previous"):  # a save renames the one to the other
        with suppress(NmtError, TypeError, ValueError):
            return dict(read_json(run / "checkpoints" / name / "training.json"))
    return {}


def cut_metrics(path: Path, last: Mapping[str, int]) -> None:
    """Drop the lines of ``metrics.jsonl`` or ``samples.jsonl`` that a run writes again when it resumes: those of later
    steps than the ``last`` of their split, and those of other splits.

    A line of samples has no split; it belongs to a validation. Raises FileError.
    """
    if not path.exists():
        return
    require_regular_file(path, LARGEST_METRICS)
    lines = path.read_bytes().split(b"\n")[:-1]  # without one that was cut short by a crash
    write_bytes(path, b"".join(line + b"\n" for line in lines if _stays(line, last)))


def _stays(line: bytes, last: Mapping[str, int]) -> bool:
    """Whether a line is not later than the ``last`` step of its split."""
    try:
        record = json.loads(line)
        return bool(record["step"] <= last[record.get("split", "validation")])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False  # of another split, or damaged


# --- the film of learning ---------------------------------------------------------------------------------------------
# The attention of a few validation sentences at each validation, forced to read the references.
# RUN/film.safetensors holds ``updates`` (F,) and the weights of each sentence, ``0``, ``1``, ..., (F, T, S) in fp16;
# its metadata the sentences. Shapes: F frames, S source and T target pieces, end symbols included.

MOST_FRAMES = 100
LARGEST_FILM = 1 << 26
"""Bytes of the file of an untrusted run."""


@dataclass(frozen=True)
class Filmed:
    """A sentence of a film."""

    source: str
    reference: str
    source_pieces: list[str]
    target_pieces: list[str]


SENTENCES = TypeAdapter(list[Filmed])


@dataclass(frozen=True)
class Film:
    """The attention of some sentences while a network learned."""

    sentences: list[Filmed]
    updates: npt.NDArray[np.int64]
    """(F,), ascending."""
    weights: list[npt.NDArray[np.float16]]
    """Attention weights of each sentence, (F, T, S)."""


def read_film(path: Path) -> Film | None:
    """Read the film of a run; None without one, or if the file is malformed."""
    try:
        require_regular_file(path, LARGEST_FILM)
        sentences = SENTENCES.validate_json(inspect(path)[1]["sentences"])
        arrays = load(path.read_bytes())
        return Film(sentences, arrays["updates"], [arrays[str(number)] for number in range(len(sentences))])
    except (NmtError, OSError, ValueError, LookupError):
        return None


def add_frame(path: Path, update: int, frame: Sequence[tuple[Filmed, npt.NDArray[np.floating]]]) -> None:
    """Add a frame, sentences and the weights (T, S) of each after ``update`` updates, to the film of a run; skip it
    if weights are not finite.

    Frames of the same and of later updates go: a run that resumed makes them again. So does a film of other sentences.
    If there are too many frames, the one goes whose neighbors' updates have the smallest ratio: early frames, when
    attention forms, stay dense. Raises FileError if the file cannot be written.
    """
    if not all(np.isfinite(each).all() for _, each in frame):
        return
    sentences = [each for each, _ in frame]
    film = read_film(path)
    if film is None or film.sentences != sentences:
        film = Film(sentences, np.zeros(0, np.int64), [np.zeros((0, *each.shape), np.float16) for _, each in frame])
    kept = film.updates < update
    updates = np.append(film.updates[kept], update)
    weights = [np.append(old[kept], [new], axis=0) for old, (_, new) in zip(film.weights, frame, strict=True)]
    if len(updates) > MOST_FRAMES:
        dropped = 1 + int((updates[2:] / updates[:-2]).argmin())
        updates, *weights = (np.delete(each, dropped, axis=0) for each in (updates, *weights))
    arrays = {"updates": updates, **{str(number): each.astype(np.float16) for number, each in enumerate(weights)}}
    with writing(path, FileError):
        write_bytes(path, save(arrays, {"sentences": SENTENCES.dump_json(sentences).decode()}))
