"""The learning curves of a run, read from its files without PyTorch."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.plots.learning import Curve, Learning
from nmt.runs.metrics import last_progress, read_metrics

SOURCES = {"loss": "train", "perplexity": "validation", "bleu": "validation"}
"""The split of metrics.jsonl that has each measure."""


def read_learning(path: str | Path, name: str) -> Learning:
    """Read the learning curves of the run directory ``path``.

    Hours are those of training and validation. A line of training says the seconds of all updates so far. Lines from
    before it did say the rate alone: then each update is taken to have as many tokens as the mean of the run, which
    needs a checkpoint; without one the hours are unknown.

    Raises CheckpointError if the run has no metrics.
    """
    file = Path(path) / "metrics.jsonl"
    records = read_metrics(file)
    hours = _hours(records, _tokens_per_update(Path(path)))
    curves = {}
    for measure, split in SOURCES.items():
        points = [
            (record["step"], hour, record[measure])
            for record, hour in zip(records, hours, strict=True)
            if record.get("split") == split and record.get(measure) is not None
        ]
        if points:
            updates, at, values = (np.array(each, np.float64) for each in zip(*points, strict=True))
            curves[measure] = Curve(updates, None if np.isnan(at).any() else at, values)
    if not curves:
        raise CheckpointError(f"{file}: has no losses; nmt-train writes the first after training.log_every updates")
    return Learning(name, curves)


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
