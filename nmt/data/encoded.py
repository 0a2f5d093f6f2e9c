"""An encoded corpus, memory-mapped; the training set as an epoch reads it: with sampled segmentations, and links.

A sampled segmentation is a pure function of (seed, epoch, pair, side).
"""

import hashlib
import mmap
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nmt.config.schema import Sampling
from nmt.data.links import piece_links, piece_words
from nmt.data.segmentation import sampled_segmentation
from nmt.data.tokenizer import Ids, Tokenizers

Links = NDArray[np.float32]
SIDES = ("source", "target")
READ = 10_000
"""Texts that are sampled at a time."""
RELEASED = 256
"""Pairs that are read before mapped pages are dropped; reading one maps up to 256 KiB, for there may be 64 KiB around
each of the four places."""


class MappedTable:
    """Arrow streams in files, memory-mapped, end to end.

    Pages that have been read stay in the resident memory of the process until :meth:`release`.
    """

    def __init__(self, *files: BinaryIO) -> None:
        self._maps = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in files]
        self.table = pa.concat_tables(pa.ipc.open_stream(pa.py_buffer(pages)).read_all() for pages in self._maps)

    def release(self) -> None:
        """Drop the mapped pages from the resident memory; the next access maps them again, from the page cache."""
        for pages in self._maps:
            pages.madvise(mmap.MADV_DONTNEED)


class EncodedCorpus:
    """Memory-mapped ids of every pair, without BOS and EOS.

    Args:
        table: its columns ``source`` and ``target`` are lists of int32.
        release: drops the mapped pages from the resident memory; called after every ``RELEASED`` pairs.
    """

    def __init__(self, table: pa.Table, release: Callable[[], None] = lambda: None) -> None:
        self._source = _IdLists(table["source"])
        self._target = _IdLists(table["target"])
        self.source_lengths = self._source.lengths
        """Pieces of each source sentence: (pairs,) int32."""
        self.target_lengths = self._target.lengths
        """Pieces of each target sentence: (pairs,) int32."""
        self._release, self._read = release, 0
        release()

    def __len__(self) -> int:
        return len(self.source_lengths)

    def rows(self, indices: Sequence[int] | NDArray[Any]) -> tuple[list[Ids], list[Ids]]:
        """Source and target ids of the pairs at ``indices``, in this order."""
        wanted = np.asarray(indices, dtype=np.int64)
        if wanted.size and not 0 <= wanted.min() <= wanted.max() < len(self):
            raise IndexError(f"rows {wanted.min()} to {wanted.max()} of a corpus of {len(self)}")
        sources, targets = list[Ids](), list[Ids]()
        for first in range(0, len(wanted), RELEASED):
            part = wanted[first : first + RELEASED]
            sources += self._source.take(part)
            targets += self._target.take(part)
            self._read += len(part)
            if self._read >= RELEASED:
                self._release()
                self._read = 0
        return sources, targets

    def links(self, indices: Sequence[int] | NDArray[Any]) -> list[Links] | None:
        """The links between the pieces of the pairs at ``indices``; None without links."""
        return None

    def in_epoch(self, epoch: int) -> "EncodedCorpus":
        """The corpus as an epoch of training reads it: the same in all of them."""
        return self


class _IdLists:
    """A column of lists of int32; what is taken is copied, so that mapped pages can be dropped."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        self._values = [chunk.values.to_numpy() for chunk in chunks]
        self._starts = [chunk.offsets.to_numpy() for chunk in chunks]
        self._first_rows = np.cumsum([0, *(len(chunk) for chunk in chunks)])
        self.lengths: NDArray[np.int32] = np.concatenate([np.zeros(0, np.int32), *map(np.diff, self._starts)])

    def take(self, rows: NDArray[np.int64]) -> list[NDArray[np.int32]]:
        chunks = np.searchsorted(self._first_rows, rows, side="right") - 1
        places = rows - self._first_rows[chunks]
        return [
            self._values[chunk][self._starts[chunk][place] : self._starts[chunk][place + 1]].copy()
            for chunk, place in zip(chunks.tolist(), places.tolist(), strict=True)
        ]


class TextCorpus(EncodedCorpus):
    """An encoded training set with its text, from which segmentations are sampled and links spread over pieces.

    Args:
        table: has the columns ``source_text`` and ``target_text``, and ``links`` if there are any: i, j, i, j, ...
        tokenizers: of both sides.
        sampling: how segmentations are sampled; None: the best ones.
        seed: of the samples.
        most: pieces of a side at most; a longer sample gives way to the best segmentation.
        tags: of the corpora that lie end to end: the number of pairs of each, and the piece before its sources.
        release: as in ``EncodedCorpus``.
    """

    def __init__(
        self,
        table: pa.Table,
        tokenizers: Tokenizers,
        *,
        sampling: Sampling | None,
        seed: int,
        most: int,
        tags: Sequence[tuple[int, str | None]] = (),
        release: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(table, release)
        self._table, self._tokenizers = table, tokenizers
        self._seed, self._most = seed, most
        self._segmentations = {
            side: sampled_segmentation(tokenizer, sampling)
            for side, tokenizer in tokenizers.sides()
            if sampling is not None and sampling.sides in ("both", side)
        }
        self._tags = tags
        self._ends = np.cumsum([pairs for pairs, _ in tags])
        self._tag_ids = [[] if tag is None else [tokenizers.source.piece_id(tag)] for _, tag in tags]
        self._links = _IdLists(table["links"]) if "links" in table.column_names else None

    def _tag(self, pair: int, side: str) -> list[int]:
        """The id before the pieces of a text, if there is one."""
        if side == "target" or not self._tag_ids:
            return []
        return self._tag_ids[int(np.searchsorted(self._ends, pair, side="right"))]

    def links(self, indices: Sequence[int] | NDArray[Any]) -> list[Links] | None:
        """The links of the pairs at ``indices``, (T, S) each, spread over pieces by :func:`piece_links`.

        A tag has none.
        """
        if self._links is None:
            return None
        tags = [len(self._tag(int(pair), "source")) for pair in indices]
        sources, targets = self.rows(indices)
        untagged = [row[tag:] for row, tag in zip(sources, tags, strict=True)]
        words = [
            [
                piece_words(tokenizer.pieces(row.tolist()), self._table[f"{side}_text"][int(pair)].as_py())
                for pair, row in zip(indices, rows, strict=True)
            ]
            for (side, tokenizer), rows in zip(self._tokenizers.sides(), (untagged, targets), strict=True)
        ]
        links = (each.reshape(-1, 2) for each in self._links.take(np.asarray(indices, np.int64)))
        spread = map(piece_links, links, *words)
        return [np.pad(weights, ((0, 0), (tag, 0))) for weights, tag in zip(spread, tags, strict=True)]

    def in_epoch(self, epoch: int) -> EncodedCorpus:
        """The corpus as an epoch of training reads it: with segmentations of its own, held in a temporary file."""
        if not self._segmentations:
            return self
        with tempfile.TemporaryFile() as file:  # mapped beyond its end
            self._sample(file, epoch)
            sampled = MappedTable(file)
        table = self._table
        for side in SIDES:
            table = table.set_column(table.column_names.index(side), side, sampled.table[side])

        def release() -> None:
            sampled.release()
            self._release()

        return TextCorpus(
            table, self._tokenizers, sampling=None, seed=self._seed, most=self._most, tags=self._tags, release=release
        )

    def _sample(self, file: BinaryIO, epoch: int) -> None:
        """Write the ids of both sides to a file, with a sampled segmentation of each text of a side that is sampled."""
        columns = [*SIDES, *(f"{side}_text" for side in SIDES)]
        schema, first = self._table.select(list(SIDES)).schema, 0
        with pa.ipc.new_stream(file, schema) as writer:
            for batch in self._table.select(columns).to_batches(max_chunksize=READ):
                sides = [
                    self._sampled(side, batch, first, epoch) if side in self._segmentations else batch[side]
                    for side in SIDES
                ]
                writer.write_batch(pa.record_batch(sides, schema))
                self._release()
                first += len(batch)
        file.flush()

    def _sampled(self, side: str, batch: pa.RecordBatch, first: int, epoch: int) -> pa.Array:
        """Sample the texts of a side of a batch whose pairs are numbered from ``first``."""
        rows = []
        for pair, text in enumerate(batch[f"{side}_text"].to_pylist(), first):
            number = _number(self._seed, epoch, pair, side)
            sample = [*self._tag(pair, side), *self._segmentations[side].sample(text, number)]
            rows.append(sample if len(sample) <= self._most else batch[side][pair - first].as_py())
        return pa.array(rows, batch[side].type)


def _number(*parts: object) -> int:
    """Hash the parts to a number of 64 bits."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")
