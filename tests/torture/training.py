"""A small training run that suffers faults."""

import io
import re
import signal
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from nmt.cli.train import main as nmt_train
from nmt.runs.directory import RunDirectory
from nmt.runs.log import read_metrics
from tests.comparison import differences

NOTHING = -1
"""Instead of the number of an update: nothing was saved."""


class Training:
    """A training run in ``run``, with the configuration in ``corpus``; ``undisturbed`` is the same without a fault."""

    def __init__(self, corpus: Path, run: Path) -> None:
        self.config, self.run, self.undisturbed = corpus / "config.yaml", run, corpus / "undisturbed"

    def arguments(self) -> list[str]:
        """Those of ``nmt-train`` that begin the run, or resume it if it has a checkpoint."""
        begun = any((self.run / "checkpoints" / each).exists() for each in ("last", "previous"))
        how = "--resume" if begun else "--overwrite"
        return ["--config", str(self.config), "--output", str(self.run), how, "--verbose"]  # which prints each update

    def start(self) -> "subprocess.Popen[str]":
        """Begin or resume the run in a process of its own."""
        return start("nmt-train", *self.arguments())

    def call(self) -> tuple[int, str]:
        """Begin or resume the run in this process; return the exit code and the standard error."""
        with redirect_stderr(io.StringIO()) as err:
            code = nmt_train(self.arguments())
        return code, err.getvalue()

    def saved(self) -> int:
        """The update from which training would resume; NOTHING without a checkpoint."""
        directory = RunDirectory(self.run)
        return int(directory.training("last").state["update"]) if directory.has("last") else NOTHING

    def recovers(self, err: str = "") -> None:
        """Resume the run once its fault is repaired: it ends like the undisturbed one.

        Every update is saved, so the checkpoint is not older than the last update that ``err``, the standard error of
        the process that failed, reports. On a fast machine, the run may have been scored before its fault.
        """
        saved, metrics = self.saved(), read_metrics(RunDirectory(self.run).metrics)
        assert saved >= max(map(int, re.findall(r"^update (\d+)/", err, re.MULTILINE)), default=0) - 1
        code, err = self.call()
        assert code == 0, err
        scored = any(each["split"] == "test" for each in metrics)
        told = f"finished after update {saved};" if scored else f"resumed after update {saved}\n"
        assert saved == NOTHING or told in err
        self.ended_undisturbed()

    def ended_undisturbed(self) -> None:
        """Compare the run with the undisturbed one."""
        assert differences(self.undisturbed, self.run) == []


def start(command: str, *arguments: str, **how: Any) -> "subprocess.Popen[str]":
    """Start a command of this environment, with its output in pipes, and with signals as a terminal leaves them: what a
    script or nohup starts ignores some, and so would its children."""
    usual = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    path = Path(sys.executable).with_name(command)
    return subprocess.Popen([str(path), *arguments], text=True, **usual | {"preexec_fn": _default_signals} | how)


def _default_signals() -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)


def wait_for(process: "subprocess.Popen[str]", *beginnings: str) -> str:
    """Read the standard error up to a line that begins with one of ``beginnings``; return that line, or ""."""
    assert process.stderr is not None
    return next((line.strip() for line in process.stderr if line.startswith(beginnings)), "")
