"""Parallel text, one pair at a time, from aligned files, TSV, JSON lines or the Hugging Face hub.

A line ends with ``\\n`` and with nothing else; one ``\\r`` before it and a byte-order mark at the start of the file are
dropped; everything else, control characters included, is text. All of it streams: a corpus need not fit in memory.
"""

import gzip
import hashlib
import io
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from nmt.config.schema import AnyCorpus, FileCorpus, HubCorpus, JsonlCorpus, TsvCorpus
from nmt.errors import DataError, MissingFile

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
HUB_SECONDS = 10
"""To wait for a first answer of the hub."""
BUFFER = 1 << 20
"""Bytes read from a file at a time."""


class Pair(NamedTuple):
    """A sentence and its translation, each without line breaks."""

    source: str
    target: str


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
        yield from _lines(file)


def _lines(file: HashedFile) -> Iterator[str]:
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


def read_pairs(
    corpus: AnyCorpus, source_language: str, target_language: str, digest: str | None = None
) -> Iterator[Pair]:
    """The pairs of a corpus in its own order, at most ``corpus.limit`` of them.

    The languages name the columns of a JSON-lines or hub corpus that does not say ``source_key`` or ``target_key``.
    With ``digest``, which :func:`corpus_digest` found before, the bytes that are read are compared with it at the end.

    Raises DataError where the corpus cannot be read, its sides differ in length, it has no pair at all, or it is not
    what it was when the digest was taken.
    """

    def refuse_changed(files: Sequence[HashedFile]) -> None:
        if digest is not None and digest != _digest(corpus, source_language, target_language, files):
            raise DataError(
                f"{corpus_name(corpus)}: changed while it was being read; run this again when nothing writes to it"
            )

    with _opened(corpus) as files:
        empty = True
        try:
            for pair in islice(_pairs(corpus, source_language, target_language, files), corpus.limit):
                empty = False
                yield pair
        except DataError:
            refuse_changed(files)  # half-written text has many faults; this is their cause
            raise
        refuse_changed(files)
    if empty:
        raise DataError(f"{corpus_name(corpus)}: no pairs in it")


@contextmanager
def _opened(corpus: AnyCorpus) -> Iterator[list[HashedFile]]:
    """The files of a corpus; none of a hub dataset. Raises DataError where one cannot be opened."""
    with ExitStack() as stack:
        files = []
        for path in _paths(corpus):
            try:
                files.append(stack.enter_context(HashedFile(path)))
            except OSError as error:
                raise unreadable(path, error) from error
        yield files


def _pairs(
    corpus: AnyCorpus, source_language: str, target_language: str, files: Sequence[HashedFile]
) -> Iterator[Pair]:
    if isinstance(corpus, FileCorpus):
        return _aligned(corpus, *files)
    if isinstance(corpus, TsvCorpus):
        return _columns(corpus, *files)
    keys = corpus.source_key or source_language, corpus.target_key or target_language
    records = _json_records(corpus.jsonl, *files) if isinstance(corpus, JsonlCorpus) else _hub_records(corpus)
    return (Pair(*(_text(record, key, place) for key in keys)) for place, record in records)


def corpus_name(corpus: AnyCorpus) -> str:
    """What messages call a corpus."""
    if isinstance(corpus, FileCorpus):
        return f"{corpus.source}, {corpus.target}"
    if isinstance(corpus, HubCorpus):
        return f"hub dataset '{corpus.hub}', split '{corpus.split}'"
    return corpus.tsv if isinstance(corpus, TsvCorpus) else corpus.jsonl


def corpus_digest(corpus: AnyCorpus, source_language: str, target_language: str) -> str:
    """SHA-256 of what decides what :func:`read_pairs` yields: the bytes of the files (not their names) and the options.

    Raises DataError where a file cannot be read or the hub cannot be reached.
    """
    for path in map(Path, _paths(corpus)):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise DataError(f"{path}: a pipe can be read only once; save its text to a file and name that")
    with _opened(corpus) as files:
        return _digest(corpus, source_language, target_language, files)


def _digest(corpus: AnyCorpus, source_language: str, target_language: str, files: Sequence[HashedFile]) -> str:
    options = corpus.model_dump(exclude={"source", "target", "tsv", "jsonl"})
    digest = hashlib.sha256(json.dumps([options, source_language, target_language], sort_keys=True).encode())
    if isinstance(corpus, HubCorpus):
        digest.update(load_hub(corpus)._fingerprint.encode())
    for file in files:
        try:
            content = file.digest()
        except OSError as error:
            raise unreadable(file.path, error) from error
        digest.update(f"{file.path.suffix if file.path.suffix in OPENERS else ''} {content}\n".encode())
    return digest.hexdigest()


def _paths(corpus: AnyCorpus) -> list[str]:
    """The files of a corpus; a hub dataset has none."""
    if isinstance(corpus, FileCorpus):
        return [corpus.source, corpus.target]
    return [] if isinstance(corpus, HubCorpus) else [corpus_name(corpus)]


def load_hub(corpus: HubCorpus) -> Any:
    """The split as a memory-mapped ``datasets.Dataset``. Raises DataError whatever keeps it from being loaded."""
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", corpus.hub) or Path(corpus.hub).exists():
        # a word alone may name what reads local files of any kind, a folder is read by what lies in it
        raise DataError(f"{corpus_name(corpus)}: not a dataset of the hub; its name is OWNER/NAME")

    import datasets  # noqa: PLC0415  (slow to import, and only a hub corpus needs it here)

    reached = _reach_hub()
    try:
        return datasets.load_dataset(corpus.hub, name=corpus.subset, split=corpus.split, revision=corpus.revision)
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        if not reached:
            reason = f"no connection to the hub, and not in its cache on this machine ({reason})"
        if "script" in reason.lower():
            reason = f"it is loaded by a script, and only script-free datasets can be used ({reason})"
        raise DataError(
            f"{corpus_name(corpus)}: cannot be loaded: {type(error).__name__}: {reason}; "
            f"local files need no hub: {{source: FILE, target: FILE}} in its place"
        ) from error


@cache
def _reach_hub() -> bool:
    """Ask once whether there is a connection to the hub. Without one, use what is cached on this machine, as
    ``HF_HUB_OFFLINE=1`` does, instead of asking five times for every file."""
    import datasets  # noqa: PLC0415
    import huggingface_hub  # noqa: PLC0415

    if huggingface_hub.constants.HF_HUB_OFFLINE:
        return True  # nobody wants to know
    try:
        huggingface_hub.get_session().head(huggingface_hub.constants.ENDPOINT, timeout=HUB_SECONDS)
    except Exception:  # of one HTTP library or another
        huggingface_hub.constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
        return False
    return True


def unreadable(path: str | Path, error: OSError) -> DataError:
    """What to raise where a file cannot be opened or read."""
    if isinstance(error, FileNotFoundError):
        return MissingFile(path)
    if isinstance(error, IsADirectoryError):
        return DataError(f"{path}: a folder, where a file is needed")
    return DataError(f"{path}: cannot be read: {error.strerror or error}")


def _aligned(corpus: FileCorpus, source_file: HashedFile, target_file: HashedFile) -> Iterator[Pair]:
    sources, targets = _lines(source_file), _lines(target_file)
    read = 0
    for source in sources:
        target = next(targets, None)
        if target is None:
            raise different_line_counts(corpus.source, read + 1 + sum(1 for _ in sources), corpus.target, read)
        read += 1
        yield Pair(source, target)
    surplus = sum(1 for _ in targets)
    if surplus:
        raise different_line_counts(corpus.source, read, corpus.target, read + surplus)


def different_line_counts(source_name: str, source_count: int, other_name: str, other_count: int) -> DataError:
    """Name two files that should be aligned line by line, and how many lines each has."""
    return DataError(
        f"{source_name} has {source_count:,} lines and {other_name} has {other_count:,}: "
        f"line n of one must be the translation of line n of the other"
    )


def _columns(corpus: TsvCorpus, file: HashedFile) -> Iterator[Pair]:
    wanted = max(corpus.source_column, corpus.target_column)
    for number, line in enumerate(_lines(file), 1):
        columns = line.split("\t")
        if len(columns) <= wanted:
            raise DataError(
                f"{corpus.tsv}:{number}: {len(columns)} tab-separated column(s), but column {wanted} is asked for "
                f"(the first is 0)"
            )
        yield Pair(columns[corpus.source_column], columns[corpus.target_column])


def _json_records(path: str, file: HashedFile) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(_lines(file), 1):
        try:
            yield f"{path}:{number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not JSON: {error}") from error


def _hub_records(corpus: HubCorpus) -> Iterator[tuple[str, Any]]:
    for number, record in enumerate(load_hub(corpus), 1):
        yield f"{corpus_name(corpus)}, row {number}", record


def _text(record: Any, key: str, place: str) -> str:
    """The text at a dotted key; its line breaks become spaces, since a sentence is a line everywhere else."""
    value = record
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            raise DataError(f"{place}: no key '{key}'; it has: {', '.join(_dotted_keys(record)) or 'no keys'}")
        value = value[part]
    if not isinstance(value, str):
        raise DataError(f"{place}: key '{key}' holds {type(value).__name__}, not text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: key '{key}': half of a surrogate pair at character {error.start + 1}") from error
    return value.replace("\r\n", " ").replace("\n", " ")


def _dotted_keys(record: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(record, dict):
        for key, value in record.items():
            yield from _dotted_keys(value, f"{prefix}{key}.") if isinstance(value, dict) else [f"{prefix}{key}"]
