"""Files that are whole or not there, and files that may come from a stranger."""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from nmt.errors import FileError, tried

CHECKSUMS = "sha256.json"
"""Where the checksums of a folder's files are."""
LARGEST_JSON = 1 << 20
"""Bytes."""


def printable(name: str) -> str:
    """A file's name, or what it stands in, as text that can be written down: bytes that are not UTF-8 become
    ``\\xNN``, halves of characters ``\\udNNN``."""
    try:
        return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:
        return name.encode(errors="backslashreplace").decode()


def why_unwritable(path: Path) -> str:
    """Why a file, or a file in a directory, cannot be written, in the operating system's words; "" if it can."""
    wanted = os.W_OK | os.X_OK if path.is_dir() else os.W_OK
    if os.access(path, wanted):
        return ""
    read_only = os.statvfs(path).f_flag & os.ST_RDONLY
    return os.strerror(errno.EROFS if read_only else errno.EACCES)


def write_bytes(path: Path, data: bytes) -> None:
    """A file, written aside, on the disk, and then in place; a link in its place, or aside, is not followed."""
    aside = path.with_name(f".{path.name}.new")
    try:
        aside.unlink(missing_ok=True)
        with aside.open("xb") as file:  # made here, or an error
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:  # of writing it does not say where, and nobody knows what is aside
        raise OSError(error.errno, error.strerror, str(path)) from None
    sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """As :func:`write_bytes`, in UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """As :func:`write_bytes`, a JSON file."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def read_json(path: Path) -> Any:
    """A JSON file. Raises FileError."""
    require_regular_file(path, LARGEST_JSON)
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(f"{path}: cannot be read ({error})") from None


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checksums(folder: Path) -> None:
    """Write the SHA-256 of every file below a folder into ``sha256.json`` there."""
    write_json(folder / CHECKSUMS, _checksums(folder))


def unchanged(folder: Path) -> bool:
    """Whether the files below a folder are those that :func:`write_checksums` found. Raises FileError if it has
    never been called."""
    return bool(read_json(folder / CHECKSUMS) == _checksums(folder))


def _checksums(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != CHECKSUMS)
    return {str(path.relative_to(folder)): digest(path) for path in files}


def sync(path: Path) -> None:
    """Have the operating system put a file, or the names in a folder, on the disk before going on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refuse_links_outside(folder: Path, files: Iterable[Path]) -> None:
    """Raise FileError if one of the files of a folder lies, by a symbolic link, outside of it."""
    home = folder.resolve()
    outside = []
    for file in files:
        with suppress(RuntimeError):  # a link to itself, before Python 3.13
            real = file.resolve()
            if home not in real.parents:
                outside.append(f"{file}: leads out of the run, to {real}")
    if outside:
        raise FileError(*outside, "a run directory needs no other file; copy in what it links to, if you trust it")


def require_regular_file(path: Path, most: int) -> None:
    """Raise FileError for what is no ordinary file of at most so many bytes; reading it could last for ever."""
    try:
        found = path.stat()
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        reason = f"missing{tried(path)}" if missing else f"cannot be read: {error.strerror}"
        raise FileError(f"{path}: {reason}") from None
    if not stat.S_ISREG(found.st_mode):
        raise FileError(f"{path}: not a file, but a folder, pipe or device")
    if found.st_size > most:
        raise FileError(f"{path}: {found.st_size:,} bytes are more than any such file needs ({most:,})")
