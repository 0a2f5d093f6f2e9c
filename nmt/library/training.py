"""Training as a function."""

from collections.abc import Callable
from pathlib import Path

from nmt.config import Config


def silent(line: str) -> None:
    """Say nothing."""


def train(
    config: Config, *, resume: bool = False, overwrite: bool = False, say: Callable[[str], None] = silent
) -> Path:
    """Train as ``nmt-train`` does; return the run directory, ``config.output``, for :meth:`Translator.load`.

    >>> config = load_config("tiny.yaml", ["training.updates=2", "output=runs/two-updates"])
    >>> train(config)
    PosixPath('runs/two-updates')
    >>> train(config)
    Traceback (most recent call last):
    ...
    nmt.errors.ConfigError: output: runs/two-updates holds a run; continue it with --resume, or replace it with ...

    An interruption (KeyboardInterrupt) leaves a run that ``resume`` continues from its last checkpoint. Training uses
    ``config.threads`` threads of PyTorch and seeds its generator; both last.

    Args:
        config: from :func:`load_config`.
        resume: continue the run in the run directory.
        overwrite: replace it.
        say: receives each line that ``nmt-train`` prints; ``print`` shows them.

    Raises ConfigError if there is a run and neither ``resume`` nor ``overwrite`` is set, DataError for unusable text,
    CheckpointError for a run that cannot go on, TypeError for a configuration that is not loaded.
    """
    if not isinstance(config, Config):
        raise TypeError(f"config must be a Config, as nmt.load_config(FILE) returns it; found {config!r}")
    from nmt.training.pipeline import train_run  # noqa: PLC0415  (PyTorch is slow to import)

    train_run(config, resume=resume, overwrite=overwrite, say=say)
    return Path(str(config.output))
