"""nmt-train: from raw text to a trained run."""

import contextlib
import os
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from types import FrameType, TracebackType
from typing import Annotated, Any, Self

from nmt.cli.common import INTERRUPTED, say
from nmt.cli.signature import Command, InputFile, Overrides, Value
from nmt.config import Config, load_config, load_run_config
from nmt.config.schema.data import FileCorpus
from nmt.errors import CheckpointError, ConfigError
from nmt.files import run_name
from nmt.messages import Result
from nmt.runs.directory import run_directory
from nmt.training.train import look_at_corpora

PRODUCTS = 32
"""Compiled matrix products that PyTorch keeps beside the 1,024 that oneDNN keeps. PyTorch's own choice is 1,024 too;
the second copy takes 300 MB in bf16 and saves no time."""


class StopRequest:
    """A stop request by Ctrl-C, SIGTERM or SIGHUP.

    Within its ``with`` block the first signal is recorded, and training stops after the current step or batch. A second
    signal ends the process immediately. Signals that nohup or a script has made the process ignore stay ignored, except
    SIGTERM.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        heard = [each for each in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(each) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGTERM, *heard)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Whether a stop was requested."""
        return self.signal is not None

    def _note(self, number: int, _: FrameType | None) -> None:
        self.signal = number
        if "RANK" in os.environ:  # torchrun passes on signals that have also come directly, and kills after 30 s
            if os.environ["RANK"] == "0":
                say("stopping after this step")
            return
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)
        with contextlib.suppress(RuntimeError):  # the signal may arrive while another line is printed
            say("stopping after this step; press Ctrl-C again to stop immediately")


def next_commands(config: Config) -> list[str]:
    """Return commands to type after training, with the paths of the run and of its test set."""
    run, test = str(config.output), config.data.test
    source = reference = "FILE"
    if isinstance(test, FileCorpus) and not any(sign in test.source + test.target for sign in "*?["):
        source, reference = test.source, test.target
    text = ["--source", source, "--reference", reference]
    name = run_name(run)
    commands = [
        ["nmt-translate", "--model", run],
        ["nmt-evaluate", "--model", run, *text],
        ["nmt-length-curve", *text, "--system", f"{name}={run}", "--output", f"{run}.length"],
        ["tensorboard", "--logdir", run],
    ]
    return [shlex.join(words) for words in commands]


def train(
    *,
    config: InputFile | None = None,
    set: Overrides | None = None,
    output: Annotated[str, Value("RUN")] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
) -> int:
    """Train a translation model from raw parallel text.

    This checks the corpora, learns the tokenizers, trains, keeps the best checkpoint, and scores the test set.

    Args:
        config: YAML configuration (default: with --resume, the configuration of the run)
        output: run directory (default: output of the configuration)
        resume: continue the run in the run directory; --config may be left out
        overwrite: replace the run in the run directory
        dry_run: rehearse training, so that errors appear now; keep nothing

    examples:
      nmt-train --config en-fr.yaml --output runs/en-fr
      nmt-train --resume --output runs/en-fr --set training.updates=40000
    """
    os.environ.setdefault("LRU_CACHE_CAPACITY", str(PRODUCTS))  # PyTorch reads it when it is imported
    loaded = configuration(config, set or (), output, resume=resume)
    look_at_corpora(loaded)
    run_directory(loaded, resume=resume, overwrite=overwrite)
    from nmt.training.dry_run import dry_run as rehearse  # noqa: PLC0415  (slow to import: invalid keys come first)
    from nmt.training.pipeline import train_run  # noqa: PLC0415
    from nmt.training.world import joined  # noqa: PLC0415

    stop = StopRequest()
    with joined(loaded.device, loaded.training.timeout) as world:
        if dry_run:
            if world.size > 1:
                raise ConfigError("--dry-run: rehearses training in one process; start it without torchrun")
            rehearse(loaded, resume=resume, overwrite=overwrite, say=say)
            return 0
        if train_run(loaded, resume=resume, overwrite=overwrite, say=say, stop_request=stop, world=world):
            if world.writes:
                say(f"next:\n{indent(chr(10).join(next_commands(loaded)), '  ')}")
            return 0
        if world.writes:
            command = [] if world.size > 1 else ["nmt-train"]
            again = shlex.join([*command, "--resume", "--output", str(loaded.output)])
            say(Result(f"stopped; continue with: {'the same torchrun command and ' if world.size > 1 else ''}{again}"))
    return INTERRUPTED if stop.signal is None else 128 + stop.signal


main = Command(train)


def configuration(file: str | None, overrides: Sequence[str], output: str | None, *, resume: bool) -> Config:
    """Load a configuration, or that of the run to resume. Raises ConfigError, CheckpointError."""
    if file is not None:
        config = load_config(file, overrides)
    elif resume and output:
        if not (Path(output) / "config.yaml").exists():
            raise CheckpointError(f"{output}: there is no run to resume; start one with --config FILE")
        config = load_run_config(output, overrides)
    else:
        raise ConfigError("--config is missing: give a configuration, or continue a run with --resume --output RUN")
    return config if output is None else config.model_copy(update={"output": output})
