"""Lines of text files, and the digest of the bytes that were read.

A line ends with ``\\n`` and with nothing else. One ``\\r`` before it and a byte-order mark at the start of the file are
dropped; everything else, control characters included, is text.
"""

import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from nmt.errors import DataError, MissingFile

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
"""How to open a compressed file, by its suffix."""
BUFFER = 1 << 20
"""Bytes read from a file at a time."""


def decode_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    """The lines of a byte stream, each as soon as it has arrived.

    Raises DataError, with ``name`` and the line number, where the bytes are not UTF-8.
    """
    for number, raw in enumerate(stream, 1):
        dropped = len(BYTE_ORDER_MARK) if number == 1 and raw.startswith(BYTE_ORDER_MARK) else 0
        line = raw[dropped:]
        if line.endswith(b"\n"):
            line = line[:-1].removesuffix(b"\r")
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}:{number}: not UTF-8 (byte 0x{line[error.start]:02x} at column {dropped + error.start + 1}); "
                f"re-encode the file, for example with: iconv -f LATIN1 -t UTF-8"
            ) from error


class HashedFile(io.RawIOBase):
    """A file whose SHA-256 is taken of the very bytes that are read from it. Raises OSError as opening it does."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = io.FileIO(path)
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        """As ``io`` asks for it."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes, which enter the digest."""
        count = self._file.readinto(buffer) or 0
        self._hash.update(memoryview(buffer)[:count])
        return count

    def digest(self) -> str:
        """The digest of the whole file, in hexadecimal; the rest of it is read first."""
        buffer = bytearray(BUFFER)
        while self.readinto(buffer):
            pass
        return self._hash.hexdigest()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a file, decompressed if its name ends in .gz or .xz.

    Raises DataError where the file is missing, unreadable, damaged or not UTF-8. An empty file has no lines.
    """
    try:
        file = HashedFile(path)
    except OSError as error:
        raise unreadable(path, error) from error
    with file:
        yield from hashed_lines(file)


def hashed_lines(file: HashedFile) -> Iterator[str]:
    """As :func:`read_lines`; the file stays open."""
    suffix = file.path.suffix
    try:
        with OPENERS.get(suffix, _buffered)(file, "rb") as stream:
            yield from decode_lines(cast(BinaryIO, stream), str(file.path))
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DataError(f"{file.path}: damaged, or not a {suffix} file: {error}") from error
    except OSError as error:
        raise unreadable(file.path, error) from error


@contextmanager
def _buffered(file: HashedFile, _mode: str) -> Iterator["io.BufferedReader[HashedFile]"]:
    reader = io.BufferedReader(file, BUFFER)
    try:
        yield reader
    finally:
        with suppress(ValueError):  # the file is closed already
            reader.detach()  # or the reader would close the file, which is still to be hashed to its end


def unreadable(path: str | Path, error: OSError) -> DataError:
    """What to raise where a file cannot be opened or read."""
    if isinstance(error, FileNotFoundError):
        return MissingFile(path)
    if isinstance(error, IsADirectoryError):
        return DataError(f"{path}: a folder, where a file is needed")
    return DataError(f"{path}: cannot be read: {error.strerror or error}")
