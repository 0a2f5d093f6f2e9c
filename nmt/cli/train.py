"""nmt-train: from raw text to a trained run."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from nmt.cli.command import Command
from nmt.cli.files import look_at_corpora
from nmt.cli.options import InputFile, Overrides, Value
from nmt.cli.terminal import StopRequest, say
from nmt.config import Config, load_config, load_run_config
from nmt.errors import ConfigError, FileError, Stopped
from nmt.files import printable
from nmt.messages import Result
from nmt.runs.directory import run_directory


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
        resume: continue the run in the run directory
        overwrite: replace the run in the run directory
        dry_run: rehearse training and keep nothing

    examples:
      nmt-train --config en-fr.yaml --output runs/en-fr
      nmt-train --resume --output runs/en-fr --set training.updates=40000
    """
    loaded = configuration(config, set or (), output, resume=resume)
    look_at_corpora(loaded)
    run = str(run_directory(loaded, resume=resume, overwrite=overwrite).path)
    from nmt.training.dry_run import dry_run as rehearse  # noqa: PLC0415  (slow to import: invalid keys come first)
    from nmt.training.train import train as train_run  # noqa: PLC0415
    from nmt.training.world import joined  # noqa: PLC0415

    stop = StopRequest()
    with joined(loaded.device, loaded.training.timeout) as world:
        if dry_run:
            if world.size > 1:
                raise ConfigError("--dry-run: rehearses training in one process; start it without torchrun")
            rehearse(loaded, resume=resume, overwrite=overwrite, say=say)
            return 0
        try:
            train_run(loaded, resume=resume, overwrite=overwrite, say=say, stop_request=stop, world=world)
        except Stopped:
            if world.writes:
                same = "nmt-train" if world.size == 1 else "the same torchrun command and"
                say(Result(f"stopped; continue with: {same} {shlex.join(['--resume', '--output', run])}"))
            return stop.exit_code
        if world.writes and sys.stderr.isatty():  # a log, or an experiment, types nothing
            commands = [["nmt-translate", "--model", run], ["tensorboard", "--logdir", run]]
            if loaded.data.test is not None:
                commands.insert(1, ["nmt-report", run, "--output", f"{run}.html"])
            say("\n  ".join(["next:", *map(shlex.join, commands)]))
    return 0


main = Command(train)


def configuration(file: str | None, overrides: Sequence[str], output: str | None, *, resume: bool) -> Config:
    """Load a configuration, or that of the run to resume. Raises ConfigError, FileError."""
    if file is not None:
        config = load_config(file, overrides)
    elif resume and output:
        if not Path(output).exists():
            raise FileError(f"{output}: there is no run to resume; start one with --config FILE")
        config = load_run_config(output, overrides)
    else:
        raise ConfigError("--config is missing: give a configuration, or continue a run with --resume --output RUN")
    if output is None:
        return config
    if (shown := printable(output)) != output:
        raise ConfigError(f"output: {shown}: not UTF-8, so config.yaml cannot record it; choose another name")
    return config.model_copy(update={"output": output})
