"""``metrics.jsonl`` and ``samples.jsonl``: read, and cut back to the checkpoint from which a run resumes; the counters
beside them."""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from nmt.errors import CheckpointError, NmtError
from nmt.files import LARGEST_JSON, read_json, require_regular_file

LARGEST_METRICS, MOST_DROPPED = 1 << 30, 1_000_000
"""Limits for an untrusted run: bytes of the file, and lines written since the last checkpoint."""


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the records of either file; the last line of a run that was killed may not be whole, and is left out."""
    records = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        with suppress(ValueError):
            records.append(json.loads(line))
    return [record for record in records if isinstance(record, dict)]


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
    """Read the counters of the last checkpoint of a run directory; empty if it is missing or unreadable."""
    for name in ("last", "previous"):  # a save renames the one to the other
        with suppress(NmtError, OSError, ValueError):
            progress = read_json(run / "checkpoints" / name / "training.json")
            return progress if isinstance(progress, dict) else {}
    return {}


def cut_metrics(path: Path, last: Mapping[str, int]) -> None:
    """Drop the last lines of ``metrics.jsonl`` or ``samples.jsonl``, which a run writes again when it resumes: those of
    later steps than the ``last`` of their split, and those of other splits.

    A line of samples has no split; it belongs to a validation. Raises CheckpointError.
    """
    if not path.exists():
        return
    require_regular_file(path, LARGEST_METRICS)
    dropped = 0
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        with mmap(file.fileno(), 0, access=ACCESS_READ) if end else nullcontext(b"") as text:
            while end:
                start = text.rfind(b"\n", 0, end - 1) + 1
                if end - start < LARGEST_JSON and _stays(text[start:end], last):
                    break
                end, dropped = start, dropped + 1
                if dropped > MOST_DROPPED:
                    raise CheckpointError(f"{path}: nmt-train did not write the end of this file")
        file.truncate(end)
        os.fsync(file.fileno())


def _stays(line: bytes, last: Mapping[str, int]) -> bool:
    """Whether a line is whole and not later than the ``last`` step of its split."""
    try:
        record = json.loads(line)
        return line.endswith(b"\n") and bool(record["step"] <= last[record.get("split", "validation")])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False  # a crash cut the line short
