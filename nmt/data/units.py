"""A split encoded in units of ``UNIT`` pairs, by several processes, so that a killed encoding continues.

A unit is three files, of which the last one, JSON with the digests of the others, makes it finished. The bytes of the
files depend on the text and the recipe alone, not on the number of processes, nor on where an encoding was interrupted.
"""

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.config.schema import AnyCorpus
from nmt.data.cache import Unfinished
from nmt.data.corpus import Pair, corpus_size, read_pairs
from nmt.data.encoding import Recipe, encode_rows, pair_hash
from nmt.data.language_id import HEAD
from nmt.data.links import linked_pairs
from nmt.data.report import Counted, Counts, Hashes, repeated
from nmt.data.storage import write_table
from nmt.files import digest as sha256
from nmt.files import read_json, write_json
from nmt.messages import counted, step

UNIT = 50_000
"""Pairs of a unit. About 100 bytes of ids and 300 of text each are in memory in every process that encodes."""
LARGE = 2
"""Full units from which on encoding uses one process per core."""
MOST_PROCESSES = 16
"""Processes that encode where their number is left open: the one that reads holds a unit for each."""
Rows = Mapping[str, Sequence[Any]]


class Text(NamedTuple):
    """The text of a split: a corpus, with the digests that its files and its links had before."""

    corpus: AnyCorpus
    languages: tuple[str, str]
    digest: str | None = None
    links_digest: str | None = None

    def pairs(self, seen: Callable[[int], None] = lambda count: None) -> Iterator[Pair]:
        """As :func:`read_pairs`."""
        return read_pairs(self.corpus, *self.languages, self.digest, seen)

    def rows(self, seen: Callable[[int], None]) -> Iterator[tuple[Any, ...]]:
        """The columns of each pair: source, target, and links, none where the corpus has no file of them."""
        if self.corpus.links is None or self.links_digest is None:
            for pair in self.pairs(seen):
                yield *pair, []
        else:
            for pair, links in linked_pairs(self.pairs(seen), self.corpus, self.corpus.links, self.links_digest):
                yield *pair, [word for link in links for word in link]


def encode_split(folder: Path, text: Text, recipe: Recipe, processes: int | None) -> tuple[Counted, list[Pair]]:
    """Write the kept pairs of a split to ``folder``, unit by unit; units that are finished there are left alone.

    Returns what the report needs, and the text of the first ``HEAD`` pairs, kept or dropped. Raises DataError as
    :func:`read_pairs` and :func:`linked_pairs` do.
    """
    folder.mkdir(exist_ok=True)
    repeats = _repeats(folder, text) if recipe.rule is not None and recipe.rule.duplicates else None
    reading = Reading(text.corpus)
    head: list[Pair] = []

    def units() -> Iterator[Rows]:
        rows = text.rows(reading.seen)
        while unit := list(islice(rows, UNIT)):
            reading.found(len(unit))
            head.extend(Pair(*row[:2]) for row in unit[: HEAD - len(head)])
            yield dict(zip(("source_text", "target_text", "links"), map(list, zip(*unit, strict=True)), strict=True))

    def jobs(units: Iterator[Rows]) -> Iterator[Job]:
        for number, unit in enumerate(units):
            path, size = folder / f"{number:05}", len(unit["source_text"])
            if (counts := finished(path)) is not None:
                yield partial(_found, counts)
            else:
                again = [False] * size if repeats is None else repeats[number * UNIT :][:size].tolist()
                yield partial(write_unit, path, unit, again, recipe)

    stream = units()
    first = list(islice(stream, LARGE))
    if processes is None:
        large = sum(len(unit["source_text"]) for unit in first) >= LARGE * UNIT
        processes = min(os.cpu_count() or 1, MOST_PROCESSES) if large else 1
    parts: list[Counts] = []
    with step(f"encoding {folder.name}", reading.pairs, "pairs") as progress:
        for counts in _in_order(jobs(chain(_drained(first), stream)), processes, progress.advance):
            parts.append(counts)
            progress.expect(reading.pairs)
    return Counted(sum(parts[1:], parts[0]), partial(_hashes, folder, len(parts))), head


Done = Callable[[int], None]
"""Is told how many pairs more are encoded."""
Job = Callable[[Done], Counts]


def write_unit(path: Path, rows: Rows, repeats: Sequence[bool], recipe: Recipe, done: Done) -> Counts:
    """Encode a unit and write its files, the one that makes it finished last."""
    table, counts, hashes = encode_rows(rows, repeats, recipe, done)
    write_table(path.with_suffix(".arrow"), table)
    np.save(path.with_suffix(".npy"), hashes)
    digests = {suffix: sha256(path.with_suffix(suffix)) for suffix in (".arrow", ".npy")}
    write_json(path.with_suffix(".json"), {"counts": counts.to_json(), "sha256": digests})
    return counts


def _found(counts: Counts, done: Done) -> Counts:
    """A unit that an earlier process has written."""
    done(int(counts.reasons.sum()))
    return counts


def finished(path: Path) -> Counts | None:
    """The counts of a unit whose files are whole; None for any other."""
    try:
        found = read_json(path.with_suffix(".json"))
        whole = all(sha256(path.with_suffix(suffix)) == digest for suffix, digest in found["sha256"].items())
        return Counts.from_json(found["counts"]) if whole else None
    except Exception:  # missing, damaged, or half-written
        return None


def tables(folder: Path) -> list[Path]:
    """The tables of a split in the order of its pairs."""
    return sorted(folder.glob("*.arrow"))


def remove_notes(folder: Path) -> None:
    """Remove what only the report and the continuation of a split need."""
    for suffix in (".npy", ".json"):
        for path in folder.glob(f"*{suffix}"):
            path.unlink()


def _hashes(folder: Path, units: int) -> Iterator[Hashes]:
    for number in range(units):
        yield np.load(folder / f"{number:05}.npy")


def _repeats(folder: Path, text: Text) -> NDArray[np.bool_]:
    """Read a corpus once to find the pairs that repeat earlier ones: -> (pairs,). Their hashes go through a file."""
    path, total = folder / "pairs.tmp", 0
    pairs = counted(text.pairs(), "looking for repeated pairs", None, "pairs")
    hashes = (pair_hash(*pair) for pair in pairs)
    with path.open("wb") as file:
        while len(part := np.fromiter(islice(hashes, UNIT), np.int64)):
            part.tofile(file)
            total += len(part)

    def parts() -> Iterator[NDArray[np.int64]]:
        with path.open("rb") as file:
            while len(part := np.fromfile(file, np.int64, UNIT)):
                yield part

    again = repeated(parts, total)
    path.unlink()
    return again


def _drained(units: list[Rows]) -> Iterator[Rows]:
    """The units of a list, which are removed from it: they are large."""
    while units:
        yield units.pop(0)


def _in_order(jobs: Iterator[Job], processes: int, done: Done) -> Iterator[Counts]:
    """Do jobs in processes of their own, at most one more than ``processes`` at a time; -> the results in order."""
    if processes == 1:
        yield from (job(done) for job in jobs)
        return
    with ProcessPoolExecutor(processes, get_context("fork"), _follow, (os.getpid(),)) as pool:
        try:
            waiting = deque(pool.submit(job, _uncounted) for job in islice(jobs, processes + 1))
            while waiting:
                counts = waiting.popleft().result()
                done(int(counts.reasons.sum()))
                yield counts
                waiting.extend(pool.submit(job, _uncounted) for job in islice(jobs, 1))
        except BrokenProcessPool:
            raise Unfinished(
                "data.processes: a process that encodes was killed, perhaps for lack of memory; run the same command "
                "again to continue, with a smaller data.processes"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _uncounted(pairs: int) -> None:
    """What another process encodes is counted when it is finished."""


def _follow(parent: int) -> None:
    """End this process at once when it is interrupted, or when its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


class Reading:
    """How many pairs a corpus has, judging by the bytes that have been read."""

    def __init__(self, corpus: AnyCorpus) -> None:
        self._limit, self._all_bytes = corpus.limit, corpus_size(corpus)
        self._bytes = self._read = self.pairs = 0

    def seen(self, count: int) -> None:
        """Count bytes that have been read."""
        self._bytes += count

    def found(self, pairs: int) -> None:
        """Count pairs that have been read, and estimate how many there are."""
        self._read += pairs
        known = self._read * self._all_bytes // self._bytes if self._bytes else self._read
        self.pairs = max(min(known, self._limit or known), self._read)
