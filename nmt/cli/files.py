"""Output files of the commands: what must not be overwritten, what can be written, and writing it."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nmt.config import Config, load_run_config
from nmt.config.schema import Section
from nmt.data.lines import matching, require_readable
from nmt.errors import CheckpointError, ConfigError, DataError, of_key, tried
from nmt.files import why_unwritable

OptionPaths = Sequence[tuple[str, str | None]]
"""Pairs of an option or key and its file; None if the option is not given."""


def refuse_unwritable(*paths: str | None) -> None:
    """Raise DataError now for a file that could not be written after hours of work; None stands for no file."""
    for path in paths:
        if path is None:
            continue
        file, folder = Path(path), Path(path).parent
        if file.is_dir():
            code, remedy = errno.EISDIR, "name a file in it"
        elif not folder.exists():
            code, remedy = errno.ENOENT, f"make the directory {folder}{tried(folder)}, or choose another"
        else:
            code, remedy = 0 if folder.is_dir() else errno.ENOTDIR, "choose another file, or change the permissions"
        if problem := os.strerror(code) if code else why_unwritable(file if file.exists() else folder):
            raise DataError(f"{path}: cannot be written: {problem}; {remedy}")


def refuse_missing(files: Iterable[str | None], runs: Iterable[str] = ()) -> None:
    """Raise the error of an input file or run that is not there now: PyTorch takes seconds to import.

    None stands for no file; a run needs a checkpoint to translate with.
    """
    for run in runs:
        load_run_config(run)
        best = Path(run) / "checkpoints" / "best"
        if not any(best.parent.glob("*best*")):
            raise CheckpointError(f"{best}: missing; a run has it after its first validation")
    for file in files:
        if file is not None:
            require_readable(file)


def refuse_missing_corpora(config: Config) -> None:
    """Raise the error of a corpus, tokenizer or gold alignment of a configuration that is not there, as
    :func:`refuse_missing` does."""
    for key, path in files_of(config):
        with of_key(key if key.endswith(".links") else key.rpartition(".")[0]):
            refuse_missing([path])


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


def refuse_overwriting(reads: OptionPaths, writes: OptionPaths) -> None:
    """Raise ConfigError for an output that is also an input, another output, or inside a run directory."""
    if empty := [name for name, path in (*reads, *writes) if path == ""]:
        raise ConfigError(*(f"{name}: the file name is empty" for name in empty))
    seen: dict[Any, str] = {}
    runs: list[tuple[str, Path]] = []
    for name, path in reads:
        if path is not None and os.path.isdir(path):  # noqa: PTH112  (a name may hold a NUL)
            runs.append((f"{name} {path}", Path(path)))
        elif path is not None:
            seen.setdefault(_identity(path), name)
            runs += [(f"{name} {path}", run) for run in _enclosing_runs(Path(path))]
    for name, path in writes:
        if path is None or (identity := _identity(path)) is None:
            continue
        if identity in seen:
            raise ConfigError(f"{name} {path}: is the same file as {seen[identity]}; choose another")
        inside = [f"of {run}" for run, folder in runs if _is_inside(Path(path), folder)]
        if inside := inside or [str(run) for run in _enclosing_runs(Path(path))]:
            raise ConfigError(f"{name} {path}: is inside the run directory {inside[0]}; choose a file outside it")
        seen[identity] = name


def _enclosing_runs(file: Path) -> list[Path]:
    """List the run directories that contain a file."""
    folders = Path(os.path.realpath(file)).parents
    return [each for each in folders if (each / "config.yaml").is_file() and (each / "checkpoints").is_dir()]


def _is_inside(file: Path, run: Path) -> bool:
    """Whether a file is part of a run directory, also through a symbolic or hard link."""
    if run.resolve() in Path(os.path.realpath(file)).parents:
        return True
    linked = file.exists() and file.stat().st_nlink > 1
    return linked and any(each.is_file() and file.samefile(each) for each in run.rglob("*"))


def _identity(path: str) -> Any:
    """Return a value shared by all names of a file, hard links included; None for pipes and devices."""
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
        return None
    status = Path(path).stat() if Path(path).exists() else None
    return (status.st_dev, status.st_ino) if status else os.path.realpath(path)


@contextlib.contextmanager
def writing(name: str) -> Iterator[None]:
    """Turn an OSError into a DataError that names the output; BrokenPipeError, a reader that is gone, passes."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"{name}: cannot be written: {error.strerror or error}") from error


def write_lines(path: str, lines: Iterable[str]) -> list[str]:
    """Write lines to a file as they arrive, and return them. Raises DataError if the file cannot be written."""
    written = []
    with writing(path), Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(f"{line}\n")
            written.append(line)
    return written
