"""Train a translation model from raw parallel text.

This checks the corpora, learns the tokenizers, trains, keeps the best checkpoint, and scores the test set.

examples:
  nmt-train --config en-fr.yaml --output runs/en-fr
  nmt-train --resume --output runs/en-fr --set training.updates=40000
"""

import argparse
import contextlib
import shlex
import signal
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from nmt.cli.common import INTERRUPTED, as_typed, command, importing, say
from nmt.cli.options import add_config_options
from nmt.config import Config, load_config, load_run_config
from nmt.errors import CheckpointError, ConfigError


class StopRequest:
    """A stop request by Ctrl-C, SIGTERM or SIGHUP.

    Within its ``with`` block the first signal is recorded, and training stops after the current step or batch. A second
    signal ends the process immediately.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        hung_up = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else []  # nohup ignores it
        self._before = {
            number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM, *hung_up)
        }
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Whether a stop was requested."""
        return self.signal is not None

    def _note(self, number: int, _: FrameType | None) -> None:
        self.signal = number
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)
        with contextlib.suppress(RuntimeError):  # the signal may arrive while another line is printed
            say("stopping after this step; press Ctrl-C again to stop immediately")


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-train``."""
    arguments = argparse.ArgumentParser(prog="nmt-train", description=__doc__)
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


@command(parser)
def main(arguments: argparse.Namespace) -> int:
    """Train; returns 0 when finished, 128 plus its number when stopped by a signal."""
    config = configuration(arguments)
    with importing():
        from nmt.training.dry_run import dry_run  # noqa: PLC0415  (slow to import: invalid keys must not wait)
        from nmt.training.pipeline import train_run  # noqa: PLC0415

    if arguments.dry_run:
        dry_run(config, resume=arguments.resume, overwrite=arguments.overwrite, say=say)
        return 0
    stop = StopRequest()
    if train_run(config, resume=arguments.resume, overwrite=arguments.overwrite, say=say, stop_request=stop):
        return 0
    again = [as_typed("nmt-train"), "--resume", "--output", str(config.output)]
    say(f"stopped; continue with: {shlex.join(again)}")
    return INTERRUPTED if stop.signal is None else 128 + stop.signal
