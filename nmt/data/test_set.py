"""The two sides of a test set, line by line."""

import os
from collections.abc import Iterable

from nmt.data.corpus import different_line_counts
from nmt.data.lines import read_lines
from nmt.errors import DataError

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
