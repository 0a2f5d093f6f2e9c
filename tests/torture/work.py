"""A small training that can be made to suffer, and how two trainings are compared."""

import io
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import torch

from nmt.cli.train import main as nmt_train
from nmt.errors import FileError
from nmt.foundation.files import read_json
from nmt.runs.directory import RunDirectory
from nmt.runs.tensors import load_tensors

TIMINGS = ("seconds", "validation_seconds", "target_tokens_per_second")
"""What may differ between two trainings that are the same."""
NOTHING = -1
"""Instead of the number of an update."""
WORDS = ["oak", "elm", "ash", "fir", "yew", "box", "bay", "fig"]


@dataclass(frozen=True)
class Result:
    """What came of one kind of fault."""

    fault: str
    tried: int
    survived: int
    notes: tuple[str, ...] = ()
    """What was lost, each; or how hard the trial was."""

    @property
    def lost(self) -> int:
        """Trials after which something was missing, wrong or let in."""
        return self.tried - self.survived

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"lost": self.lost}


class Trials:
    """Counts the trials of one kind of fault."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.tried = 0
        self.notes: list[str] = []
        self._lost = 0

    def add(self, problems: list[str], count: int = 1) -> None:
        """So many trials, of which none survived if there are problems."""
        self.tried += count
        if problems:
            self._lost += count
            self.notes += problems

    def result(self, *remarks: str) -> Result:
        """What came of them."""
        return Result(self.fault, self.tried, self.tried - self._lost, (*self.notes, *remarks))


class Work:
    """A folder with a corpus, a configuration, and trainings of it.

    Args:
        folder: where everything goes.
        updates: of a training; each is saved, every fifth validated.
    """

    def __init__(self, folder: Path, updates: int = 60) -> None:
        self.folder = folder
        self.random = random.Random(1)
        for split, size in (("train", 120), ("validation", 6), ("test", 6)):
            lines = [" ".join(self.random.choices(WORDS, k=self.random.randint(1, 6))) for _ in range(size)]
            self.write(f"{split}.source", lines)
            self.write(f"{split}.target", [" ".join(reversed(line.upper().split())) for line in lines])
        files = {
            split: {"source": str(folder / f"{split}.source"), "target": str(folder / f"{split}.target")}
            for split in ("train", "validation", "test")
        }
        self.values: dict[str, Any] = {
            "device": "cpu",
            "precision": "fp32",
            "threads": 1,
            "data": {"source_language": "a", "target_language": "b", "cache": str(folder / "cache"), **files},
            "tokenizer": {"type": "word", "vocabulary": 20},
            "model": {
                "attention": {"type": "bahdanau", "hidden": 16},
                "embeddings": {"size": 16},
                "encoder": {"hidden": 16},
                "decoder": {"hidden": 16},
            },
            "training": {
                "updates": updates,
                "batch_tokens": 60,
                "average": 2,
                "save_every": 1,
                "log_every": 2,
                "validation": {"every": 5, "sentences": 2, "samples": 0},
            },
            "evaluation": {"bootstrap": 2},
        }
        self.config = folder / "config.yaml"
        self.config.write_text(json.dumps(self.values), "utf-8")  # JSON is YAML

    def write(self, name: str, lines: list[str]) -> Path:
        """A file of lines."""
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return path

    def run(self, name: str) -> Path:
        """Where a training goes."""
        return self.folder / name

    def fresh(self, name: str) -> Path:
        """A place where there is nothing yet."""
        shutil.rmtree(self.run(name), ignore_errors=True)
        return self.run(name)

    def arguments(self, name: str) -> list[str]:
        """Of ``nmt-train``, to begin a training or go on with it."""
        checkpoints = self.run(name) / "checkpoints"
        begun = any((checkpoints / each).exists() for each in ("last", "previous"))
        how = "--resume" if begun else "--overwrite"
        return ["--config", str(self.config), "--output", str(self.run(name)), how]

    def saved(self, run: Path) -> int:
        """The update after which training would go on, NOTHING if nothing was saved. Raises FileError if what was
        saved cannot be read."""
        directory = RunDirectory(run)
        return int(directory.training("last").state["update"]) if directory.has("last") else NOTHING

    def start(self, name: str, *more: str) -> "subprocess.Popen[str]":
        """``nmt-train`` in a process of its own."""
        return start("nmt-train", *self.arguments(name), *more)

    def finish(self, name: str, *more: str) -> list[str]:
        """Train to the end; -> what went wrong."""
        process = self.start(name, *more)
        _, err = process.communicate()
        return [] if process.returncode == 0 else [f"nmt-train ended with {process.returncode}: {err[-300:]}"]

    def train(self, name: str, *more: str) -> tuple[int, str]:
        """``nmt-train`` in this process; -> exit code and standard error."""
        return _said([*self.arguments(name), *more])

    def dry_run(self, name: str, *more: str) -> tuple[int, str]:
        """Likewise, ``--dry-run`` of a training that would go there."""
        return _said(["--config", str(self.config), "--output", str(self.run(name)), "--dry-run", *more])

    def calm(self) -> Path:
        """The training that nothing happens to."""
        run = self.run("calm")
        if not (run / "test.scores.json").exists():
            problems = self.finish("calm")
            if problems:
                raise RuntimeError(problems[0])
        return run


def _said(arguments: list[str]) -> tuple[int, str]:
    err = io.StringIO()
    with redirect_stderr(err):
        code = nmt_train(arguments)
    return code, err.getvalue()


def start(command: str, *arguments: str, **how: Any) -> "subprocess.Popen[str]":
    """A command of this environment, its output in pipes."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    path = Path(sys.executable).with_name(Path(command).name)
    return subprocess.Popen([str(path), *arguments], text=True, **pipes | how)


def wait_for(stream: IO[str], *beginnings: str) -> str:
    """Read lines until one begins so; -> that line, "" at the end."""
    return next((line.strip() for line in stream if line.startswith(beginnings)), "")


def runs(work: Work, trials: Trials, name: str, times: int) -> Iterator[Path]:
    """Runs to be made until there were so many trials; some may be through too soon to be any."""
    for number in range(10 * times):
        if trials.tried < times:
            yield work.fresh(f"{name}-{number}")
    if trials.tried < times:
        trials.add([f"{name}: only {trials.tried} of {10 * times} trainings could be reached in time"])


def mended(work: Work, run: Path, said: str, calm: Path) -> list[str]:
    """Now that the fault is gone: what is wrong with what was saved before it, or with the training that goes on from
    there to the end. The faulty one had ``said`` how far it was; every update is saved."""
    try:
        saved = work.saved(run)
    except FileError as error:
        return list(error.problems)
    reached = max((int(number) for number in re.findall(r"^update (\d+)/", said, re.MULTILINE)), default=0)
    if saved < reached - 1:
        return [f"{run}: update {reached} was reached, and only {saved} is saved"]
    return gone_on(work, run, saved, calm)


def gone_on(work: Work, run: Path, saved: int, calm: Path) -> list[str]:
    """What is wrong with a training that goes on, to the end, from the update that was saved."""
    code, err = work.train(run.name)
    if code or (saved > NOTHING and f"resumed after update {saved}\n" not in err):
        return [f"{run}: update {saved} was saved, and it did not go on from there: {err[-300:]}"]
    return differences(calm, run)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its place there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def differences(one: Path, other: Path) -> list[str]:
    """In what two finished trainings differ: weights, optimizer, progress, metrics, output. Times may."""
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
        found.append(f"{other}: of only one of the two are {sorted(_files(one) ^ _files(other))}")
    return found


def _scores(path: Path) -> Any:
    scores = read_json(path)
    return scores | {"by_length": [row | {"system": ""} for row in scores["by_length"]]}  # called after the run


def _files(run: Path) -> set[str]:
    """All but TensorBoard's, of which every process makes one, and ``previous``: who was stopped saved then, too."""
    names = (str(path.relative_to(run)) for path in run.rglob("*"))
    return {name for name in names if not name.startswith(("tensorboard/", "checkpoints/previous"))}


def _progress(run: Path) -> dict[str, Any]:
    state = dict(RunDirectory(run).training("last").state)
    state["window"] = _untimed(state["window"])
    return _untimed(state)


def metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, without times."""
    return [_untimed(json.loads(line)) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]


def _untimed(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in TIMINGS}
