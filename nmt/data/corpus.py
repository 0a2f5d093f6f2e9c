"""Parallel text from aligned files, TSV, JSON lines or the Hugging Face hub, read as a stream of pairs."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from nmt.config.schema import AnyCorpus, FileCorpus, HubCorpus, JsonlCorpus, TsvCorpus
from nmt.data.lines import aligned_files, file_sha256, matching, read_lines
from nmt.errors import DataError


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
        return chain.from_iterable(map(_aligned, *zip(*aligned_files(corpus.source, corpus.target), strict=True)))
    if isinstance(corpus, TsvCorpus):
        return chain.from_iterable(_columns(corpus, path) for path in matching(corpus.tsv))
    if isinstance(corpus, JsonlCorpus):
        records: Iterator[tuple[str, Any]] = chain.from_iterable(map(_json_records, matching(corpus.jsonl)))
    else:
        records = ((f"{corpus_name(corpus)}, row {row}", each) for row, each in enumerate(load_hub(corpus), 1))
    keys = corpus.source_key or source_language, corpus.target_key or target_language
    return (Pair(*(_text(record, key, place) for key in keys)) for place, record in records)


def corpus_name(corpus: AnyCorpus) -> str:
    """The name of a corpus in messages."""
    if isinstance(corpus, FileCorpus):
        return f"{corpus.source}, {corpus.target}"
    if isinstance(corpus, HubCorpus):
        return f"hub dataset '{corpus.hub}', split '{corpus.split}'"
    return corpus.tsv if isinstance(corpus, TsvCorpus) else corpus.jsonl


def corpus_digest(corpus: AnyCorpus, source_language: str, target_language: str) -> str:
    """SHA-256 of everything that determines the pairs: the bytes of the files, not their names, and the options.

    Raises DataError if a file cannot be read or the hub cannot be reached.
    """
    options = corpus.model_dump(exclude={"source", "target", "tsv", "jsonl", "links"})
    if isinstance(corpus, HubCorpus):
        digests = [load_hub(corpus)._fingerprint]
    elif isinstance(corpus, FileCorpus):
        digests = [file_sha256(path) for pair in aligned_files(corpus.source, corpus.target) for path in pair]
    else:
        digests = list(map(file_sha256, matching(corpus_name(corpus))))
    parts = json.dumps([options, source_language, target_language, digests], sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()


def load_hub(corpus: HubCorpus) -> Any:
    """Load the split as a memory-mapped ``datasets.Dataset``. Raises DataError for any failure."""
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", corpus.hub) or Path(corpus.hub).exists():
        # a bare word may name a loader of local files, a directory is loaded by its content
        raise DataError(f"{corpus_name(corpus)}: not a dataset of the hub; must be OWNER/NAME")

    import datasets  # noqa: PLC0415  (slow to import; only a hub corpus needs it)

    try:
        return datasets.load_dataset(corpus.hub, name=corpus.subset, split=corpus.split, revision=corpus.revision)
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        if "script" in reason.lower():
            reason = f"it needs a loading script, which is not supported ({reason})"
        problem = f"{corpus_name(corpus)}: cannot be loaded: {type(error).__name__}: {reason}"
        raise DataError(f"{problem}; to use local files instead: {{source: FILE, target: FILE}}") from error


def _aligned(source_file: str, target_file: str) -> Iterator[Pair]:
    rows = zip_longest(read_lines(source_file), read_lines(target_file))
    for read, (source, target) in enumerate(rows):
        if source is None or target is None:
            longer = read + 1 + sum(1 for _ in rows)
            counts = (read, longer) if source is None else (longer, read)
            raise different_line_counts(source_file, counts[0], target_file, counts[1])
        yield Pair(source, target)


def different_line_counts(source_name: str, source_count: int, other_name: str, other_count: int) -> DataError:
    """The error for two files that should be aligned line by line, with the number of lines of each."""
    counts = f"{source_name} has {source_count:,} lines and {other_name} has {other_count:,}"
    return DataError(f"{counts}: line n of one must be the translation of line n of the other")


def _columns(corpus: TsvCorpus, path: str) -> Iterator[Pair]:
    wanted = max(corpus.source_column, corpus.target_column)
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) <= wanted:
            found = f"{len(columns)} tab-separated column(s)"
            raise DataError(f"{path}:{number}: {found}; column {wanted} does not exist (the first is 0)")
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


def _name(text: Text, otherwise: str) -> str:
    return os.fspath(text) if isinstance(text, str | os.PathLike) else otherwise
