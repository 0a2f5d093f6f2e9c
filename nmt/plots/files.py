"""The files of a figure: pictures and the numbers behind them, each of them whole."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nmt.errors import DataError

KINDS = (".png", ".svg", ".json", ".csv")
"""Endings of the files of a figure."""


def write_all(stem: str | Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write a file ``stem`` + ending for each ending; returns their paths.

    All are written aside, then put in place one after the other: the last is there when all are.

    The folder is made if it is missing. Raises DataError if they cannot be written.
    """
    make_folder(stem)
    files = {Path(f"{stem}{ending}"): content for ending, content in contents.items()}
    asides = {path: path.with_name(f".{path.name}.new") for path in files}
    try:
        for path, content in files.items():
            asides[path].write_bytes(content)
        for path, aside in asides.items():
            aside.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        for aside in asides.values():
            with suppress(OSError):  # what went wrong before is what to tell
                aside.unlink(missing_ok=True)
    return list(files)


def stem_of(name: str) -> str:
    """The common beginning of a figure's files, by the name of one of them or of none: ``curve`` of ``curve.png``."""
    path = Path(name)
    return name[: -len(path.suffix)] if path.suffix.lower() in KINDS else name


def make_folder(stem: str | Path) -> None:
    """Make the folder that the files of a figure go to. Raises DataError if it cannot, or for a folder."""
    if str(stem).endswith("/") or Path(stem).is_dir():
        raise DataError(f"{stem}: is a folder; give the beginning of the figure's file names, as in {Path(stem)}/curve")
    folder = Path(f"{stem}.png").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made a folder: {error.strerror}") from error


def table(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """A CSV file of one or more rows, which all have the columns of the first; numbers are rounded to four places."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow(round(value, 4) if isinstance(value, float) else value for value in row.values())
    return text.getvalue().encode(errors="replace")


def numbers(value: Mapping[str, Any]) -> bytes:
    """A JSON file."""
    return (json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode(errors="replace")
