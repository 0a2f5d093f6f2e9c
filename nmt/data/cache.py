"""The cache: entries that one process builds aside, and renames when they are whole."""

import errno
import fcntl
import os
import pwd
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeVar

from nmt.config.schema import Data
from nmt.data.lines import file_sha256
from nmt.errors import DataError, FileError
from nmt.files import fingerprint, printable, read_json, unchanged, write_checksums, write_json

BUILDING = "building-"
"""Prefix of the names of unfinished cache entries."""
ABANDONED = 24 * 3600
"""Age in seconds at which an unfinished entry counts as left behind by a killed process."""
DIGESTS = "digests"
"""The folder of remembered digests."""
ABOUT = "about.json"
"""The file of an entry that says what each of its parts was made of."""
ENTRY = re.compile(rf"({BUILDING})?(corpus|tokenizer)-[0-9a-f]{{64}}")
"""Names of whole and unfinished entries."""
REMEMBERED_FROM = 1 << 20
"""Bytes of a file whose digest is remembered; a smaller one is read within a few milliseconds."""
SETTLED = 2_000_000_000
"""Nanoseconds since the last change of a file from which on its times tell whether it has changed again."""
Say = Callable[[str], None]
Content = TypeVar("Content")


class Digests:
    """SHA-256 of files, remembered in a cache by path, size, inode and times of change.

    A file that was changed less than ``SETTLED`` ago is read each time, because clocks of file systems are coarse.
    """

    def __init__(self, cache: Path) -> None:
        self._folder = cache / DIGESTS

    def of(self, path: Path) -> str:
        """The digest of a file, in hexadecimal. Raises DataError if it is unreadable."""
        before = fingerprint(path)
        if before is None or before["size"] < REMEMBERED_FROM:
            return file_sha256(path)
        memory = self._folder / f"{sha256(os.fsencode(path.absolute())).hexdigest()}.json"
        with suppress(Exception):  # not remembered, or damaged: read the file
            remembered = read_json(memory)
            if remembered["file"] == before:
                return str(remembered["sha256"])
        now = time.time_ns()
        digest = file_sha256(path)
        if fingerprint(path) == before and now - max(before["modified"], before["changed"]) > SETTLED:
            with suppress(OSError):  # not writable, or another process writes the same
                memory.parent.mkdir(parents=True, exist_ok=True)
                write_json(memory, {"file": before, "sha256": digest})
        return digest


def cached(
    folder: Path, load: Callable[[Path], Content], build: Callable[[Path], None], say: Say, digests: Digests
) -> Content:
    """Load a cache entry; build it first if it is missing or damaged.

    An entry is built aside and then renamed, so that no process reads half of it. Of several processes one builds and
    the others wait.
    """
    if folder.exists():
        if (content := _loaded(folder, load, digests)) is not None:
            return content
        say(f"{folder}: damaged; building it again")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _building(folder, say) as scratch:
            if folder.exists() and (content := _loaded(folder, load, digests)) is not None:
                return content  # another process has built it meanwhile
            built = scratch / "entry"
            shutil.rmtree(built, ignore_errors=True)  # of a process that was killed
            built.mkdir()
            if folder.exists():
                shutil.rmtree(scratch / "damaged", ignore_errors=True)
                folder.rename(scratch / "damaged")
            build(built)
            write_checksums(built)
            try:
                built.rename(folder)
            except OSError:  # without locks, another process may have been faster
                if not (folder.exists() and unchanged(folder)):
                    raise
    except OSError as error:
        raise unwritable(folder.parent, error) from error
    return load(folder)


def _loaded(folder: Path, load: Callable[[Path], Content], digests: Digests) -> Content | None:
    """Load an entry; None if anything in it is damaged or missing."""
    try:
        if not unchanged(folder, digests.of):
            return None
        with suppress(OSError):  # another person's cache
            os.utime(folder)  # the last use
        return load(folder)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise  # the entry is whole
        return None
    except Exception:  # any other error: build it again
        return None


@contextmanager
def _building(folder: Path, say: Say) -> Iterator[Path]:
    """The folder in which this process alone may build an entry; removed at the end, unless the process is killed."""
    scratch = folder.with_name(f"{BUILDING}{folder.name}")
    remove_abandoned(folder.parent, BUILDING, but=scratch)
    lock = _locked(scratch, say)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os.close(lock)


def _locked(scratch: Path, say: Say) -> int:
    """Make a folder and lock it until the returned descriptor is closed; wait while another process holds it.

    Only warn where locks are not supported.
    """
    while True:
        scratch.mkdir(exist_ok=True)
        descriptor = os.open(scratch / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"{scratch}: another process is building it; waiting")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            say(f"{scratch}: cannot be locked ({error.strerror}); let only one process at a time build it")
            return descriptor
        with suppress(OSError):  # removed by the process that held it
            if os.fstat(descriptor).st_ino == (scratch / "lock").stat().st_ino:
                return descriptor
        os.close(descriptor)


def remove_abandoned(place: Path, prefix: str, but: Path | None = None) -> None:
    """Remove directories with this prefix that killed processes left behind, except ``but``."""
    for scratch in place.glob(f"{prefix}*"):
        if scratch == but:
            continue
        with suppress(OSError):  # another process is removing it
            touched = max(path.stat().st_mtime for path in (scratch, *scratch.rglob("*")))
            if time.time() - touched > ABANDONED:
                shutil.rmtree(scratch, ignore_errors=True)


class Part(NamedTuple):
    """A part of a cache entry: an encoded corpus, or the tokenizers."""

    name: str
    """The split, ``tokenizer``, or ``unfinished``."""
    text: str
    """The corpora it was made of; "" if unknown."""
    size: int
    """Bytes."""
    used: float
    """Seconds since the epoch, at its last use."""


def contents(cache: Path) -> list[Part]:
    """List what a cache holds, the entries that were used last at the end."""
    parts = []
    for folder in sorted(_entries(cache), key=lambda entry: entry.stat().st_mtime):
        used, about = folder.stat().st_mtime, {"unfinished": ""}
        with suppress(FileError):  # not finished, or damaged
            about = read_json(folder / ABOUT)
        for name, text in about.items():
            part = folder / name if (folder / name).is_dir() else folder
            size = sum(path.stat().st_size for path in part.rglob("*") if path.is_file())
            parts.append(Part(name, text, size, used))
    return parts


def clean(cache: Path) -> None:
    """Remove all entries of a cache except those that another process is building, and the remembered digests.

    Whoever has mapped an entry goes on reading it. Raises DataError if the cache cannot be written.
    """
    try:
        for folder in _entries(cache):
            if folder.name.startswith(BUILDING) and _is_locked(folder):
                continue
            shutil.rmtree(folder)
        if (cache / DIGESTS).exists():
            shutil.rmtree(cache / DIGESTS)
    except OSError as error:
        raise unwritable(cache, error) from error


def _entries(cache: Path) -> list[Path]:
    return [path for path in cache.glob("*") if path.is_dir() and ENTRY.fullmatch(path.name)]


def _is_locked(scratch: Path) -> bool:
    try:
        with (scratch / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # never locked
        return False
    return False


def try_cache(data: Data) -> None:
    """Raise DataError if the cache is not writable; leave nothing behind."""
    cache = cache_folder(data.cache)
    missing: list[Path] = []
    try:
        missing += (folder for folder in (cache, *cache.parents) if not folder.exists())
        cache.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=cache).close()
    except OSError as error:
        raise unwritable(cache, error) from error
    finally:
        for folder in missing:
            with suppress(OSError):  # not created, or already used by another process
                folder.rmdir()


def cache_folder(named: str | None) -> Path:
    """The directory of the cache; ``named`` is ``data.cache`` of a configuration.

    Raises DataError if there is no home directory or the name cannot be used.
    """
    named = named or os.environ.get("NMT_CACHE") or "~/.cache/nmt"
    try:
        if named.startswith("~/") and os.environ.get("HOME") == "":  # an empty HOME is not the root
            named = pwd.getpwuid(os.getuid()).pw_dir + named[1:]
        cache = Path(named).expanduser()
    except (RuntimeError, KeyError) as error:  # no home directory
        raise DataError(f"data.cache: {error} Set data.cache, or NMT_CACHE, to a directory") from None
    place = str(cache.absolute())
    if printable(place) != place:  # Arrow cannot open such a file
        raise DataError(
            f"data.cache: {printable(place)}: not a UTF-8 name; set data.cache, or the environment variable "
            "NMT_CACHE, to another directory"
        )
    return cache


def unwritable(cache: Path, error: OSError) -> DataError:
    """The error for a cache that cannot be written."""
    return DataError(
        f"data.cache: {cache}: cannot be written: {error.strerror or error}; "
        f"set data.cache, or the environment variable NMT_CACHE, to a writable directory with enough space"
    )
