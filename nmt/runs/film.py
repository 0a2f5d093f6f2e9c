"""The film of learning: the attention of a few validation sentences at each validation, forced to read the references.

RUN/film.safetensors holds ``updates`` (F,) and the weights of each sentence, ``0``, ``1``, ..., (F, T, S) in fp16; its
metadata the sentences. Shapes: F frames, S source and T target pieces, end symbols included.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter
from safetensors.numpy import load, save

from nmt.errors import CheckpointError, NmtError
from nmt.files import require_regular_file, write_bytes
from nmt.runs.checkpoints import inspect

MOST_FRAMES = 100
"""Frames that a run keeps."""
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
    """Of each sentence, (F, T, S)."""


def read_film(path: Path) -> Film | None:
    """Read the film of a run; None without one, or if the file, which may come from a stranger, is malformed."""
    try:
        require_regular_file(path, LARGEST_FILM)
        sentences = SENTENCES.validate_json(inspect(path)[1]["sentences"])
        arrays = load(path.read_bytes())
        film = Film(sentences, arrays["updates"], [arrays[str(number)] for number in range(len(sentences))])
    except (NmtError, OSError, ValueError, LookupError):
        return None
    whole = film.updates.ndim == 1 and film.updates.dtype == np.int64 and film.updates.size > 0
    whole = whole and bool((film.updates[1:] > film.updates[:-1]).all())
    for each, weights in zip(sentences, film.weights, strict=True):
        shape = (film.updates.size, len(each.target_pieces), len(each.source_pieces))
        whole = whole and weights.shape == shape and bool(((weights >= 0) & (weights <= 1)).all())
    return film if whole else None


def add_frame(path: Path, update: int, frame: Sequence[tuple[Filmed, npt.NDArray[np.floating]]]) -> None:
    """Add a frame, sentences and the weights (T, S) of each after ``update`` updates, to the film of a run; none whose
    weights are not finite.

    Frames of the same and of later updates go: a run that resumed makes them again. So does a film of other sentences.
    Where there are too many frames, the one goes whose neighbors' updates have the smallest ratio: early ones, when
    attention forms, stay dense. Raises CheckpointError if the file cannot be written.
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
    try:
        write_bytes(path, save(arrays, {"sentences": SENTENCES.dump_json(sentences).decode()}))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be written: {error.strerror or error}") from None
