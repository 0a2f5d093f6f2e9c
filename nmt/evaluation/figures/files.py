"""Files of a figure: images and their numbers."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.errors import DataError
from nmt.files import why_unwritable, write_bytes, writing

KINDS = (".png", ".svg", ".json", ".csv")
"""Endings of the files of a figure."""


def write_all(stem: str | Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write a file ``stem`` + ending for each ending, each whole or not at all, into a directory that is made if it is
    missing; return the paths. Raises DataError if they cannot be written."""
    make_folder(stem)
    files = {Path(f"{stem}{ending}"): content for ending, content in contents.items()}
    for path, content in files.items():
        with writing(path):
            write_bytes(path, content)
    return list(files)


def stem_of(name: str) -> str:
    """Return the common beginning of a figure's files: ``curve`` for ``curve.png`` as for ``curve``."""
    path = Path(name)
    return name[: -len(path.suffix)] if path.suffix.lower() in KINDS else name


def make_folder(stem: str | Path) -> None:
    """Make the directory of a figure's files. Raises DataError if it cannot be written, or ``stem`` is a directory."""
    if str(stem).endswith("/") or Path(stem).is_dir():
        name = str(stem) or "an empty name"
        raise DataError(f"{name}: is a directory; give the beginning of the file names, for example {Path(stem)}/curve")
    folder = Path(f"{stem}.png").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: the directory cannot be created: {error.strerror}; choose another") from error
    if problem := why_unwritable(folder):
        raise DataError(f"{folder}: cannot be written to: {problem}; choose another, or change the permissions")


def table(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Format a CSV file of one or more rows with the columns of the first; numbers have four decimal places."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow(round(value, 4) if isinstance(value, float) else value for value in row.values())
    return text.getvalue().encode(errors="replace")


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows with the same keys as a Markdown table."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def numbers(value: Mapping[str, Any]) -> bytes:
    """Format a JSON file."""
    return (json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode(errors="replace")
