"""Errors that a user can correct.

They derive from :class:`NmtError`; the commands print them as lines on standard error and exit with code 2. Any other
exception that escapes is a defect of this toolkit.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class NmtError(Exception):
    """One or more problems, each a line that names the place, what was found and what would be right."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems: Sequence[str] = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)

    @classmethod
    def raise_if_any(cls, problems: Iterable[str]) -> None:
        """Raise one error with all problems, each once; do nothing if there are none."""
        if found := dict.fromkeys(problems):
            raise cls(*found)


class ConfigError(NmtError):
    """An invalid configuration: all its problems, each with its dotted key."""


class DataError(NmtError):
    """Unusable text: the file and, if known, the line."""


class FileError(NmtError):
    """A file, for example of a run, that is missing, damaged, of the wrong kind, not to be trusted or not writable."""


class ProcessError(NmtError):
    """Another process of the run that has ended or does not answer."""


class NmtWarning(UserWarning):
    """Something that a user may want to mend and that stops nothing; the commands print it on standard error."""


class Stopped(Exception):
    """Raised between two batches when a stop was requested; not an error."""


@contextmanager
def noted(problems: list[str]) -> Iterator[None]:
    """Add the problems of an error to a list, and go on."""
    try:
        yield
    except NmtError as error:
        problems += error.problems


@contextmanager
def of_key(key: str) -> Iterator[None]:
    """Begin each problem of a file with the dotted key that names it."""
    try:
        yield
    except (DataError, FileError) as error:
        error.problems = [f"{key}: {problem}" for problem in error.problems]
        raise


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """``nearest: NAME`` for the known name that is most like a misspelt one; nothing if none is like it."""
    return [f"nearest: {near}" for near in get_close_matches(name, list(known), 1)]


def tried(path: str | Path) -> str:
    """`` (tried /absolute/path)`` for a relative path; "" for an absolute one."""
    absolute = Path(path).absolute()
    return "" if absolute == Path(path) else f" (tried {absolute})"
