"""A folder with a small corpus, a configuration and training runs, in which the trials are made."""

import io
import json
import shutil
import signal
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import IO, Any

from nmt.cli.train import main as nmt_train
from nmt.runs.directory import RunDirectory
from tests.small_run import write_corpus

NOTHING = -1
"""Instead of the number of an update: nothing was saved."""


class TrialFolder:
    """A folder with a small corpus, a configuration and training runs.

    Args:
        path: the folder.
        updates: number of updates of a run; each is saved, every fifth is validated.
    """

    def __init__(self, path: Path, updates: int = 60) -> None:
        self.path = path
        self.values: dict[str, Any] = {
            "device": "cpu",
            "precision": "fp32",
            "threads": 1,
            "data": {
                "source_language": "a",
                "target_language": "b",
                "cache": str(path / "cache"),
                **write_corpus(path, train=120, validation=6, test=6, longest=6, sides=("source", "target")),
            },
            "tokenizer": {"type": "word", "vocabulary": 20},
            "model": {
                "attention": {"type": "bahdanau", "score": {"hidden": 16}},
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
        self.config = path / "config.yaml"
        self.config.write_text(json.dumps(self.values), "utf-8")  # JSON is YAML

    def run(self, name: str) -> Path:
        """The run directory of a name."""
        return self.path / name

    def fresh(self, name: str) -> Path:
        """A run directory that does not exist yet; an older one of this name is removed."""
        shutil.rmtree(self.run(name), ignore_errors=True)
        return self.run(name)

    def arguments(self, name: str) -> list[str]:
        """The arguments of ``nmt-train`` that begin a run, or resume it if it has a checkpoint."""
        checkpoints = self.run(name) / "checkpoints"
        begun = any((checkpoints / each).exists() for each in ("last", "previous"))
        how = "--resume" if begun else "--overwrite"
        return ["--config", str(self.config), "--output", str(self.run(name)), how, "--verbose"]  # says each update

    def saved(self, run: Path) -> int:
        """The update from which training would resume; NOTHING without a checkpoint. Raises FileError if the checkpoint
        cannot be read."""
        directory = RunDirectory(run)
        return int(directory.training("last").state["update"]) if directory.has("last") else NOTHING

    def start(self, name: str, *more: str) -> "subprocess.Popen[str]":
        """Start ``nmt-train`` in a process of its own."""
        return start("nmt-train", *self.arguments(name), *more)

    def finish(self, name: str, *more: str) -> list[str]:
        """Train to the end in a process of its own; return the problems."""
        process = self.start(name, *more)
        _, err = process.communicate()
        return [] if process.returncode == 0 else [f"nmt-train ended with {process.returncode}: {err[-300:]}"]

    def train(self, name: str, *more: str) -> tuple[int, str]:
        """Train in this process; return the exit code and the standard error."""
        return _train([*self.arguments(name), *more])

    def dry_run(self, name: str, *more: str) -> tuple[int, str]:
        """Make a dry run of a run in this process; return the exit code and the standard error."""
        return _train(["--config", str(self.config), "--output", str(self.run(name)), "--dry-run", *more])

    def undisturbed(self) -> Path:
        """The run that suffers no fault, with which the others are compared; trained at the first call."""
        run = self.run("undisturbed")
        if not (run / "test.scores.json").exists():
            problems = self.finish("undisturbed")
            if problems:
                raise RuntimeError(problems[0])
        return run


def _train(arguments: list[str]) -> tuple[int, str]:
    err = io.StringIO()
    with redirect_stderr(err):
        code = nmt_train(arguments)
    return code, err.getvalue()


def start(command: str, *arguments: str, **how: Any) -> "subprocess.Popen[str]":
    """Start a command of this environment, with its output in pipes, and with signals as a terminal leaves them: what a
    script or nohup starts ignores some, and so would its children."""
    usual = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    path = Path(sys.executable).with_name(Path(command).name)
    return subprocess.Popen([str(path), *arguments], text=True, **usual | {"preexec_fn": _default_signals} | how)


def _default_signals() -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)


def wait_for(process: "subprocess.Popen[str]", *beginnings: str) -> str:
    """Read the standard error of a process up to a line that begins with one of ``beginnings``; return that line, or ""
    if there is none."""
    stream: IO[str] | None = process.stderr
    assert stream is not None
    return next((line.strip() for line in stream if line.startswith(beginnings)), "")
