"""The learning curves of a run, read from its files without PyTorch."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.errors import CheckpointError
from nmt.runs.metrics import last_progress, read_metrics

Floats = npt.NDArray[np.float64]
SOURCES = {"loss": "train", "perplexity": "validation", "bleu": "validation"}
"""The split of metrics.jsonl that has each measure."""


class Points(NamedTuple):
    """A measure of a run over its training."""

    updates: Floats
    """(points,), ascending."""
    hours: Floats | None
    """(points,), of training and validation; None if they are not known."""
    values: Floats
    """(points,)"""


def values_of(records: Iterable[Mapping[str, Any]], split: str, names: Sequence[str]) -> list[list[Any]]:
    """Return the values of these names in each record of a split; None where a record lacks one."""
    return [[each.get(name) for name in names] for each in records if each.get("split") == split]


def read_learning(path: str | Path) -> dict[str, Points]:
    """Read the learning curves of the run directory ``path``, by measure; a measure may be missing.

    Hours are those of training and validation. A line of training says the seconds of all updates so far. Lines from
    before it did say the rate alone: then each update is taken to have as many tokens as the mean of the run, which
    needs a checkpoint; without one the hours are unknown.

    Raises CheckpointError if the run has no metrics.
    """
    file = Path(path) / "metrics.jsonl"
    records = read_metrics(file)
    hours = _hours(records, _tokens_per_update(Path(path)))
    timed = [{**record, "hours": hour} for record, hour in zip(records, hours, strict=True)]
    curves = {}
    for measure, split in SOURCES.items():
        points = [row for row in values_of(timed, split, ("step", "hours", measure)) if row[-1] is not None]
        if points:
            updates, at, values = (np.array(each, np.float64) for each in zip(*points, strict=True))
            curves[measure] = Points(updates, None if np.isnan(at).any() else at, values)
    if not curves:
        raise CheckpointError(f"{file}: has no losses; nmt-train writes the first after training.log_every updates")
    return curves


def _hours(records: Sequence[dict[str, Any]], tokens_per_update: float) -> list[float]:
    """Return the hours from the beginning of the run to each record; NaN if they are not known.

    Between two training lines, time is shared out evenly among the updates: a validation may lie between them.
    """
    updates, training = [0], [0.0]
    for record in records:
        if record.get("split") == "train":
            rate = record.get("target_tokens_per_second") or np.nan
            guessed = training[-1] + (record["step"] - updates[-1]) * tokens_per_update / rate
            training.append(record.get("seconds", guessed))
            updates.append(record["step"])
    validation, hours = 0.0, []
    for record in records:
        if record.get("split") == "validation":
            validation += record.get("seconds", np.nan)
        hours.append((float(np.interp(record["step"], updates, training)) + validation) / 3600)
    return hours


def _tokens_per_update(run: Path) -> float:
    """Return the mean number of target tokens of an update; NaN without a readable checkpoint."""
    training = last_progress(run)
    with suppress(LookupError, TypeError, ValueError, ZeroDivisionError):
        return float(training["target_tokens"] / training["update"])
    return np.nan
