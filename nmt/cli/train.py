"""Train a translation model from raw parallel text.

This checks the corpora, learns the tokenizers, trains, keeps the best checkpoint, and scores the test set.

examples:
  nmt-train --config en-fr.yaml --output runs/en-fr
  nmt-train --resume --output runs/en-fr --set training.updates=40000
"""

import argparse
import contextlib
import os
import shlex
import signal
from pathlib import Path
from textwrap import indent
from types import FrameType, TracebackType
from typing import Any, Self

from nmt.cli.common import INTERRUPTED, as_typed, command, importing, say
from nmt.cli.files import refuse_missing_corpora
from nmt.cli.options import CommandParser, add_config_options
from nmt.config import Config, load_config, load_run_config
from nmt.config.schema.data import FileCorpus
from nmt.errors import CheckpointError, ConfigError
from nmt.files import run_name
from nmt.messages import Result

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


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-train``."""
    arguments = CommandParser(prog="nmt-train", description=__doc__)
    add_config_options(arguments, required=False)
    arguments.add_argument("--output", metavar="RUN", help="run directory (default: output of the configuration)")
    arguments.add_argument(
        "--resume", action="store_true", help="continue the run in the run directory; --config may be left out"
    )
    arguments.add_argument("--overwrite", action="store_true", help="replace the run in the run directory")
    arguments.add_argument(
        "--dry-run", action="store_true", help="rehearse training, so that errors appear now; keep nothing"
    )
    return arguments


def configuration(arguments: argparse.Namespace) -> Config:
    """Load ``--config``, or the configuration of the run to resume. Raises ConfigError, CheckpointError."""
    if arguments.config is not None:
        config = load_config(arguments.config, arguments.overrides)
    elif arguments.resume and arguments.output:
        if not (Path(arguments.output) / "config.yaml").exists():
            raise CheckpointError(f"{arguments.output}: there is no run to resume; start one with --config FILE")
        config = load_run_config(arguments.output, arguments.overrides)
    else:
        raise ConfigError("--config is missing: give a configuration, or continue a run with --resume --output RUN")
    return config if arguments.output is None else config.model_copy(update={"output": arguments.output})


def next_commands(config: Config) -> list[str]:
    """Return commands to type after training, with the paths of the run and of its test set."""
    run, test = str(config.output), config.data.test
    source = reference = "FILE"
    if isinstance(test, FileCorpus) and not any(sign in test.source + test.target for sign in "*?["):
        source, reference = test.source, test.target
    text = ["--source", source, "--reference", reference]
    name = run_name(run)
    shown = [] if config.model.attention.type == "none" else ["--show-attention"]
    commands = [
        ["nmt-translate", "--model", run, *shown],
        ["nmt-evaluate", "--model", run, *text],
        ["nmt-length-curve", *text, "--system", f"{name}={run}", "--output", f"{run}.length"],
        ["tensorboard", "--logdir", run],
    ]
    return [shlex.join([as_typed(command), *options]) for command, *options in commands]


@command(parser)
def main(arguments: argparse.Namespace) -> int:
    """Train; returns 0 when finished, 128 plus its number when stopped by a signal."""
    os.environ.setdefault("LRU_CACHE_CAPACITY", str(PRODUCTS))  # PyTorch reads it when it is imported
    config = configuration(arguments)
    refuse_missing_corpora(config)
    with importing():
        from nmt.runs.directory import RunDirectory  # noqa: PLC0415
        from nmt.training import processes  # noqa: PLC0415  (slow to import: invalid keys must not wait)
        from nmt.training.dry_run import dry_run  # noqa: PLC0415
        from nmt.training.pipeline import BEGUN, train_run  # noqa: PLC0415
        from nmt.training.world import on_writer  # noqa: PLC0415

    def how() -> tuple[bool, bool]:
        """Whether to resume, and whether to overwrite: torchrun repeats the first command after a failure."""
        if not config.output or not world.remembers(BEGUN):
            return arguments.resume, arguments.overwrite
        begun = RunDirectory(config.output).has("last")
        return begun, not begun

    stop = StopRequest()
    with processes.joined(config.device, config.training.timeout) as world:
        if arguments.dry_run:
            if world.size > 1:
                raise ConfigError("--dry-run: rehearses training in one process; start it without torchrun")
            dry_run(config, resume=arguments.resume, overwrite=arguments.overwrite, say=say)
            return 0
        resume, overwrite = on_writer(world, how)
        if train_run(config, resume=resume, overwrite=overwrite, say=say, stop_request=stop, world=world):
            if world.writes:
                say(f"next:\n{indent(chr(10).join(next_commands(config)), '  ')}")
            return 0
        if world.writes:
            command = [] if world.size > 1 else [as_typed("nmt-train")]
            again = shlex.join([*command, "--resume", "--output", str(config.output)])
            say(Result(f"stopped; continue with: {'the same torchrun command and ' if world.size > 1 else ''}{again}"))
    return INTERRUPTED if stop.signal is None else 128 + stop.signal
