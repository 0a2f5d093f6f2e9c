"""``nmt-train``: from raw text to a trained and scored run."""

import argparse
import signal
from collections.abc import Sequence
from types import FrameType

from nmt.cli.common import command, say
from nmt.config import load_config


class StopRequest:
    """Ctrl-C or SIGTERM, noted for the training loop to act on between two updates; a second one acts at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def __call__(self) -> bool:
        """Whether training shall stop."""
        return self.signal is not None

    def _note(self, number: int, _: FrameType | None) -> None:
        self.signal = number
        say("stopping after this update; once more stops at once")
        signal.signal(number, signal.SIG_DFL)


def parser() -> argparse.ArgumentParser:
    """The options of ``nmt-train``."""
    arguments = argparse.ArgumentParser(prog="nmt-train", description=__doc__)
    arguments.add_argument("--config", required=True, metavar="FILE", help="the YAML configuration")
    arguments.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help="override one dotted key"
    )
    arguments.add_argument("--output", metavar="RUN", help="the run directory (overrides output: in the configuration)")
    arguments.add_argument("--resume", action="store_true", help="continue the run in the run directory")
    arguments.add_argument("--overwrite", action="store_true", help="replace the run in the run directory")
    arguments.add_argument("--dry-run", action="store_true", help="check everything that can fail later; keep nothing")
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> int:
    """Train; 0 when finished, 130 or 143 when stopped by a signal."""
    from nmt.training.pipeline import dry_run, train_run  # noqa: PLC0415  (PyTorch is slow to import)

    config = load_config(arguments.config, arguments.overrides)
    if arguments.output is not None:
        config = config.model_copy(update={"output": arguments.output})
    if arguments.dry_run:
        dry_run(config, resume=arguments.resume, overwrite=arguments.overwrite, say=say)
        return 0
    stop = StopRequest()
    if train_run(config, resume=arguments.resume, overwrite=arguments.overwrite, say=say, stopped=stop):
        return 0
    sets = "".join(f" --set {override}" for override in arguments.overrides)
    say(f"stopped; continue with: nmt-train --config {arguments.config}{sets} --output {config.output} --resume")
    return 128 + (stop.signal or signal.SIGINT)
