"""Encoded corpora, memory-mapped: rows of ids, links of pieces, and the batches of a validation."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nmt.data.batching import Batch, Plan, Rows, Specials, collate, plan_by_length
from nmt.data.tokenizer import Ids

Indices = Sequence[int] | NDArray[Any]


class EncodedCorpus:
    """Pairs of ids, without BOS and EOS: the rows of a table, in any order and number.

    Args:
        table: its columns ``source`` and ``target`` are lists of int32. So is ``links``, if there are any.
        drawn: the rows; None: all.
    """

    def __init__(self, table: pa.Table, drawn: NDArray[np.int64] | None = None) -> None:
        self._source, self._target = _IdLists(table["source"], drawn), _IdLists(table["target"], drawn)
        self._links = _IdLists(table["links"], drawn) if "links" in table.column_names else None
        self.source_lengths = self._source.lengths
        """Pieces of each source sentence: (pairs,) int32."""
        self.target_lengths = self._target.lengths
        """Pieces of each target sentence: (pairs,) int32."""

    def __len__(self) -> int:
        return len(self.source_lengths)

    def rows(self, indices: Indices) -> tuple[list[Ids], list[Ids]]:
        """Source and target ids of the pairs at ``indices``, in this order."""
        return self._source.take(indices), self._target.take(indices)

    def links(self, indices: Indices) -> list[Ids] | None:
        """The links of the pairs at ``indices``: source piece, target piece, ...; None without links."""
        return None if self._links is None else self._links.take(indices)


class _IdLists:
    """The rows ``drawn`` of a column of lists of int32, or all; one is found without copying the column."""

    def __init__(self, column: pa.ChunkedArray, drawn: NDArray[np.int64] | None) -> None:
        self._drawn = drawn
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        self._values = [chunk.values.to_numpy() for chunk in chunks]
        self._starts = [chunk.offsets.to_numpy() for chunk in chunks]
        self._first_rows = np.cumsum([0, *(len(chunk) for chunk in chunks)])
        lengths = np.concatenate([np.zeros(0, np.int32), *map(np.diff, self._starts)])
        self.lengths: NDArray[np.int32] = lengths if drawn is None else lengths[drawn]

    def take(self, indices: Indices) -> list[Ids]:
        rows = np.asarray(indices if self._drawn is None else self._drawn[indices], np.int64)
        chunks = np.searchsorted(self._first_rows, rows, side="right") - 1
        places = rows - self._first_rows[chunks]
        return [
            self._values[chunk][self._starts[chunk][place] : self._starts[chunk][place + 1]]
            for chunk, place in zip(chunks.tolist(), places.tolist(), strict=True)
        ]


class FirstPieces:
    """A corpus with both sides of each pair cut to their first ``most`` pieces."""

    def __init__(self, corpus: EncodedCorpus, most: int) -> None:
        self._corpus, self._most = corpus, most
        self.source_lengths: Ids = np.minimum(corpus.source_lengths, most)
        self.target_lengths: Ids = np.minimum(corpus.target_lengths, most)
        self.cut = int((np.maximum(corpus.source_lengths, corpus.target_lengths) > most).sum())
        """Number of pairs with a longer side."""

    def plan(self, batch_tokens: int) -> Plan:
        """Batches of every pair once, by length."""
        return plan_by_length(self.source_lengths, self.target_lengths, batch_tokens)

    def batches(self, specials: Specials, plan: Sequence[Rows]) -> Iterator[Batch]:
        """The batches of a plan. A target that is cut ends with its next piece instead of EOS."""
        for rows in plan:
            sources, targets = self._corpus.rows(rows)
            batch = collate([row[: self._most] for row in sources], [row[: self._most] for row in targets], specials)
            for place, target in enumerate(targets):
                if len(target) > self._most:
                    batch.target_output[place, self._most] = int(target[self._most])
            yield batch
