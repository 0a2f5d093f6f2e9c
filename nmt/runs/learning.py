"""The learning curves of a run, read from its files without PyTorch."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.errors import CheckpointError
from nmt.evaluation.metrics import METRICS
from nmt.runs.metrics import read_metrics

Floats = npt.NDArray[np.float64]
TRAINING = "training"
"""Name of the curve of the training loss; the others have the names of metrics of the validation set."""


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
    """Read the learning curves of the run directory ``path``: the training loss, and every metric of the validations.

    Raises CheckpointError if the run has no metrics.
    """
    file = Path(path) / "metrics.jsonl"
    records = read_metrics(file)
    hours = _hours(records)
    timed = [{**record, "hours": hour} for record, hour in zip(records, hours, strict=True)]
    curves = {}
    sources = {TRAINING: ("train", "loss"), **{name: ("validation", name) for name in METRICS}}
    for curve, (split, name) in sources.items():
        points = [row for row in values_of(timed, split, ("step", "hours", name)) if row[-1] is not None]
        if points:
            updates, at, values = (np.array(each, np.float64) for each in zip(*points, strict=True))
            curves[curve] = Points(updates, None if np.isnan(at).any() else at, values)
    if not curves:
        raise CheckpointError(f"{file}: has no losses; nmt-train writes the first after training.log_every updates")
    return curves


def _hours(records: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the hours of training and validation before each record; NaN if they are not known.

    Between two training lines, time is shared out evenly among the updates: a validation may lie between them.
    """
    training = [(0, 0.0)]
    training += [(each["step"], each.get("seconds", np.nan)) for each in records if each.get("split") == "train"]
    updates, seconds = zip(*training, strict=True)
    validation, hours = 0.0, []
    for record in records:
        if record.get("split") == "validation":
            validation += record.get("seconds", np.nan)
        hours.append((float(np.interp(record["step"], updates, seconds)) + validation) / 3600)
    return hours
