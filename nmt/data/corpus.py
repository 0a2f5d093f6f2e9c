"""Raw text: parallel corpora, from aligned files, TSV, JSON lines or the Hugging Face hub, as streams of pairs; files.

Only ``\\n`` ends a line. One ``\\r`` before it and a byte-order mark at the start of the file are dropped; everything
else, control characters included, is text.
"""

import errno
import gzip
import hashlib
import json
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from nmt.config.schema import AnyCorpus, FileCorpus, HubCorpus, JsonlCorpus, TsvCorpus
from nmt.errors import DataError, tried
from nmt.files import digest


class Pair(NamedTuple):
    """A sentence and its translation, each without line breaks."""

    source: str
    target: str


def read_pairs(corpus: AnyCorpus, source_language: str, target_language: str) -> Iterator[Pair]:
    """Read the pairs of a corpus in its order, at most ``corpus.limit`` of them.

    The languages are the default ``source_key`` and ``target_key`` of a JSON-lines or hub corpus.

    Raises DataError if the corpus cannot be read, its sides differ in length, or it is empty.
    """
    empty = True
    for pair in islice(_pairs(corpus, source_language, target_language), corpus.limit):
        empty = False
        yield pair
    if empty:
        raise DataError(f"{corpus_name(corpus)}: contains no pairs")


def _pairs(corpus: AnyCorpus, source_language: str, target_language: str) -> Iterator[Pair]:
    if isinstance(corpus, FileCorpus):
        return aligned_pairs(corpus.source, corpus.target)
    if isinstance(corpus, TsvCorpus):
        return _columns(corpus)
    if isinstance(corpus, JsonlCorpus):
        records = _json_records(corpus.jsonl)
    else:
        records = ((f"{corpus_name(corpus)}, row {row}", each) for row, each in enumerate(load_hub(corpus), 1))
    keys = corpus.source_key or source_language, corpus.target_key or target_language
    return (Pair(*(_text(record, key, place) for key in keys)) for place, record in records)


FILES = {"source", "target", "tsv", "jsonl"}
"""Options of corpora that are files of text."""


def corpus_name(corpus: AnyCorpus) -> str:
    """The name of a corpus in messages."""
    if isinstance(corpus, HubCorpus):
        return f"hub dataset '{corpus.hub}', split '{corpus.split}'"
    return ", ".join(files_of(corpus))


def files_of(corpus: AnyCorpus) -> list[str]:
    """The files with the text of a corpus; none for one of the hub."""
    return [*corpus.model_dump(include=FILES).values()]


def corpus_digest(corpus: AnyCorpus, source_language: str, target_language: str) -> str:
    """SHA-256 of everything that determines the pairs: the bytes of the files, not their names, and the options.

    Raises DataError if a file cannot be read or the hub cannot be reached.
    """
    options = corpus.model_dump(exclude={*FILES, "links"})
    if isinstance(corpus, HubCorpus):
        digests = [load_hub(corpus)._fingerprint]
    else:
        digests = [file_sha256(path) for path in files_of(corpus)]
    parts = json.dumps([options, source_language, target_language, digests], sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()


def load_hub(corpus: HubCorpus) -> Any:
    """Load the split as a memory-mapped ``datasets.Dataset``. Raises DataError for any failure."""
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", corpus.hub) or Path(corpus.hub).exists():
        # a bare word may name a loader of local files, a directory is loaded by its content
        raise DataError(f"{corpus_name(corpus)}: not a dataset of the hub; must be OWNER/NAME, and no path here")

    import datasets  # noqa: PLC0415  (slow to import; only a hub corpus needs it)

    try:
        return datasets.load_dataset(corpus.hub, name=corpus.subset, split=corpus.split, revision=corpus.revision)
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        problem = f"{corpus_name(corpus)}: cannot be loaded: {type(error).__name__}: {reason}"
        raise DataError(f"{problem}; to use local files instead: {{source: FILE, target: FILE}}") from error


def aligned_pairs(source: str, target: str, n_best: int = 1) -> Iterator[Pair]:
    """Yield the lines of two files as pairs, as they come: ``n_best`` translations of each line of the source.

    Raises DataError at the end of the shorter text if the line counts do not fit.
    """
    copies = (line for line in read_lines(source) for _ in range(n_best))
    rows = zip_longest(copies, read_lines(target))
    for read, (line, translation) in enumerate(rows):
        if line is None or translation is None:
            longer = read + 1 + sum(1 for _ in rows)
            sources, targets = (read, longer) if line is None else (longer, read)
            if n_best == 1:
                raise different_line_counts(source, sources, target, targets)
            counts = f"{source} has {sources // n_best:,} lines and {target} has {targets:,}"
            raise DataError(f"{counts}: with --n-best {n_best} there must be {n_best} translations of each line")
        yield Pair(line, translation)


def different_line_counts(source_name: str, source_count: int, other_name: str, other_count: int) -> DataError:
    """The error for two files that should be aligned line by line, with the number of lines of each."""
    counts = f"{source_name} has {source_count:,} lines and {other_name} has {other_count:,}"
    return DataError(f"{counts}: line n of one must be the translation of line n of the other")


def _columns(corpus: TsvCorpus) -> Iterator[Pair]:
    wanted = max(corpus.source_column, corpus.target_column)
    for number, line in enumerate(read_lines(corpus.tsv), 1):
        columns = line.split("\t")
        if len(columns) <= wanted:
            found = f"{len(columns)} tab-separated column(s)"
            raise DataError(f"{corpus.tsv}:{number}: {found}; column {wanted} does not exist (the first is 0)")
        yield Pair(columns[corpus.source_column], columns[corpus.target_column])


def _json_records(path: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(read_lines(path), 1):
        try:
            yield f"{path}:{number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not JSON: {error}") from error


def _text(record: Any, key: str, place: str) -> str:
    """The text at a dotted key, with line breaks replaced by spaces."""
    value = record
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            raise DataError(f"{place}: no key '{key}'; the keys are: {', '.join(_dotted_keys(record)) or 'none'}")
        value = value[part]
    if not isinstance(value, str):
        raise DataError(f"{place}: key '{key}' holds {type(value).__name__}, not text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: key '{key}': unpaired surrogate at character {error.start + 1}") from error
    return value.replace("\r\n", " ").replace("\n", " ")


def _dotted_keys(record: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(record, dict):
        for key, value in record.items():
            yield from _dotted_keys(value, f"{prefix}{key}.") if isinstance(value, dict) else [f"{prefix}{key}"]


# --- test sets --------------------------------------------------------------------------------------------------------

Text = str | os.PathLike[str] | Iterable[str]
"""The path of a file of raw text, also .gz or .xz; or its lines, without line ends."""


def read_test_set(source: Text, reference: Text) -> tuple[list[str], list[str]]:
    """Read source and reference. Raises DataError if they are empty or their line counts differ."""
    sources = read_text(source)
    references = read_aligned(reference, source, len(sources), "the reference")
    if not sources:
        raise DataError(f"{_name(source, 'the source')}: is empty")
    return sources, references


def read_aligned(text: Text, source: Text, count: int, what: str = "its translation") -> list[str]:
    """Read a text. Raises DataError unless it has ``count`` lines, one for each line of ``source``; the message calls
    lines without a file ``what``."""
    lines = read_text(text)
    if len(lines) != count:
        raise different_line_counts(_name(source, "the source"), count, _name(text, what), len(lines))
    return lines


def read_text(text: Text) -> list[str]:
    """Read all lines. Raises DataError for a file that cannot be read."""
    return list(read_lines(os.fspath(text)) if isinstance(text, str | os.PathLike) else text)


def read_terms(path: str) -> dict[str, str]:
    """Read a glossary: each line has a term, a tab and its translation. Raises DataError that names all wrong lines."""
    terms, places, problems = dict[str, str](), dict[str, int](), list[str]()
    for number, line in enumerate(read_lines(path), 1):
        sides = [" ".join(side.split()) for side in line.split("\t")]
        if len(sides) != 2 or not all(sides):
            problems.append(f"{path}:{number}: found {line!r}; must be a term, one tab and its translation")
        elif sides[0] in terms:
            problems.append(f"{path}:{number}: '{sides[0]}' is in line {places[sides[0]]}, too; leave one of them out")
        else:
            terms[sides[0]], places[sides[0]] = sides[1], number
    if not terms and not problems:
        problems.append(f"{path}: has no term; a line is a term, one tab and its translation")
    DataError.raise_if_any(problems)
    return terms


def _name(text: Text, otherwise: str) -> str:
    return os.fspath(text) if isinstance(text, str | os.PathLike) else otherwise


# --- lines ------------------------------------------------------------------------------------------------------------

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
"""How to open a compressed file, by its suffix."""


def decode_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    """Decode the lines of a byte stream, each as soon as it arrives. Raises DataError with ``name`` and the line number
    if the bytes are not UTF-8."""
    for number, raw in enumerate(stream, 1):
        if number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise DataError(f"{name}:1: UTF-16 instead of UTF-8; re-encode the file with: iconv -f UTF-16 -t UTF-8")
        dropped = len(BYTE_ORDER_MARK) if number == 1 and raw.startswith(BYTE_ORDER_MARK) else 0
        line = raw[dropped:]
        if line.endswith(b"\n"):
            line = line[:-1].removesuffix(b"\r")
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 (byte 0x{line[error.start]:02x} at column {dropped + error.start + 1})"
            wanted = "must be plain text in UTF-8, or such text in a .gz or .xz file"
            remedy = f"{wanted}; re-encode Latin-1 text with: iconv -f LATIN1 -t UTF-8"
            raise DataError(f"{name}:{number}: {problem}; {remedy}") from error


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
