"""The training set as an epoch reads it: memory-mapped ids, sampled segmentations, links, parts of a mix of corpora.

A sampled segmentation is a pure function of (seed, epoch, pair, side), and the pairs of a mix that an epoch reads are
one of (sizes, weights, seed, epoch).
"""

import hashlib
import tempfile
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nmt.config.schema import Sampling
from nmt.data.batching import EncodedPairs
from nmt.data.encoding import mapped
from nmt.data.links import piece_links, piece_words
from nmt.data.report import SIDES
from nmt.data.segmentation import sampled_segmentation
from nmt.data.tokenizer import Ids, Tokenizers

Links = NDArray[np.float32]
Indices = Sequence[int] | NDArray[Any]
READ = 10_000
"""Texts that are sampled at a time."""


class EncodedCorpus:
    """Ids of every pair, without BOS and EOS.

    Args:
        table: its columns ``source`` and ``target`` are lists of int32.
    """

    def __init__(self, table: pa.Table) -> None:
        self._source = _IdLists(table["source"])
        self._target = _IdLists(table["target"])
        self.source_lengths = self._source.lengths
        """Pieces of each source sentence: (pairs,) int32."""
        self.target_lengths = self._target.lengths
        """Pieces of each target sentence: (pairs,) int32."""

    def __len__(self) -> int:
        return len(self.source_lengths)

    def rows(self, indices: Indices) -> tuple[list[Ids], list[Ids]]:
        """Source and target ids of the pairs at ``indices``, in this order."""
        return self._source.take(indices), self._target.take(indices)

    def links(self, indices: Indices) -> list[Links] | None:
        """The links between the pieces of the pairs at ``indices``; None without links."""
        return None

    def in_epoch(self, epoch: int) -> "EncodedCorpus":
        """The corpus as an epoch of training reads it: the same in all of them."""
        return self


class _IdLists:
    """A column of lists of int32, in which a row is found without copying the column."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        self._values = [chunk.values.to_numpy() for chunk in chunks]
        self._starts = [chunk.offsets.to_numpy() for chunk in chunks]
        self._first_rows = np.cumsum([0, *(len(chunk) for chunk in chunks)])
        self.lengths: NDArray[np.int32] = np.concatenate([np.zeros(0, np.int32), *map(np.diff, self._starts)])

    def take(self, indices: Indices) -> list[Ids]:
        rows = np.asarray(indices, np.int64)
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
        tags: ids of the pieces before the sources of tagged corpora.
        sampling: how segmentations are sampled; None: the best ones.
        seed: of the samples.
        most: pieces of a side at most; a longer sample gives way to the best segmentation.
    """

    def __init__(
        self,
        table: pa.Table,
        tokenizers: Tokenizers,
        *,
        tags: Set[int] = frozenset(),
        sampling: Sampling | None = None,
        seed: int = 0,
        most: int = 0,
    ) -> None:
        super().__init__(table)
        self._table, self._tokenizers, self._tags = table, tokenizers, tags
        self._seed, self._most = seed, most
        self._segmentations = {
            side: sampled_segmentation(tokenizer, sampling)
            for side, tokenizer in tokenizers.sides()
            if sampling is not None and sampling.sides in ("both", side)
        }
        self._links = _IdLists(table["links"]) if "links" in table.column_names else None

    def links(self, indices: Indices) -> list[Links] | None:
        """The links of the pairs at ``indices``, (T, S) each, spread over pieces by :func:`piece_links`.

        A tag has none.
        """
        if self._links is None:
            return None
        spread = []
        for pair, source, target, links in zip(indices, *self.rows(indices), self._links.take(indices), strict=True):
            tag = len(self._tag(source))
            words = [
                piece_words(tokenizer.pieces(ids.tolist()), self._table[f"{side}_text"][int(pair)].as_py())
                for (side, tokenizer), ids in zip(self._tokenizers.sides(), (source[tag:], target), strict=True)
            ]
            spread.append(np.pad(piece_links(links.reshape(-1, 2), *words), ((0, 0), (tag, 0))))
        return spread

    def _tag(self, ids: Any) -> Any:
        """The tag before the pieces of a text: one id, or none."""
        return ids[:1] if len(ids) and int(ids[0]) in self._tags else ids[:0]

    def in_epoch(self, epoch: int) -> EncodedCorpus:
        """The corpus as an epoch of training reads it: with segmentations of its own, in a file without a name."""
        if not self._segmentations:
            return self
        schema, first = self._table.select(SIDES).schema, 0
        with tempfile.NamedTemporaryFile() as file:  # mapped beyond its end
            with pa.ipc.new_stream(file, schema) as writer:
                for batch in self._table.to_batches(max_chunksize=READ):
                    sides = [self._sampled(side, batch, first, epoch) for side in SIDES]
                    writer.write_batch(pa.record_batch(sides, schema))
                    first += len(batch)
            file.flush()
            sampled = mapped(Path(file.name))
        kept = {name: self._table[name] for name in self._table.column_names if name not in SIDES}
        table = pa.table({**{side: sampled[side] for side in SIDES}, **kept})
        return TextCorpus(table, self._tokenizers, tags=self._tags)

    def _sampled(self, side: str, batch: pa.RecordBatch, first: int, epoch: int) -> pa.Array:
        """Sample the texts of a side of a batch whose pairs are numbered from ``first``, if that side is sampled."""
        if side not in self._segmentations:
            return batch[side]
        rows = []
        texts, best = batch[f"{side}_text"].to_pylist(), batch[side].to_pylist()
        for pair, (text, ids) in enumerate(zip(texts, best, strict=True), first):
            number = _number(self._seed, epoch, pair, side)
            sample = self._tag(ids) + self._segmentations[side].sample(text, number)
            rows.append(sample if len(sample) <= self._most else ids)
        return pa.array(rows, batch[side].type)


def _number(*parts: object) -> int:
    """Hash the parts to a number of 64 bits."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


# --- a mix ------------------------------------------------------------------------------------------------------------


def pairs_per_epoch(sizes: Sequence[int], weights: Sequence[float], temperature: float) -> list[int]:
    """How many pairs of each corpus an epoch reads.

    With e_i = w_i n_i for n_i pairs of weight w_i: e_i^(1/T) / sum_j e_j^(1/T) * sum_j e_j, rounded to the nearest
    number (Arivazhagan et al. 2019, section 4.2). With temperature T = 1 that is w_i n_i.
    """
    if temperature == 1:  # the formula would round
        return [round(weight * size) for size, weight in zip(sizes, weights, strict=True)]
    wanted = np.multiply(sizes, weights, dtype=np.float64)
    shares = wanted ** (1 / temperature)
    return [round(count) for count in shares / shares.sum() * wanted.sum()]


def epoch_rows(sizes: Sequence[int], counts: Sequence[int], *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Draw the rows of an epoch from corpora that lie end to end: -> (sum of counts,), corpus by corpus.

    An epoch reads a corpus of n pairs floor(count / n) times, and ``count mod n`` of its pairs once more. These follow
    one random order of the corpus, from where the epoch before has stopped and around its end: after any number of
    epochs two pairs of a corpus have been read equally often, or one of them once more.
    """
    rows, first = [], 0
    for number, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        copies, rest = divmod(count, size)
        rows += [np.arange(first, first + size)] * copies
        if rest:  # a stream of its own: that of the plan begins with (seed, epoch)
            order = np.random.default_rng((seed, number, 1)).permutation(size)
            rows.append(first + order[(epoch * rest + np.arange(rest)) % size])
        first += size
    return np.concatenate(rows)


class DrawnPairs:
    """Rows of a training set, in any order and number."""

    def __init__(self, corpus: EncodedPairs, drawn: NDArray[np.int64]) -> None:
        self._corpus, self._drawn = corpus, drawn
        self.source_lengths, self.target_lengths = corpus.source_lengths[drawn], corpus.target_lengths[drawn]

    def __len__(self) -> int:
        return len(self._drawn)

    def rows(self, indices: Indices) -> tuple[list[Ids], list[Ids]]:
        """Source and target ids of drawn pairs."""
        return self._corpus.rows(self._drawn[np.asarray(indices, np.int64)])

    def links(self, indices: Indices) -> list[Links] | None:
        """Links of drawn pairs, (T, S) each; None without links."""
        return self._corpus.links(self._drawn[np.asarray(indices, np.int64)])

    def in_epoch(self, epoch: int) -> "DrawnPairs":
        """The pairs as an epoch reads them: the same."""
        return self


class MixedCorpus(DrawnPairs):
    """Encoded corpora that lie end to end, of which each epoch reads a part of its own; itself it is all pairs.

    Args:
        corpus: all pairs, corpus after corpus.
        sizes: of the corpora.
        counts: how many pairs of each an epoch reads.
        seed: of the draw.
    """

    def __init__(self, corpus: EncodedCorpus, sizes: Sequence[int], counts: Sequence[int], *, seed: int) -> None:
        super().__init__(corpus, np.arange(len(corpus)))
        self._sizes, self._counts, self._seed = sizes, counts, seed

    def in_epoch(self, epoch: int) -> DrawnPairs:
        """The pairs that an epoch reads, in the order of the corpora; the plan of the epoch shuffles them."""
        rows = epoch_rows(self._sizes, self._counts, seed=self._seed, epoch=epoch)
        return DrawnPairs(self._corpus.in_epoch(epoch), rows)
