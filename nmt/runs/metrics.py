"""``metrics.jsonl`` and ``samples.jsonl``: read, and cut back to the checkpoint from which a run resumes; the counters
beside them."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import starmap
from pathlib import Path
from typing import Any

from nmt.errors import NmtError
from nmt.files import read_json, require_regular_file, write_bytes

LARGEST_METRICS = 1 << 30
"""Bytes of the file of an untrusted run."""
OTHER_TYPES = {"split": str, "signature": str, "updates": list, "lines": list}
"""The types of the values of a record that are not numbers."""
LARGEST_DRAWN = 1e305
"""Above every perplexity, which training limits to exp(700); a figure can still be drawn to scale."""


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the records of either file, but for malformed ones: the run may come from a stranger, and the last line of a
    run that was killed may not be whole. Raises FileError for what is no regular file."""
    if not path.exists():
        return []
    require_regular_file(path, LARGEST_METRICS)
    records = []
    for line in path.read_bytes().split(b"\n"):
        with suppress(ValueError, RecursionError):
            records.append(json.loads(line))
    return [each for each in records if isinstance(each, dict) and "step" in each and all(starmap(_fits, each.items()))]


def _fits(name: str, value: Any) -> bool:
    """Whether a value of a record has the type with which training writes it; a number is finite."""
    if name in OTHER_TYPES:
        items = value if isinstance(value, list) else ()
        return isinstance(value, OTHER_TYPES[name]) and all(isinstance(each, dict) or is_number(each) for each in items)
    return value is None or is_number(value)


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a number that is finite, and small enough to be drawn."""
    return isinstance(value, int | float) and abs(value) <= LARGEST_DRAWN


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
    """Read the counters of the last checkpoint of a run directory that are numbers; none if it is unreadable."""
    for name in ("last", "previous"):  # a save renames the one to the other
        with suppress(NmtError, AttributeError):  # no object
            progress = read_json(run / "checkpoints" / name / "training.json")
            return {key: value for key, value in progress.items() if is_number(value)}
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
