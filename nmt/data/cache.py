"""The cache: folders that one process builds under a temporary name, and renames when they are complete."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from nmt.config.schema import Data
from nmt.errors import DataError, NmtError
from nmt.files import why_unwritable
from nmt.messages import Say

Content = TypeVar("Content")


def cached(
    cache: str | None, name: str, load: Callable[[Path], Content], build: Callable[[Path], None], say: Say
) -> Content:
    """Load the entry ``name`` of the cache; build it first if it is missing or damaged. ``cache`` is ``data.cache``.

    Of several processes one builds and the others wait. What a killed process has left is built again.
    """
    folder = cache_folder(cache) / name
    if (content := _loaded(folder, load)) is not None:
        return content
    scratch = folder.with_name(f"building-{folder.name}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder, say):
            if (content := _loaded(folder, load)) is not None:
                return content  # another process has built it meanwhile
            if folder.exists():
                say(f"{folder}: damaged; building it again")
            for old in (folder, scratch):
                shutil.rmtree(old, ignore_errors=True)
            scratch.mkdir()
            try:
                build(scratch)
                scratch.rename(folder)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise unwritable(folder.parent, error.strerror or error) from error
    return load(folder)


def _loaded(folder: Path, load: Callable[[Path], Content]) -> Content | None:
    """Load an entry; None if it is missing or damaged."""
    if folder.exists():
        with suppress(OSError, ValueError, LookupError, NmtError):
            return load(folder)
    return None


@contextmanager
def _locked(folder: Path, say: Say) -> Iterator[None]:
    """Lock an entry; wait while another process builds it. Only warn where locks are not supported."""
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"{folder}: another process is building it; waiting")
                fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            say(f"{folder}: cannot be locked ({error.strerror}); let only one process at a time build it")
        yield


def try_cache(data: Data) -> None:
    """Raise DataError if the cache is not writable."""
    cache = cache_folder(data.cache)
    if reason := why_unwritable(cache):
        raise unwritable(cache, reason)


def cache_folder(named: str | None) -> Path:
    """The directory of the cache; ``named`` is ``data.cache`` of a configuration.

    Raises DataError if there is no home directory.
    """
    try:
        return Path(named or os.environ.get("NMT_CACHE") or "~/.cache/nmt").expanduser()
    except RuntimeError as error:
        raise DataError(f"data.cache: {error} Set data.cache, or NMT_CACHE, to a directory") from None


def unwritable(cache: Path, reason: object) -> DataError:
    """The error for a cache that cannot be written."""
    remedy = "set data.cache, or the environment variable NMT_CACHE, to a writable directory with enough space"
    return DataError(f"data.cache: {cache}: cannot be written: {reason}; {remedy}")
