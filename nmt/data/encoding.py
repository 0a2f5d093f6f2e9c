"""Encoding of a split: ids of the kept pairs, and facts of all pairs, in Arrow files in the order of the text.

The files depend on the text and the recipe only, not on the number of processes.
"""

import hashlib
import mmap
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nmt.config.schema import AnyCorpus, Filter
from nmt.data.corpus import Pair, corpus_files, read_pairs
from nmt.data.links import linked_pairs
from nmt.data.report import KEPT, REASONS
from nmt.data.tokenizer import Tokenizers
from nmt.errors import DataError
from nmt.messages import counted, step

UNIT = 10_000
"""Pairs that a process encodes at a time."""
LARGE = 20_000_000
"""Bytes of a corpus from which on encoding uses one process per core; so does a dataset of the hub, of any size."""
MOST_PROCESSES = 16
"""Processes that encode where their number is left open."""
TABLE, FACTS = "pairs.arrow", "facts.arrow"
"""Files of a split: the kept pairs; facts of all pairs, until the report is made."""
NUMBERS = pa.list_(pa.int32())
FACTS_SCHEMA = pa.schema(
    [("reason", pa.uint8())]
    + [(f"{side}_{unit}", pa.int32()) for side in ("source", "target") for unit in ("words", "pieces", "unknown")]
    + [("pair_hash", pa.int64()), ("source_hash", pa.int64())]
)
Rows = Mapping[str, Sequence[Any]]
"""Columns ``source_text``, ``target_text`` and ``links``."""


@dataclass(frozen=True)
class Recipe:
    """How the pairs of a split are encoded."""

    tokenizers: Tokenizers
    rule: Filter | None = None
    """Which pairs are dropped; None: only empty ones."""
    whole: bool = False
    """Keep every pair, empty ones too."""
    text: bool = False
    """Store the text beside the ids."""
    links: bool = False
    """Store the word links: i, j, i, j, ..."""
    tag: str | None = None
    """The piece before each source sentence."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the kept pairs."""
        text = [("source_text", pa.string()), ("target_text", pa.string())] if self.text else []
        links = [("links", NUMBERS)] if self.links else []
        return pa.schema([("source", NUMBERS), ("target", NUMBERS), *text, *links])


def encode(rows: Rows, repeats: Sequence[bool], recipe: Recipe) -> tuple[pa.Table, pa.Table]:
    """Encode pairs: -> the kept ones, and facts of all. ``repeats``: whether each pair repeats an earlier one."""
    columns = dict(rows)
    facts: dict[str, Sequence[int]] = {}
    for side, tokenizer in recipe.tokenizers.sides():
        texts = rows[f"{side}_text"]
        ids = tokenizer.encode(texts)
        if side == "source" and recipe.tag is not None:
            tag = tokenizer.piece_id(recipe.tag)
            ids = [[tag, *row] if row else row for row in ids]
        columns[side] = ids
        facts[f"{side}_words"] = [len(text.split()) for text in texts]
        facts[f"{side}_pieces"] = [len(row) for row in ids]
        facts[f"{side}_unknown"] = [row.count(tokenizer.unk_id) for row in ids]
    pairs = list(map(Pair, rows["source_text"], rows["target_text"]))
    words, pieces = (zip(facts[f"source_{unit}"], facts[f"target_{unit}"], strict=True) for unit in ("words", "pieces"))
    found = [reason(*each, recipe.rule) for each in zip(pairs, words, pieces, repeats, strict=True)]
    facts["reason"] = [REASONS.index(KEPT if recipe.whole else each) for each in found]
    facts["pair_hash"] = [text_hash("\n".join(pair)) for pair in pairs]
    facts["source_hash"] = [text_hash(pair.source) for pair in pairs]
    kept = np.flatnonzero(np.array(facts["reason"]) == REASONS.index(KEPT))
    table = pa.table({name: columns[name] for name in recipe.schema.names}, recipe.schema)
    return table.take(kept), pa.table({name: facts[name] for name in FACTS_SCHEMA.names}, FACTS_SCHEMA)


def reason(pair: Pair, words: tuple[int, int], pieces: tuple[int, int], repeats: bool, rule: Filter | None) -> str:
    """The first of ``REASONS`` that applies to a pair with these numbers of words and pieces."""
    if not all(words + pieces):
        return "empty"
    if rule is None:
        return KEPT
    reasons = {
        "too_long_words": rule.max_words is not None and max(words) > rule.max_words,
        "too_long_pieces": max(pieces) > rule.max_pieces,
        "ratio": rule.max_ratio is not None and max(words) > rule.max_ratio * min(words),
        "copy": rule.copies and pair.source.casefold().split() == pair.target.casefold().split(),
        "duplicate": rule.duplicates and repeats,
    }
    return next((name for name, applies in reasons.items() if applies), KEPT)


def text_hash(text: str) -> int:
    """A hash of a text, in 64 bits: of 36 million texts, two that differ share one with a probability of 0.00004."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def encode_split(
    folder: Path, corpus: AnyCorpus, languages: tuple[str, str], recipe: Recipe, processes: int | None
) -> None:
    """Write the kept pairs of a split and the facts of all to a new folder.

    Raises DataError as :func:`read_pairs` and :func:`linked_pairs` do.
    """
    folder.mkdir()
    repeats = None
    if recipe.rule is not None and recipe.rule.duplicates:
        repeats = _repeats(counted(read_pairs(corpus, *languages), "looking for repeated pairs", None, "pairs"))
    if processes is None:
        size = sum(Path(path).stat().st_size for path in corpus_files(corpus))
        processes = 1 if 0 < size < LARGE else min(os.cpu_count() or 1, MOST_PROCESSES)

    def jobs() -> Iterator[Callable[[], tuple[pa.Table, pa.Table]]]:
        first = 0
        for unit in _units(corpus, languages):
            size = len(unit["source_text"])
            again = [False] * size if repeats is None else repeats[first : first + size].tolist()
            first += size
            yield partial(encode, unit, again, recipe)

    with (
        step(f"encoding {folder.name}", None, "pairs") as progress,
        (folder / TABLE).open("wb") as pairs_file,
        (folder / FACTS).open("wb") as facts_file,
        pa.ipc.new_stream(pairs_file, recipe.schema) as pairs,
        pa.ipc.new_stream(facts_file, FACTS_SCHEMA) as facts,
    ):
        for kept, part in _in_order(jobs(), processes):
            pairs.write_table(kept)
            facts.write_table(part)
            progress.advance(len(part))


def _units(corpus: AnyCorpus, languages: tuple[str, str]) -> Iterator[Rows]:
    """Read ``UNIT`` pairs at a time; they have no links if the corpus names no file of links."""
    pairs = read_pairs(corpus, *languages)
    linked = ((pair, ()) for pair in pairs) if corpus.links is None else linked_pairs(pairs, corpus, corpus.links)
    rows = ((*pair, [word for link in links for word in link]) for pair, links in linked)
    while unit := list(islice(rows, UNIT)):
        yield dict(zip(("source_text", "target_text", "links"), map(list, zip(*unit, strict=True)), strict=True))


def _repeats(pairs: Iterable[Pair]) -> NDArray[np.bool_]:
    """Find the pairs that repeat earlier ones: -> (pairs,)."""
    hashes = np.fromiter((text_hash("\n".join(pair)) for pair in pairs), np.int64)
    again = np.ones(len(hashes), bool)
    again[np.unique(hashes, return_index=True)[1]] = False
    return again


def _in_order(
    jobs: Iterator[Callable[[], tuple[pa.Table, pa.Table]]], processes: int
) -> Iterator[tuple[pa.Table, pa.Table]]:
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


def mapped(*paths: Path) -> pa.Table:
    """Map Arrow files into memory, end to end."""
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path in paths]
        maps = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in files]
    return pa.concat_tables(pa.ipc.open_stream(pa.py_buffer(pages)).read_all() for pages in maps)
