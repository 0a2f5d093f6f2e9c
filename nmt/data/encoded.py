"""An encoded corpus, memory-mapped; the training set as an epoch reads it: with sampled segmentations, and links.

A sampled segmentation is a pure function of (seed, epoch, pair, side).
"""

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nmt.config.schema import Sampling
from nmt.data.links import piece_links, piece_words
from nmt.data.tokenizer import Tokenizer, Tokenizers

Ids = NDArray[np.int32]
Links = NDArray[np.float32]
READ = 1000
"""Texts that are read at a time."""


class EncodedCorpus:
    """Memory-mapped ids of every pair, without BOS and EOS."""

    def __init__(self, table: pa.Table) -> None:
        """Wrap a table whose columns ``source`` and ``target`` are lists of int32."""
        self._source = _IdLists(table["source"])
        self._target = _IdLists(table["target"])
        self.source_lengths = self._source.lengths
        """Pieces of each source sentence: (pairs,) int32."""
        self.target_lengths = self._target.lengths
        """Pieces of each target sentence: (pairs,) int32."""

    def __len__(self) -> int:
        return len(self.source_lengths)

    def rows(self, indices: Sequence[int] | NDArray[Any]) -> tuple[list[Ids], list[Ids]]:
        """Source and target ids of the pairs at ``indices``, in this order, as read-only views of the mapped file."""
        wanted = np.asarray(indices, dtype=np.int64)
        if wanted.size and not 0 <= wanted.min() <= wanted.max() < len(self):
            raise IndexError(f"rows {wanted.min()} to {wanted.max()} of a corpus of {len(self)}")
        return self._source.take(wanted), self._target.take(wanted)

    def links(self, indices: Sequence[int] | NDArray[Any]) -> list[Links] | None:
        """The links between the pieces of the pairs at ``indices``; None without links."""
        return None

    def in_epoch(self, epoch: int) -> "EncodedCorpus":
        """The corpus as an epoch of training reads it: the same in all of them."""
        return self


class _IdLists:
    """A column of lists of int32, read without copying."""

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
            self._values[chunk][self._starts[chunk][place] : self._starts[chunk][place + 1]]
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
    """

    def __init__(
        self, table: pa.Table, tokenizers: Tokenizers, *, sampling: Sampling | None, seed: int, most: int
    ) -> None:
        super().__init__(table)
        self._table, self._tokenizers = table, tokenizers
        self._sampling, self._seed, self._most = sampling, seed, most
        self._links = _IdLists(table["links"]) if "links" in table.column_names else None

    def links(self, indices: Sequence[int] | NDArray[Any]) -> list[Links] | None:
        """The links of the pairs at ``indices``, (T, S) each, spread over pieces by :func:`piece_links`."""
        if self._links is None:
            return None
        words = [
            [
                piece_words(tokenizer.pieces(row.tolist()), self._table[f"{side}_text"][int(pair)].as_py())
                for pair, row in zip(indices, rows, strict=True)
            ]
            for (side, tokenizer), rows in zip(self._tokenizers.sides(), self.rows(indices), strict=True)
        ]
        links = (each.reshape(-1, 2) for each in self._links.take(np.asarray(indices, np.int64)))
        return list(map(piece_links, links, *words))

    def in_epoch(self, epoch: int) -> EncodedCorpus:
        """The corpus as an epoch of training reads it: with segmentations of its own, held in memory."""
        if self._sampling is None:
            return self
        table = self._table
        for side, tokenizer in self._tokenizers.sides():
            if self._sampling.sides in ("both", side):
                ids = self._sampled(side, tokenizer, self._sampling, epoch)
                table = table.set_column(table.column_names.index(side), side, pa.chunked_array([ids]))
        return TextCorpus(table, self._tokenizers, sampling=None, seed=self._seed, most=self._most)

    def _sampled(self, side: str, tokenizer: Tokenizer, sampling: Sampling, epoch: int) -> pa.ListArray:
        """Sample a segmentation of each text of a side."""
        best, ids, ends = _IdLists(self._table[side]), array("i"), array("i", [0])
        for pair, text in enumerate(_texts(self._table[f"{side}_text"])):
            sample = tokenizer.sample(text, sampling.alpha, sampling.nbest, _number(self._seed, epoch, pair, side))
            ids.extend(sample if len(sample) <= self._most else best.take(np.array([pair]))[0].tolist())
            ends.append(len(ids))
        return pa.ListArray.from_arrays(*(pa.array(np.frombuffer(each, np.int32)) for each in (ends, ids)))


def _texts(column: pa.ChunkedArray) -> Iterator[str]:
    for batch in pa.table({"text": column}).to_batches(max_chunksize=READ):
        yield from batch["text"].to_pylist()


def _number(*parts: object) -> int:
    """Hash the parts to a number of 31 bits."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=4).digest(), "little") >> 1
