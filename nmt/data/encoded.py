"""Encoded corpora, memory-mapped, and the training set: the pairs that an epoch reads, and their segmentations.

A sampled segmentation is a pure function of (seed, epoch, pair, side), and the pairs of a mix that an epoch reads are
one of (parts, seed, epoch).
"""

import tempfile
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nmt.data.encoding import mapped, text_hash
from nmt.data.links import piece_links, piece_words
from nmt.data.report import SIDES
from nmt.data.segmentation import BpeDropout
from nmt.data.tokenizer import Ids, Tokenizers

Links = NDArray[np.float32]
Parts = Sequence[tuple[int, int]]
Indices = Sequence[int] | NDArray[Any]
READ = 10_000
"""Texts that are sampled at a time."""


class EncodedCorpus:
    """Pairs of ids, without BOS and EOS: the rows of a table, in any order and number.

    Args:
        table: its columns ``source`` and ``target`` are lists of int32. Word links, if there are any, are in
            ``links`` (i, j, i, j, ...), with ``source_text`` and ``target_text``.
        drawn: the rows; None: all.
        tokenizers: for the words of pieces that are linked.
        tags: ids of the pieces before the sources of tagged corpora.
    """

    def __init__(
        self,
        table: pa.Table,
        drawn: NDArray[np.int64] | None = None,
        *,
        tokenizers: Tokenizers | None = None,
        tags: Set[int] = frozenset(),
    ) -> None:
        self._table, self._drawn, self._tokenizers, self._tags = table, drawn, tokenizers, tags
        self._source, self._target = _IdLists(table["source"]), _IdLists(table["target"])
        self._links = _IdLists(table["links"]) if "links" in table.column_names else None
        self.source_lengths = self._source.lengths if drawn is None else self._source.lengths[drawn]
        """Pieces of each source sentence: (pairs,) int32."""
        self.target_lengths = self._target.lengths if drawn is None else self._target.lengths[drawn]
        """Pieces of each target sentence: (pairs,) int32."""

    def __len__(self) -> int:
        return len(self.source_lengths)

    def rows(self, indices: Indices) -> tuple[list[Ids], list[Ids]]:
        """Source and target ids of the pairs at ``indices``, in this order."""
        rows = self._rows(indices)
        return self._source.take(rows), self._target.take(rows)

    def links(self, indices: Indices) -> list[Links] | None:
        """The links of the pairs at ``indices``, (T, S) each, spread over pieces by :func:`piece_links`; None without.

        A tag has none.
        """
        if self._links is None or self._tokenizers is None:
            return None
        spread = []
        rows = self._rows(indices)
        for row, source, target, links in zip(rows, *self.rows(indices), self._links.take(rows), strict=True):
            tag = len(self._tag(source))
            words = [
                piece_words(tokenizer.pieces(ids.tolist()), self._table[f"{side}_text"][int(row)].as_py())
                for (side, tokenizer), ids in zip(self._tokenizers.sides(), (source[tag:], target), strict=True)
            ]
            spread.append(np.pad(piece_links(links.reshape(-1, 2), *words), ((0, 0), (tag, 0))))
        return spread

    def _rows(self, indices: Indices) -> NDArray[np.int64]:
        """The rows of the table that hold the pairs at ``indices``."""
        rows = np.asarray(indices, np.int64)
        return rows if self._drawn is None else self._drawn[rows]

    def _tag(self, ids: Any) -> Any:
        """The tag before the pieces of a text: one id, or none."""
        return ids[:1] if len(ids) and int(ids[0]) in self._tags else ids[:0]


class _IdLists:
    """A column of lists of int32, in which a row is found without copying the column."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        self._values = [chunk.values.to_numpy() for chunk in chunks]
        self._starts = [chunk.offsets.to_numpy() for chunk in chunks]
        self._first_rows = np.cumsum([0, *(len(chunk) for chunk in chunks)])
        self.lengths: NDArray[np.int32] = np.concatenate([np.zeros(0, np.int32), *map(np.diff, self._starts)])

    def take(self, rows: NDArray[np.int64]) -> list[Ids]:
        chunks = np.searchsorted(self._first_rows, rows, side="right") - 1
        places = rows - self._first_rows[chunks]
        return [
            self._values[chunk][self._starts[chunk][place] : self._starts[chunk][place + 1]]
            for chunk, place in zip(chunks.tolist(), places.tolist(), strict=True)
        ]


class TrainingSet(EncodedCorpus):
    """All pairs of the training corpora, corpus after corpus, from which each epoch reads its own.

    Args:
        table, tokenizers, tags: as of :class:`EncodedCorpus`; to sample, the table has the text of both sides.
        dropout: share of merges that a segmentation leaves out, drawn again in each epoch; 0: none.
        parts: the pairs of each corpus of a mix, and how many of them an epoch reads.
        seed: of the samples, and of the pairs that an epoch reads.
    """

    def __init__(
        self,
        table: pa.Table,
        tokenizers: Tokenizers | None = None,
        *,
        tags: Set[int] = frozenset(),
        dropout: float = 0.0,
        parts: Parts = (),
        seed: int = 0,
    ) -> None:
        super().__init__(table, tokenizers=tokenizers, tags=tags)
        self._parts, self._seed = parts, seed
        self._segmentations = {
            side: BpeDropout(tokenizer, dropout)
            for side, tokenizer in (tokenizers.sides() if tokenizers is not None and dropout else ())
        }

    def in_epoch(self, epoch: int) -> EncodedCorpus:
        """The pairs that an epoch reads, in the order of the corpora, segmented for it; its plan shuffles them."""
        whole = all(size == count for size, count in self._parts)
        if whole and not self._segmentations:
            return self
        table = self._sampled(epoch) if self._segmentations else self._table
        drawn = None if whole else epoch_rows(self._parts, seed=self._seed, epoch=epoch)
        return EncodedCorpus(table, drawn, tokenizers=self._tokenizers, tags=self._tags)

    def _sampled(self, epoch: int) -> pa.Table:
        """The table with the segmentations of an epoch, in a file without a name."""
        schema, first = self._table.select(SIDES).schema, 0
        with tempfile.NamedTemporaryFile() as file:  # mapped beyond its end
            with pa.ipc.new_stream(file, schema) as writer:
                for batch in self._table.to_batches(max_chunksize=READ):
                    sides = [self._sampled_side(side, batch, first, epoch) for side in SIDES]
                    writer.write_batch(pa.record_batch(sides, schema))
                    first += len(batch)
            file.flush()
            sampled = mapped(Path(file.name))
        kept = {name: self._table[name] for name in self._table.column_names if name not in SIDES}
        return pa.table({**{side: sampled[side] for side in SIDES}, **kept})

    def _sampled_side(self, side: str, batch: pa.RecordBatch, first: int, epoch: int) -> pa.Array:
        """Sample the texts of a side of a batch whose pairs are numbered from ``first``."""
        rows = []
        texts, best = batch[f"{side}_text"].to_pylist(), batch[side].to_pylist()
        for pair, (text, ids) in enumerate(zip(texts, best, strict=True), first):
            number = text_hash(repr((self._seed, epoch, pair, side)))
            rows.append(self._tag(ids) + self._segmentations[side].sample(text, number))
        return pa.array(rows, batch[side].type)


def epoch_rows(parts: Parts, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Draw the rows of an epoch from corpora that lie end to end: corpus by corpus.

    An epoch reads a corpus of n pairs floor(count / n) times, and ``count mod n`` of its pairs once more. These follow
    one random order of the corpus, from where the epoch before has stopped and around its end: after any number of
    epochs two pairs of a corpus have been read equally often, or one of them once more.
    """
    rows, first = [], 0
    for number, (size, count) in enumerate(parts):
        copies, rest = divmod(count, size)
        rows += [np.arange(first, first + size)] * copies
        if rest:  # a stream of its own: that of the plan begins with (seed, epoch)
            order = np.random.default_rng((seed, number, 1)).permutation(size)
            rows.append(first + order[(epoch * rest + np.arange(rest)) % size])
        first += size
    return np.concatenate(rows)
