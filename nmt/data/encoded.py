"""An encoded corpus, memory-mapped; the training set as an epoch reads it: with sampled segmentations, and links.

A sampled segmentation is a pure function of (seed, epoch, pair, side).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nmt.config.schema import Sampling
from nmt.data.links import piece_links, piece_words
from nmt.data.tokenizer import Tokenizer, Tokenizers

Ids = NDArray[np.int32]


class TrainingRows(NamedTuple):
    """Training pairs as one epoch reads them, without BOS and EOS."""

    sources: list[Ids]
    targets: list[Ids]
    links: list[NDArray[np.float32]] | None = None
    """Links between the T target and the S source pieces of each pair, (T, S), as
    :func:`nmt.data.links.piece_links` has them; None without links."""


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

    def training_rows(self, indices: Sequence[int] | NDArray[Any], epoch: int) -> TrainingRows:
        """The pairs at ``indices`` as an epoch of training reads them: the same in all of them."""
        return TrainingRows(*self.rows(indices))


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
        self._sides = [
            _Side(name, tokenizer, table[f"{name}_text"], sampling, seed, most)
            for name, tokenizer in (("source", tokenizers.source), ("target", tokenizers.target))
        ]
        self._links = _IdLists(table["links"]) if "links" in table.column_names else None

    def training_rows(self, indices: Sequence[int] | NDArray[Any], epoch: int) -> TrainingRows:
        """The pairs at ``indices``, segmented for this epoch, with their links."""
        pairs = np.asarray(indices, np.int64)
        sources, targets = (
            side.segmented(ids, pairs, epoch) for side, ids in zip(self._sides, self.rows(pairs), strict=True)
        )
        if self._links is None:
            return TrainingRows(sources, targets)
        words = [side.words(ids, pairs) for side, ids in zip(self._sides, (sources, targets), strict=True)]
        links = (each.reshape(-1, 2) for each in self._links.take(pairs))
        return TrainingRows(sources, targets, list(map(piece_links, links, *words)))


@dataclass(frozen=True)
class _Side:
    """One side of a :class:`TextCorpus`."""

    name: str
    tokenizer: Tokenizer
    texts: pa.ChunkedArray
    sampling: Sampling | None
    seed: int
    most: int

    def segmented(self, best: list[Ids], pairs: NDArray[np.int64], epoch: int) -> list[Ids]:
        """Sample a segmentation of each text, if this side is sampled; else return the best ones."""
        if self.sampling is None or self.sampling.sides not in ("both", self.name):
            return best
        segmented = []
        for pair, ids in zip(pairs.tolist(), best, strict=True):
            number = _number(self.seed, epoch, pair, self.name)
            sample = self.tokenizer.sample(self.texts[pair].as_py(), self.sampling.alpha, self.sampling.nbest, number)
            segmented.append(np.array(sample, np.int32) if len(sample) <= self.most else ids)
        return segmented

    def words(self, ids: list[Ids], pairs: NDArray[np.int64]) -> list[list[int]]:
        """Return the word of each piece of each text."""
        texts = (self.texts[pair].as_py() for pair in pairs.tolist())
        return [piece_words(self.tokenizer.pieces(row.tolist()), text) for row, text in zip(ids, texts, strict=True)]


def _number(*parts: object) -> int:
    """Hash the parts to a number of 31 bits."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=4).digest(), "little") >> 1
