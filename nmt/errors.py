"""What a user can put right.

Everything raised on purpose for a user derives from :class:`NmtError`; the commands turn it into lines on standard
error and exit code 2. Anything else that escapes is a defect of this toolkit.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class NmtError(Exception):
    """One or more problems, each a line that names the place, what was found and what would be right."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems: Sequence[str] = problems


class ConfigError(NmtError):
    """A configuration that cannot be used: every problem in it, each with its dotted key."""


class DataError(NmtError):
    """Text that cannot be used: the file and, where there is one, the line."""


class CheckpointError(NmtError):
    """A run directory that cannot be used or written."""


class Stopped(Exception):
    """Whoever was asked between two pieces of work whether to go on said no: a signal has come, say. No error."""


@contextmanager
def of_key(key: str) -> Iterator[None]:
    """Put the dotted key that names a file before what is wrong with the file."""
    try:
        yield
    except DataError as error:
        raise DataError(*(f"{key}: {problem}" for problem in error.problems)) from error
