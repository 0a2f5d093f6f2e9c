"""Files of the commands: what is looked at before a command begins, and writing lines."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from nmt.config import Config, load_run_config
from nmt.config.schema import Section
from nmt.data.lines import matching, require_readable
from nmt.errors import CheckpointError, ConfigError, DataError, NmtError, of_key, tried
from nmt.files import why_unwritable

OptionPaths = Sequence[tuple[str, str | None]]
"""Pairs of an option or key and its file; None if the option is not given."""


class Named(NamedTuple):
    """A named system and the origin of its translations."""

    name: str
    path: str
    """A run directory, or a file of translations."""


class Role(Enum):
    """What a command does with a path."""

    READ = "is read"
    RUN = "is a run directory"
    SYSTEM = "is a run directory or is read"
    WRITTEN = "is written"
    GROWING = "is written, in a directory that is made if it is missing"


def look_at(paths: Iterable[tuple[Role, str, str]]) -> None:
    """Look at every path, given with its role and what names it in messages; raise one error with all problems.

    Raises ConfigError for an output that is also an input, DataError for a file that cannot be read or written,
    CheckpointError for a run that is missing or incomplete.
    """
    listed = list(paths)
    written = (Role.WRITTEN, Role.GROWING)
    refuse_overwriting(
        *([(label, path) for role, label, path in listed if (role in written) is side] for side in (False, True))
    )
    errors: list[NmtError] = []
    for role, _, path in listed:
        try:
            if role is Role.RUN or (role is Role.SYSTEM and os.path.exists(f"{path}/config.yaml")):  # noqa: PTH110
                look_at_run(path)
            elif role not in written:
                if role is Role.SYSTEM and not os.path.exists(path):  # noqa: PTH110  (a name may hold a NUL)
                    raise DataError(f"{path}: no such run directory or file{tried(path)}")
                if role is not Role.SYSTEM or not os.path.isdir(path):  # noqa: PTH112
                    require_readable(path)
            elif role is Role.WRITTEN:
                refuse_unwritable(path)
        except NmtError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]  # it may have a hint where the file is
    if errors:
        raise DataError(*dict.fromkeys(problem for error in errors for problem in error.problems))


def look_at_run(path: str) -> None:
    """Raise CheckpointError, ConfigError or FileError for a run directory that cannot translate, as far as that shows
    without PyTorch."""
    run = Path(path)
    load_run_config(run)
    if not any("best" in each.name for each in (run / "checkpoints").glob("*")):
        raise CheckpointError(f"{run / 'checkpoints' / 'best'}: missing; a run has it after its first validation")


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


def refuse_overwriting(reads: OptionPaths, writes: OptionPaths) -> None:
    """Raise ConfigError for an output that is also an input, another output, or inside a run directory."""
    if empty := [name for name, path in (*reads, *writes) if path == ""]:
        raise ConfigError(*(f"{name}: the file name is empty" for name in empty))
    seen: dict[Any, str] = {}
    runs: list[tuple[str, Path]] = []
    for name, path in reads:
        if path is not None and os.path.isdir(path):  # noqa: PTH112  (a name may hold a NUL)
            runs += [(f"{name} {path}", Path(path))] if (Path(path) / "config.yaml").exists() else []
        elif path is not None:
            seen.setdefault(_identity(path), name)
            runs += [(f"{name} {path}", run) for run in _enclosing_runs(Path(path))]
    for name, path in writes:
        if path is None or (identity := _identity(path)) is None:
            continue
        if identity in seen:
            raise ConfigError(f"{name} {path}: is the same file as {seen[identity]}; choose another")
        inside = [f"of {run}" for run, folder in runs if folder.resolve() in Path(os.path.realpath(path)).parents]
        if inside := inside or [str(run) for run in _enclosing_runs(Path(path))]:
            raise ConfigError(f"{name} {path}: is inside the run directory {inside[0]}; choose a file outside it")
        seen[identity] = name


def _enclosing_runs(file: Path) -> list[Path]:
    """List the run directories that contain a file."""
    folders = Path(os.path.realpath(file)).parents
    return [each for each in folders if (each / "config.yaml").is_file() and (each / "checkpoints").is_dir()]


def _identity(path: str) -> Any:
    """Return a value shared by all names of a file; None for pipes and devices."""
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
        return None
    return os.path.realpath(path)


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
