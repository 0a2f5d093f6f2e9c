"""Compare a run that suffered a fault with the undisturbed one."""

import json
import re
from pathlib import Path
from typing import Any

import torch

from nmt.errors import FileError
from nmt.files import read_json
from nmt.runs.directory import RunDirectory
from nmt.runs.tensors import load_tensors
from tests.torture.trial_folder import NOTHING, TrialFolder

TIMINGS = ("seconds", "validation_seconds", "target_tokens_per_second")
"""Values that may differ between two equal runs."""
OF_A_FINISHED_RUN = (
    "checkpoints/last/model.safetensors",
    "checkpoints/last/training.json",
    "metrics.jsonl",
    "test.hypotheses.txt",
    "test.scores.json",
)
"""What the comparison reads, and a run that was not finished may lack."""
CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
"""What Python prints between the parts of one traceback."""


def recovery_problems(folder: TrialFolder, run: Path, err: str) -> list[str]:
    """Resume a run after its fault has been repaired, and return the problems.

    Every update is saved, so the checkpoint must not be older than the last update that ``err``, the standard error of
    the process that failed, reports.
    """
    try:
        saved = folder.saved(run)
    except FileError as error:
        return list(error.problems)
    reached = max((int(number) for number in re.findall(r"^update (\d+)/", err, re.MULTILINE)), default=0)
    if saved < reached - 1:
        return [f"{run}: update {reached} was made, but only {saved} is saved"]
    return resumption_problems(folder, run, saved)


def resumption_problems(folder: TrialFolder, run: Path, saved: int) -> list[str]:
    """Resume a run, whose last saved update is ``saved``, to the end, and return the problems."""
    code, err = folder.train(run.name)
    if code or (saved > NOTHING and f"resumed after update {saved}\n" not in err):
        return [f"{run}: update {saved} was saved, but training did not resume from it: {err[-300:]}"]
    return differences(folder.undisturbed(), run)


def crashed(err: str) -> bool:
    """Whether there is a traceback in ``err`` other than the one that --verbose prints before the error it explains."""
    before, traceback, rest = err.rpartition("Traceback (most recent call last):")
    while before.rstrip().endswith(CHAINED):
        before = before.rpartition("Traceback (most recent call last):")[0]
    return "Traceback" in before or (bool(traceback) and ": error: " not in rest)


def snapshot(folder: Path) -> dict[str, bytes]:
    """The content of every file below a folder, by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def differences(one: Path, other: Path) -> list[str]:
    """Return what differs between two finished runs: weights, optimizer, progress, metrics, output, but not times; of a
    run that is not finished, what it lacks."""
    if lacking := [f"{run} is not finished: {name} is missing" for run in (one, other) for name in _lacking(run)]:
        return lacking
    found = []
    for file in sorted(file for file in _files(one) & _files(other) if file.endswith(".safetensors")):
        tensors, others = load_tensors(one / file), load_tensors(other / file)
        if tensors.keys() != others.keys() or any(not torch.equal(tensors[key], others[key]) for key in tensors):
            found.append(f"{other / file} differs")
    if _progress(one) != _progress(other):
        found.append(f"{other}: the progress differs")
    lines, other_lines = (metrics(run) for run in (one, other))
    if lines != other_lines:
        found.append(f"{other / 'metrics.jsonl'}: {len(other_lines)} lines instead of {len(lines)}, or other numbers")
    for name, content in (("test.hypotheses.txt", Path.read_bytes), ("test.scores.json", _scores)):
        if content(one / name) != content(other / name):
            found.append(f"{other / name} differs")
    if _files(one) != _files(other):
        found.append(f"{other}: only one of the two runs has {sorted(_files(one) ^ _files(other))}")
    return found


def _lacking(run: Path) -> list[str]:
    """The files of a finished run that are not there."""
    return [name for name in OF_A_FINISHED_RUN if not (run / name).exists()]


def _scores(path: Path) -> Any:
    scores = read_json(path)
    return scores | {"by_length": [row | {"system": ""} for row in scores["by_length"]]}  # named after the run


def _files(run: Path) -> set[str]:
    """All files but TensorBoard's, one for each process, and those of ``previous``, which a stopped run also writes."""
    names = (str(path.relative_to(run)) for path in run.rglob("*"))
    return {name for name in names if not name.startswith(("tensorboard/", "checkpoints/previous"))}


def _progress(run: Path) -> dict[str, Any]:
    state = dict(RunDirectory(run).training("last").state)
    state["window"] = _without_times(state["window"])
    return _without_times(state)


def metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl``, without times."""
    return [_without_times(json.loads(line)) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]


def _without_times(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in TIMINGS}
