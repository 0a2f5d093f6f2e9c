"""A large text, translated in chunks by processes that share nothing but a directory.

OUTPUT.job/job.json         what is translated, by which model, with which options; the same for all processes
OUTPUT.job/000007.output    the translation of the eighth chunk; likewise .alignments and .attention
OUTPUT.job/joined.json      sizes and checksums of the results; when it is there, the chunks have been joined

What a chunk holds depends on the job alone, never on the process that translates it. Each file appears under its name
when it is complete. Therefore processes may be killed, and others, more or fewer, may go on.
"""

import glob
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from nmt.data.lines import BUFFER, HashedFile, file_sha256, hashed_lines
from nmt.errors import ConfigError, DataError, FileError
from nmt.files import digest, fingerprint, read_json, replacing, write_json

CHUNK_LINES = 4096
"""Lines of a chunk, unless told otherwise: as many as search sorts by length at a time."""
Description = Mapping[str, Any]
"""What decides the translations, as JSON: digests of text and models, and options."""


@dataclass(frozen=True)
class Shard:
    """The chunks of one process: every ``size``-th from number ``rank`` on, so that shards are alike even if the lines
    of a text get longer and longer."""

    rank: int
    """From 0."""
    size: int

    def __str__(self) -> str:
        return f"{self.rank + 1}/{self.size}"

    def has(self, chunk: int) -> bool:
        """Whether a chunk belongs to this shard."""
        return chunk % self.size == self.rank


@dataclass(frozen=True)
class Text:
    """A file, and what it holds."""

    path: str
    lines: int
    sha256: str
    """Of its bytes, in hexadecimal."""
    fingerprint: dict[str, int] | None
    """From before it was read."""

    @classmethod
    def of(cls, path: str) -> "Text":
        """Read a file. Raises DataError if it cannot be read a second time, or for a line that is not UTF-8."""
        if Path(path).exists() and not Path(path).is_file():
            raise DataError(f"{path}: is read twice, and must be a regular file")
        before = fingerprint(Path(path))
        with HashedFile(path) as file:
            lines = sum(1 for _ in hashed_lines(file))
            return cls(path, lines, file.digest(), before)

    def refuse_changed(self) -> None:
        """Raise DataError if the file does not hold that any more."""
        if fingerprint(Path(self.path)) != self.fingerprint and file_sha256(Path(self.path)) != self.sha256:
            raise DataError(f"{self.path}: has changed since the job began; restore it, and repeat the command")


@dataclass(frozen=True)
class Job:
    """A text that is translated in chunks."""

    folder: Path
    lines: int
    """Lines of the text."""
    chunk_lines: int
    rows: int
    """Lines that are written for each line."""
    results: Mapping[str, Path]
    """By kind (``output``), the file that the chunks of this kind are joined into."""

    @property
    def chunks(self) -> int:
        """The number of chunks; the last may be short."""
        return -(-self.lines // self.chunk_lines)

    def span(self, chunk: int) -> range:
        """The lines of a chunk, from 0."""
        first = chunk * self.chunk_lines
        return range(first, min(first + self.chunk_lines, self.lines))

    def begin(self, description: Description) -> None:
        """Make the directory, or join the processes that have made it.

        Raises ConfigError, with all differences, if it is that of another job, FileError if it is none of a job.
        """
        ours = json.loads(json.dumps(description))
        if not self.folder.exists():
            self._make(ours)
        manifest = self.folder / "job.json"
        if not manifest.is_file():
            raise FileError(
                f"{self.folder}: is not the directory of a translation; rename it, or choose another --output"
            )
        theirs = read_json(manifest)
        if different := _differences(theirs, ours):
            state = "a finished job" if self.joined else "a job"
            raise ConfigError(
                f"{self.folder}: holds {state} that differs from this command in {'; '.join(different)}",
                f"repeat the command with which it began, or delete {self.folder} to start over",
            )

    def _make(self, description: Description) -> None:
        """Make the directory at one stroke, unless another process is faster."""
        aside = self.folder.with_name(f".{self.folder.name}{_writer()}.new")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        write_json(aside / "job.json", description)
        try:
            aside.rename(self.folder)
        except OSError:
            shutil.rmtree(aside, ignore_errors=True)
            if not self.folder.is_dir():
                raise

    def writing(self, chunk: int, kind: str) -> AbstractContextManager[BinaryIO]:
        """Open a file of a chunk, which appears when it is complete."""
        return replacing(self._file(chunk, kind), _writer())

    def missing(self) -> list[int]:
        """The chunks that are not there yet; none if they have been joined."""
        there = {entry.name for entry in os.scandir(self.folder)}
        missing = [
            chunk
            for chunk in range(self.chunks)
            if any(self._file(chunk, kind).name not in there for kind in self.results)
        ]
        return [] if self.joined else missing  # asked last: another process may join and delete them

    @property
    def joined(self) -> bool:
        """Whether the chunks have been joined."""
        return self._receipt.exists()

    def join(self) -> None:
        """Write the results, and delete the chunks. Two processes may do so at the same time.

        Raises FileError for a chunk that is missing or has too few or too many lines, and for a result that has changed
        since it was joined.
        """
        if missing := self.missing():
            raise FileError(f"{self.folder}: missing chunks: {len(missing):,} of {self.chunks:,}")
        try:
            if not self.joined:
                found = {kind: self._join(kind, path) for kind, path in self.results.items()}
                with replacing(self._receipt, _writer()) as file:
                    file.write(json.dumps(found, indent=1).encode())
        except FileNotFoundError:
            if not self.joined:  # by another process, which has deleted the chunks
                raise
        self._refuse_changed()
        self._tidy()

    def _join(self, kind: str, path: Path) -> dict[str, Any]:
        """Write a result; -> its size and SHA-256."""
        size, sha256 = 0, hashlib.sha256()
        with replacing(Path(os.path.realpath(path)), _writer()) as result:
            for chunk in range(self.chunks):
                chunk_file, rows = self._file(chunk, kind), 0
                with chunk_file.open("rb") as file:
                    while block := file.read(BUFFER):
                        result.write(block)
                        sha256.update(block)
                        size += len(block)
                        rows += block.count(b"\n")
                if rows != (wanted := len(self.span(chunk)) * self.rows):
                    raise FileError(
                        f"{chunk_file}: has {rows:,} lines and should have {wanted:,}; delete it, and repeat the "
                        "command to make it again"
                    )
        return {"bytes": size, "sha256": sha256.hexdigest()}

    def _refuse_changed(self) -> None:
        """Raise FileError if a result is not what was joined."""
        receipt = read_json(self._receipt)
        for kind, path in self.results.items():
            written = receipt[kind]
            if not path.is_file() or path.stat().st_size != written["bytes"] or digest(path) != written["sha256"]:
                raise FileError(
                    f"{path}: has changed since the job was finished; delete {self.folder} to translate again"
                )

    def _tidy(self) -> None:
        """Delete what the processes of a finished job have left."""
        left = [path for kind in self.results for path in self.folder.glob(f"*.{kind}")]
        left += self.folder.glob(".*~*.new")
        for path in (self.folder, *self.results.values()):
            real = Path(os.path.realpath(path))
            left += real.parent.glob(f".{glob.escape(real.name)}~*.new")
        for path in left:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    @property
    def _receipt(self) -> Path:
        return self.folder / "joined.json"

    def _file(self, chunk: int, kind: str) -> Path:
        return self.folder / f"{chunk:06}.{kind}"


def slices(lines: Iterable[str], spans: Iterable[range]) -> Iterator[Iterator[str]]:
    """Yield the lines of each span, which begin where the one before ends or later. Each must be read to its end before
    the next is asked for."""
    lines, place = iter(lines), 0
    for span in spans:
        next(islice(lines, span.start - place, span.start - place), None)  # skip what lies between
        yield islice(lines, len(span))
        place = span.stop


def _writer() -> str:
    """A name for this process on this machine."""
    return f"~{socket.gethostname()}-{os.getpid()}"


def _differences(theirs: Any, ours: Any, key: str = "") -> list[str]:
    """Compare two descriptions: -> each difference in words, with its dotted key."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        keys = [*theirs, *(each for each in ours if each not in theirs)]
        pairs = [(f"{key}.{each}" if key else each, theirs.get(each), ours.get(each)) for each in keys]
        return [text for name, there, here in pairs for text in _differences(there, here, name)]
    return [] if theirs == ours else [f"{key} ({_shown(theirs)} there, {_shown(ours)} here)"]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return f"{text[1:13]}..." if len(text) == 66 else text  # of a checksum its beginning
