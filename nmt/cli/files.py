"""Files of the commands: checks before a command begins, and streams of lines in and out."""

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import BinaryIO, NamedTuple

from nmt.config import load_run_config
from nmt.data.lines import decode_lines, read_lines, require_readable, unreadable
from nmt.errors import CheckpointError, ConfigError, DataError, NmtError, tried
from nmt.files import why_unwritable


class System(NamedTuple):
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


class NamedPath(NamedTuple):
    """A path that a command reads or writes."""

    role: Role
    label: str
    """Names it in messages: an option or a key."""
    path: str


def look_at(paths: Sequence[NamedPath]) -> None:
    """Look at every path; raise one error with all problems.

    Raises ConfigError for an output that is also an input, DataError for what cannot be read or written.
    """
    refuse_overwriting(paths)
    problems: list[str] = []
    for role, _, path in paths:
        try:
            if role is Role.WRITTEN:
                refuse_unwritable(path)
            elif role is Role.RUN or (role is Role.SYSTEM and Path(path, "config.yaml").exists()):
                look_at_run(Path(path))
            elif role is Role.SYSTEM and not Path(path).exists():
                raise DataError(f"{path}: no such run directory or file{tried(path)}")
            elif role is Role.READ or (role is Role.SYSTEM and not Path(path).is_dir()):
                require_readable(path)
        except NmtError as error:
            problems += error.problems
    if problems:
        raise DataError(*dict.fromkeys(problems))


def look_at_run(run: Path) -> None:
    """Raise CheckpointError, ConfigError or FileError for a run directory that cannot translate, as far as that shows
    without PyTorch."""
    load_run_config(run)
    if not any("best" in each.name for each in (run / "checkpoints").glob("*")):
        raise CheckpointError(f"{run / 'checkpoints' / 'best'}: missing; a run has it after its first validation")


def refuse_unwritable(path: str) -> None:
    """Raise DataError now for a file that could not be written after hours of work."""
    file, folder = Path(path), Path(path).parent
    if file.is_dir():
        code, remedy = errno.EISDIR, "name a file in it"
    elif not folder.exists():
        code, remedy = errno.ENOENT, f"make the directory {folder}{tried(folder)}, or choose another"
    else:
        code, remedy = 0 if folder.is_dir() else errno.ENOTDIR, "choose another file, or change the permissions"
    if problem := os.strerror(code) if code else why_unwritable(file if file.exists() else folder):
        raise DataError(f"{path}: cannot be written: {problem}; {remedy}")


def refuse_overwriting(paths: Sequence[NamedPath]) -> None:
    """Raise ConfigError for an output that is also an input, another output, or inside a run directory."""
    taken: dict[str, str] = {}
    for role, label, path in sorted(paths, key=lambda each: each.role in (Role.WRITTEN, Role.GROWING)):
        real = os.path.realpath(path)
        if Path(path).exists() and not Path(path).is_file():  # pipes and devices; what is in a run is found below
            continue
        if role in (Role.WRITTEN, Role.GROWING):
            if real in taken:
                raise ConfigError(f"{label} {path}: is the same file as {taken[real]}; choose another")
            for folder in Path(real).parents:
                if (folder / "config.yaml").is_file() and (folder / "checkpoints").is_dir():
                    raise ConfigError(f"{label} {path}: is inside the run directory {folder}; choose a file outside it")
        taken.setdefault(real, label)


# --- lines in ---------------------------------------------------------------------------------------------------------


def open_input(path: str | None) -> tuple[str, Iterator[str]]:
    """Return the name for messages and the lines of a file, of standard input without one."""
    return (path, read_lines(path)) if path else ("standard input", standard_input())


def standard_input() -> Iterator[str]:
    """Yield the lines of standard input. Raises DataError if it cannot be read."""
    try:
        yield from decode_lines(sys.stdin.buffer, "standard input")
    except OSError as error:  # it is a directory
        raise unreadable("standard input", error) from error


def count_lines(path: str | None) -> int | None:
    """Count the lines of a file, to know how long it takes; None without a regular file."""
    return sum(1 for _ in read_lines(path)) if path is not None and Path(path).is_file() else None


# --- lines out --------------------------------------------------------------------------------------------------------


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


class Output:
    """A file or stream of UTF-8 lines; each line is flushed.

    ``form`` makes a line from whatever the command writes a line for.
    """

    def __init__(self, name: str, stream: BinaryIO, form: Callable[..., str]) -> None:
        self.name, self.stream, self.format = name, stream, form

    def write(self, lines: Iterable[str]) -> None:
        """Write lines. Raises DataError if that fails, BrokenPipeError if the reader is gone."""
        with writing(self.name):
            self.stream.write("".join(f"{line}\n" for line in lines).encode())
            self.stream.flush()

    def close(self) -> None:
        """Close the file. Raises DataError if pending output cannot be written."""
        with writing(self.name):
            self.stream.close()


def open_outputs(
    output: tuple[str | None, Callable[..., str]],
    *others: tuple[str | None, Callable[..., str]],
    stack: contextlib.ExitStack,
) -> list[Output]:
    """Open the output of a command, standard output if its path is None, and the others that have a path.

    Each is a path and a form; the stack closes them. Raises DataError for a file that cannot be written.
    """
    outputs = [Output("standard output", sys.stdout.buffer, output[1])] if output[0] is None else []
    for path, form in (output, *others):
        if path is not None:
            with writing(path):
                outputs.append(Output(path, Path(path).open("wb"), form))  # noqa: SIM115  (the stack closes it)
            stack.callback(outputs[-1].close)
    return outputs
