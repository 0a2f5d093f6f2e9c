"""One training process per run directory."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nmt.errors import ConfigError

LOCK = ".lock"
"""The file that is locked where directories cannot be."""


@contextmanager
def lock(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a directory, which is made if necessary, against other processes; only warn where locks are not supported.

    The operating system releases the lock when the process ends, however it ends; a network file system may be slow.
    Raises ConfigError if another process holds the directory.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            _acquire(folder, stack)
        except BlockingIOError:
            raise ConfigError(
                f"output: another nmt-train is running in {folder}; let it finish, stop it, or name another --output"
            ) from None
        except OSError as error:
            say(f"{folder}: cannot be locked ({error.strerror}); make sure that no other nmt-train writes there")
        yield


def _acquire(folder: Path, stack: ExitStack) -> None:
    """Lock a directory until the stack ends, or a file in it: network file systems lock no directories. Raises
    OSError."""
    for path, flags in ((folder, os.O_RDONLY), (folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)):
        descriptor = os.open(path, flags)
        stack.callback(os.close, descriptor)
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:
            problem = error
    raise problem
