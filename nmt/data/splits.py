"""A split in the cache: one Arrow file of its kept pairs, encoded by several processes in the order of the text.

The file depends on the text and the recipe only, not on the number of processes.
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
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nmt.config.schema import AnyCorpus
from nmt.data.corpus import Pair, corpus_size, read_pairs
from nmt.data.encoding import Recipe, encode_rows, pair_hash
from nmt.data.language_id import HEAD
from nmt.data.links import linked_pairs
from nmt.data.report import Counted, Counts, Hashes, repeated
from nmt.errors import DataError
from nmt.messages import counted, step

UNIT = 50_000
"""Pairs that a process encodes at a time. Each has about 100 bytes of ids and 300 of text."""
LARGE = 20_000_000
"""Bytes of a corpus from which on encoding uses one process per core; so does a dataset of the hub, of any size."""
MOST_PROCESSES = 16
"""Processes that encode where their number is left open: the one that reads holds a unit for each."""
TABLE, HASHES = "pairs.arrow", "hashes"
"""Files of a split: the kept pairs; their hashes, until the report is made."""
Rows = Mapping[str, Sequence[Any]]
"""Columns ``source_text``, ``target_text`` and ``links``."""
Encoded = tuple[pa.Table, Counts, Hashes]


class Text(NamedTuple):
    """The text of a split: a corpus, with the digests that its files and its links had before."""

    corpus: AnyCorpus
    languages: tuple[str, str]
    digest: str | None = None
    links_digest: str | None = None

    def pairs(self, seen: Callable[[int], None] = lambda count: None) -> Iterator[Pair]:
        """As :func:`read_pairs`."""
        return read_pairs(self.corpus, *self.languages, self.digest, seen)

    def units(self, seen: Callable[[int], None]) -> Iterator[Rows]:
        """Read ``UNIT`` pairs at a time; they have no links if the corpus names no file of links."""
        pairs = self.pairs(seen)
        if self.corpus.links is None or self.links_digest is None:
            rows: Iterator[tuple[str, str, list[int]]] = ((*pair, []) for pair in pairs)
        else:
            linked = linked_pairs(pairs, self.corpus, self.corpus.links, self.links_digest)
            rows = ((*pair, [word for link in links for word in link]) for pair, links in linked)
        while unit := list(islice(rows, UNIT)):
            yield dict(zip(("source_text", "target_text", "links"), map(list, zip(*unit, strict=True)), strict=True))


def encode_split(folder: Path, text: Text, recipe: Recipe, processes: int | None) -> tuple[Counted, list[Pair]]:
    """Write the kept pairs of a split, and their hashes, to a new folder.

    Returns what the report needs, and the text of the first ``HEAD`` pairs, kept or dropped. Raises DataError as
    :func:`read_pairs` and :func:`linked_pairs` do.
    """
    folder.mkdir()
    repeats = _repeats(folder, text) if recipe.rule is not None and recipe.rule.duplicates else None
    all_bytes = corpus_size(text.corpus)
    if processes is None:
        processes = 1 if 0 < all_bytes < LARGE else min(os.cpu_count() or 1, MOST_PROCESSES)
    head: list[Pair] = []
    counts: list[Counts] = []
    bytes_read = pairs_read = 0

    def seen(count: int) -> None:
        nonlocal bytes_read
        bytes_read += count

    def jobs() -> Iterator[Callable[[], Encoded]]:
        nonlocal pairs_read
        for unit in text.units(seen):
            size = len(unit["source_text"])
            again = [False] * size if repeats is None else repeats[pairs_read : pairs_read + size].tolist()
            head.extend(map(Pair, unit["source_text"][: HEAD - len(head)], unit["target_text"]))
            pairs_read += size
            expected = pairs_read * all_bytes // max(1, bytes_read)
            progress.expect(max(pairs_read, min(expected, text.corpus.limit or expected)))
            yield partial(encode_rows, unit, again, recipe)

    with (
        step(f"encoding {folder.name}", None, "pairs") as progress,
        pa.OSFile(str(folder / TABLE), "wb") as file,
        pa.ipc.new_stream(file, recipe.schema) as stream,
        (folder / HASHES).open("wb") as hashes,
    ):
        for table, part, kept_hashes in _in_order(jobs(), processes):
            stream.write_table(table.combine_chunks())
            kept_hashes.tofile(hashes)
            counts.append(part)
            progress.advance(int(part.reasons.sum()))
    return Counted(sum(counts[1:], counts[0]), partial(_parts, folder / HASHES, 2)), head


def _parts(path: Path, columns: int) -> Iterator[NDArray[np.int64]]:
    """Read hashes from a file, part by part: (pairs, columns)."""
    with path.open("rb") as file:
        while len(part := np.fromfile(file, np.int64, columns * UNIT)):
            yield part.reshape(-1, columns)


def _repeats(folder: Path, text: Text) -> NDArray[np.bool_]:
    """Read a corpus once to find the pairs that repeat earlier ones: -> (pairs,). Their hashes go through a file."""
    path, total = folder / HASHES, 0
    pairs = counted(text.pairs(), "looking for repeated pairs", None, "pairs")
    hashes = (pair_hash(*pair) for pair in pairs)
    with path.open("wb") as file:
        while len(part := np.fromiter(islice(hashes, UNIT), np.int64)):
            part.tofile(file)
            total += len(part)
    return repeated(lambda: (part[:, 0] for part in _parts(path, 1)), total)


def _in_order(jobs: Iterator[Callable[[], Encoded]], processes: int) -> Iterator[Encoded]:
    """Do jobs in processes of their own, at most one more than ``processes`` at a time; -> the results in order.

    Raises DataError if one of the processes is killed.
    """
    if processes == 1:
        yield from (job() for job in jobs)
        return
    with ProcessPoolExecutor(processes, get_context("fork"), _follow, (os.getpid(),)) as pool:
        try:
            waiting = deque(map(pool.submit, islice(jobs, processes + 1)))
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(map(pool.submit, islice(jobs, 1)))
        except BrokenProcessPool:
            raise DataError(
                "data.processes: a process that encodes was killed, perhaps for lack of memory; run the same command "
                "again with a smaller data.processes"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _follow(parent: int) -> None:
    """End this process at once when it is interrupted, or when its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
