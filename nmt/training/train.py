"""Training as a function, and checks of the files that a configuration names."""

from collections.abc import Callable, Iterator
from pathlib import Path

from nmt.config import Config
from nmt.config.schema import Section
from nmt.data.lines import matching, require_readable
from nmt.errors import of_key


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


def look_at_corpora(config: Config) -> None:
    """Raise the error of a corpus, tokenizer or gold alignment of a configuration that is missing or unreadable."""
    for key, path in files_of(config):
        with of_key(key if key.endswith(".links") else key.rpartition(".")[0]):
            require_readable(path)


def files_of(config: Config) -> Iterator[tuple[str, str]]:
    """The files that a configuration names or that its patterns match, each with its key."""
    data = config.data
    sections: dict[str, Section | None] = {f"data.{key}": corpus for key, corpus in data.training_corpora.items()}
    sections |= {"data.validation": data.validation, "data.test": data.test, "tokenizer": config.tokenizer}
    sections["evaluation.gold"] = config.evaluation.gold
    for name, section in sections.items():
        for key in ("source", "target", "tsv", "jsonl", "links"):
            if isinstance(pattern := getattr(section, key, None), str):
                with of_key(f"{name}.{key}"):
                    yield from ((f"{name}.{key}", path) for path in matching(pattern))
