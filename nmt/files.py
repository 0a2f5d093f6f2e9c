"""Atomic writing of files, checksums, and checks of files that may come from a stranger."""

import errno
import hashlib
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from nmt.errors import DataError, FileError, NmtError, tried

if sys.platform != "win32":
    import fcntl

LARGEST_JSON = 1 << 24
"""Bytes of a JSON file."""


def printable(name: str) -> str:
    """Escape what cannot be printed in a file name or a text that contains one: bytes that are not UTF-8 as ``\\xNN``,
    unpaired surrogates as ``\\udNNN``."""
    try:
        return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:
        return name.encode(errors="backslashreplace").decode()


def run_name(path: str | os.PathLike[str]) -> str:
    """Name a run by its path, printable: ``runs/family/lstm/seed-1`` is lstm."""
    path = Path(path).absolute()
    above = path.parent.name if re.fullmatch(r"seed-\d+", path.name) else ""
    return printable(above or path.name)


def why_unwritable(path: Path) -> str:
    """The reason why a file or directory cannot be written or made; "" if it can."""
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    reason = "" if os.access(there, os.W_OK) else os.strerror(errno.EACCES)
    if there.is_dir():
        try:
            tempfile.TemporaryFile(dir=there).close()  # rights do not bind root, and say nothing about a full disk
        except OSError as error:
            reason = error.strerror or str(error)
    elif there != path:
        reason = os.strerror(errno.ENOTDIR)
    return f"{there}: {reason}" if reason and there != path else reason


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: under another name, synced to disk, then renamed; an error leaves ``path`` as it was.

    Links are replaced, not followed.
    """
    aside = path.with_name(f".{path.name}.new")
    try:
        aside.unlink(missing_ok=True)
        with aside.open("xb") as file:  # fails if somebody else has created it
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException as error:
        with suppress(OSError):
            aside.unlink()
        if isinstance(error, OSError):  # without a path, or with the temporary one
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    sync(path.parent)


@contextmanager
def writing(name: object, kind: type[NmtError] = DataError) -> Iterator[None]:
    """Turn an OSError into an error that names the output; BrokenPipeError, a reader that is gone, passes."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise kind(f"{name}: cannot be written: {error.strerror or error}") from error


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8 as :func:`write_bytes` does."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file as :func:`write_bytes` does."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises FileError."""
    require_regular_file(path, LARGEST_JSON)
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(f"{path}: cannot be read ({error})") from None


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Flush a file, or the entries of a directory, to disk; Windows flushes open files only."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(file: int | BinaryIO, *, wait: bool = False) -> None:
    """Lock a file or directory for this process; the operating system releases it when the process ends, however it
    ends. Raises BlockingIOError if another process holds it, other OSErrors where there are no such locks."""
    if sys.platform != "win32":
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    else:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@contextmanager
def alone(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Lock what is to be made; wait while another process makes it. Only warn where locks are not supported."""
    with path.with_name(f".{path.name}.lock").open("wb") as file:
        try:
            try:
                lock(file)
            except BlockingIOError:
                say(f"{path}: another process is building it; waiting")
                lock(file, wait=True)
        except OSError as error:
            say(f"{path}: cannot be locked ({error.strerror}); let only one process at a time make it")
        yield


def refuse_links_outside(folder: Path, files: Iterable[Path]) -> None:
    """Raise FileError if a file of a folder is a symbolic link out of it, or below one."""
    home = folder.resolve()
    outside = []
    for file in files:
        with suppress(RuntimeError):  # a link to itself, before Python 3.13
            real = file.resolve()
            if home not in real.parents:
                outside.append(f"{file}: a link out of the run directory, to {real}")
    if outside:
        raise FileError(*outside, "a run directory may not use files outside it; copy them into it if you trust it")


def require_regular_file(path: Path, most: int) -> None:
    """Raise FileError unless a path is a regular file of up to ``most`` bytes, which can be read in finite time."""
    try:
        found = path.stat()
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        reason = f"missing{tried(path)}" if missing else f"cannot be read: {error.strerror}"
        raise FileError(f"{path}: {reason}") from None
    if not stat.S_ISREG(found.st_mode):
        raise FileError(f"{path}: a directory, pipe or device; must be a regular file")
    if found.st_size > most:
        raise FileError(f"{path}: has {found.st_size:,} bytes; the limit is {most:,}")
