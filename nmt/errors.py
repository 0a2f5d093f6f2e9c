"""What a user can put right.

Everything raised on purpose for a user derives from :class:`NmtError`; the commands turn it into lines on standard
error and exit code 2. Anything else that escapes is a defect of this toolkit.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class NmtError(Exception):
    """One or more problems, each a line that names the place, what was found and what would be right."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems: Sequence[str] = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


class ConfigError(NmtError):
    """A configuration that cannot be used: every problem in it, each with its dotted key."""


class DataError(NmtError):
    """Text that cannot be used: the file and, where there is one, the line."""


class MissingFile(DataError):
    """A file to be read that does not exist."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(f"{path}: no such file{tried(path)}")
        self.path = Path(path)
        """As it was named."""


class FileError(NmtError):
    """A file that is missing, damaged, not what its place needs, or not to be trusted."""


class CheckpointError(FileError):
    """A run directory that cannot be used or written."""


class Stopped(Exception):
    """Raised between two batches when a stop was requested; not an error."""


@contextmanager
def of_key(key: str) -> Iterator[None]:
    """Put the dotted key that names a file before what is wrong with the file."""
    try:
        yield
    except (DataError, FileError) as error:
        error.problems = [f"{key}: {problem}" for problem in error.problems]
        raise


def tried(path: str | Path) -> str:
    """`` (tried /absolute/path)`` for a relative path; empty for an absolute one, which a message names already."""
    absolute = Path(path).absolute()
    return "" if absolute == Path(path) else f" (tried {absolute})"
