"""Text files: patterns such as ``part-*.en.gz``, lines and digests.

Only ``\\n`` ends a line. One ``\\r`` before it and a byte-order mark at the start of the file are dropped; everything
else, control characters included, is text.
"""

import errno
import glob
import gzip
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from nmt.errors import DataError, tried
from nmt.files import digest

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
"""How to open a compressed file, by its suffix."""
SIGNATURES = {
    b"PK\x03\x04": "a ZIP archive, as .docx and .odt files are; save its text as plain text in UTF-8",
    b"\xd0\xcf\x11\xe0": "an old office document, as .doc files are; save its text as plain text in UTF-8",
    b"%PDF-": "a PDF; export its text as plain text in UTF-8",
    b"\x1f\x8b": "compressed by gzip; let its name end in .gz",
    b"\xfd7zXZ\x00": "compressed by xz; let its name end in .xz",
    b"BZh91AY&SY": "compressed by bzip2; decompress it, for example with: bunzip2",
    b"\x28\xb5\x2f\xfd": "compressed by Zstandard; decompress it, for example with: unzstd",
}
"""The first bytes of files that are often mistaken for text, and what to do with them."""
UTF_16 = "UTF-16 instead of UTF-8; re-encode the file, for example with: iconv -f UTF-16{} -t UTF-8"
WILDCARDS = re.compile(r"(\*+|\?|\[[^\]]+\])")
"""What a name may hold beside its own letters; a directory separator ends a match."""
MOST_NAMED = 3
"""Files that a message names."""


def decode_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    """Decode the lines of a byte stream, each as soon as it arrives.

    Raises DataError with ``name`` and the line number if the bytes are not UTF-8.
    """
    for number, raw in enumerate(stream, 1):
        if number == 1:
            _refuse_other_formats(raw, name)
        dropped = len(BYTE_ORDER_MARK) if number == 1 and raw.startswith(BYTE_ORDER_MARK) else 0
        line = raw[dropped:]
        if line.endswith(b"\n"):
            line = line[:-1].removesuffix(b"\r")
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 (byte 0x{line[error.start]:02x} at column {dropped + error.start + 1})"
            remedy = "re-encode the file, for example with: iconv -f LATIN1 -t UTF-8"
            raise DataError(f"{name}:{number}: {problem}; {remedy}") from error


def _refuse_other_formats(first_line: bytes, name: str) -> None:
    """Raise DataError for the beginning of a document, archive or UTF-16 text.

    UTF-16 has a byte-order mark, or NUL for every second byte of Latin letters, spaces and digits.
    """
    for signature, advice in SIGNATURES.items():
        if first_line.startswith(signature):
            raise DataError(f"{name}: {advice}")
    if first_line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{name}:1: {UTF_16.format('')}")
    high, low = first_line[::2].count(0), first_line[1::2].count(0)
    if high + low > 1 and not (high and low):
        raise DataError(f"{name}:1: {UTF_16.format('BE' if high else 'LE')}")


def file_sha256(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal. Raises DataError if it is unreadable, or a pipe."""
    path = Path(path)
    try:
        if stat.S_ISFIFO(path.stat().st_mode):
            raise DataError(f"{path}: a pipe can be read only once; save its text to a file and use the file")
        return digest(path)
    except OSError as error:
        raise unreadable(path, error) from error


def read_lines(path: str | Path) -> Iterator[str]:
    """Read the lines of a file, decompressed if its name ends in .gz or .xz; an empty file has no lines.

    Raises DataError if the file is missing, unreadable, damaged or not UTF-8.
    """
    suffix = Path(path).suffix
    try:
        with OPENERS.get(suffix, open)(path, "rb") as stream:
            yield from decode_lines(stream, str(path))
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: not a {suffix} file, or damaged: {error}") from error
    except OSError as error:
        raise unreadable(path, error) from error


def require_readable(path: str | Path) -> None:
    """Raise the DataError of a file that cannot be opened, without opening it: it may be a pipe."""
    try:
        if stat.S_ISDIR(Path(path).stat().st_mode):
            raise IsADirectoryError
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: str | Path, error: OSError) -> DataError:
    """The error for a file that cannot be opened or read."""
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path}: no such file{tried(path)}")
    if isinstance(error, IsADirectoryError):
        return DataError(f"{path}: a directory; must be a file")
    return DataError(f"{path}: cannot be read: {error.strerror or error}")


def matching(pattern: str) -> list[str]:
    """The files that a name or pattern stands for, sorted by name. Raises DataError for a pattern without any."""
    if not WILDCARDS.search(pattern) or Path(pattern).exists():
        return [pattern]
    found = sorted(glob.glob(pattern))  # noqa: PTH207  (the names as the user would write them)
    if not found:
        raise DataError(f"{pattern}: no file matches{tried(pattern)}")
    return found


def aligned_files(source: str, target: str) -> list[tuple[str, str]]:
    """The files of two names or patterns side by side, in the order of the source names: those in whose names the
    wildcards stand for the same, such as ``part-1.en`` and ``part-1.fr``.

    Raises DataError if a file has no counterpart.
    """
    sources, targets = _by_wildcards(source), _by_wildcards(target)
    if alone := sources.keys() ^ targets.keys():
        named = [names[texts] for names in (sources, targets) for texts in names if texts in alone]
        raise DataError(
            f"{source} stands for {len(sources):,} files and {target} for {len(targets):,}: their wildcards must "
            f"stand for the same names; without a counterpart: {', '.join(named[:MOST_NAMED])}"
        )
    return [(name, targets[texts]) for texts, name in sources.items()]


def _by_wildcards(pattern: str) -> dict[tuple[str, ...], str]:
    """The files of a name or pattern, by the texts that its wildcards stand for; a file that exists has none."""
    found = matching(pattern)
    if found == [pattern]:
        return {(): pattern}
    texts = WILDCARDS.split(pattern)  # every second one is a wildcard
    texts[::2] = map(re.escape, texts[::2])
    texts[1::2] = ("([^/]*)" if text.startswith("*") else "([^/])" for text in texts[1::2])
    matches = (re.fullmatch("".join(texts), name, re.DOTALL) for name in found)
    return {match.groups() if match else (name,): name for match, name in zip(matches, found, strict=True)}
