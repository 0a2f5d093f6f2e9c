"""Encoded corpora: text to Arrow files of ids, and, mapped into memory, the pairs that each epoch of training reads.

A file has the ids of the kept pairs, in the order of the text, and depends only on text and recipe. Pure functions make
an epoch: segmentation, of (seed, epoch, pair, side); choice of pairs, of (parts, seed, epoch).
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nmt.config.schema import AnyCorpus, Filter, Rough
from nmt.data.corpus import Pair, corpus_name, read_pairs
from nmt.data.glossary import Glossary
from nmt.data.links import Link, linked_pairs, piece_links, piece_words
from nmt.data.protection import SHARE
from nmt.data.report import KEPT, REASONS, SIDES, counts_by_reason
from nmt.data.rough import roughened
from nmt.data.tokenizer import BpeDropout, Ids, Tokenizers
from nmt.errors import DataError, of_key
from nmt.messages import Say, progress_bar, silent

UNIT = 10_000
"""Pairs that are encoded at a time."""
NUMBERS = pa.list_(pa.int32())
FACTS = pa.schema(
    [("reason", pa.uint8())]
    + [(f"{side}_{unit}", pa.int32()) for side in SIDES for unit in ("words", "pieces", "unknown")]
    + [("pair_hash", pa.int64()), ("source_hash", pa.int64()), ("spans_differ", pa.bool_()), ("terms", pa.bool_())]
)


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
    """Store the links of pieces: source piece, target piece, ..."""
    tag: str | None = None
    """The piece before each source sentence without a tag."""
    glossary: Glossary | None = None
    """Terms that an epoch shows in some pairs."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the kept pairs."""
        text = [("source_text", pa.string()), ("target_text", pa.string())] if self.text else []
        links = [("links", NUMBERS)] if self.links else []
        return pa.schema([("source", NUMBERS), ("target", NUMBERS), *text, *links])


def encode_split(
    path: Path,
    corpora: Mapping[str, AnyCorpus],
    languages: tuple[str, str],
    recipe: Recipe,
    threads: int = 1,
    say: Say = silent,
) -> dict[str, pa.Table]:
    """Write the kept pairs of a split to a new file, corpus after corpus; return facts of all pairs of each corpus, 41
    bytes a pair.

    The corpora come by their keys in the section ``data``. Raises DataError as :func:`read_pairs` and
    :func:`linked_pairs` do, and for a corpus of which no pair is kept.
    """
    facts = {}
    with path.open("wb") as file, pa.ipc.new_stream(file, recipe.schema) as writer:
        for key, corpus in corpora.items():
            say(f"encoding {key}: {corpus_name(corpus)}")
            units, seen = [], set[int]()
            with of_key(f"data.{key}"), progress_bar(f"encoding {key}", None, "pairs") as progress:
                linked = linked_pairs(read_pairs(corpus, *languages), corpus)
                while unit := list(islice(linked, UNIT)):
                    pairs, links = zip(*unit, strict=True)
                    kept, found = encode(pairs, replace(recipe, tag=corpus.tag or recipe.tag), seen, threads, links)
                    writer.write_table(kept)
                    units.append(found)
                    progress.advance(len(found))
                facts[key] = pa.concat_tables(units)
                counts = counts_by_reason(facts[key])
                if not counts.pop(KEPT):
                    reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
                    advice = "; see data.filter" if recipe.rule else ""
                    raise DataError(f"{corpus_name(corpus)}: all pairs were dropped ({reasons}){advice}")
    return facts


def encode(
    pairs: Sequence[Pair], recipe: Recipe, seen: set[int], threads: int = 1, links: Sequence[set[Link]] = ()
) -> tuple[pa.Table, pa.Table]:
    """Encode pairs and their links: -> the kept ones, and facts of all. ``seen`` collects hashes of pairs if repeated
    ones are dropped: about 100 bytes each."""
    columns: dict[str, Sequence[Any]] = {}
    facts: dict[str, Sequence[int]] = {}
    places: list[list[list[int]]] = []
    share = SHARE if recipe.rule else 0.0
    hidden = [recipe.tokenizers.hide(*pair, share=share) for pair in pairs]
    for place, (side, tokenizer) in enumerate(recipe.tokenizers.sides()):
        texts, read = [pair[place] for pair in pairs], [each.texts[place] for each in hidden]
        ids = tokenizer.encode(read, threads)
        if side == "source":
            ids = [recipe.tokenizers.tagged(row, recipe.tag) for row in ids]
        if recipe.links:
            spelled = (tokenizer.pieces(row, each.spans) for row, each in zip(ids, hidden, strict=True))
            places.append(list(map(piece_words, spelled, texts)))
        columns |= {side: ids, f"{side}_text": read if recipe.rule else texts}
        facts[f"{side}_words"] = [len(text.split()) for text in texts]
        facts[f"{side}_pieces"] = [len(row) for row in ids]
        facts[f"{side}_unknown"] = [row.count(tokenizer.unk_id) for row in ids]
    if recipe.links:
        columns["links"] = list(map(piece_links, links, *places))
    facts["pair_hash"] = [text_hash("\n".join(pair)) for pair in pairs]
    facts["source_hash"] = [text_hash(pair.source) for pair in pairs]
    facts["spans_differ"] = [each.differ for each in hidden]
    facts["terms"] = [recipe.glossary is not None and recipe.glossary.fits(pair) for pair in pairs]
    repeats = [False] * len(pairs)
    if recipe.rule is not None and recipe.rule.duplicates:
        for place, each in enumerate(facts["pair_hash"]):
            repeats[place] = each in seen
            seen.add(each)
    words, pieces = (zip(facts[f"source_{unit}"], facts[f"target_{unit}"], strict=True) for unit in ("words", "pieces"))
    found = [reason(*each, recipe.rule) for each in zip(pairs, words, pieces, repeats, strict=True)]
    facts["reason"] = [REASONS.index(KEPT if recipe.whole else each) for each in found]
    kept = np.flatnonzero(np.array(facts["reason"]) == REASONS.index(KEPT))
    table = pa.table({name: columns[name] for name in recipe.schema.names}, recipe.schema)
    return table.take(kept), pa.table({name: facts[name] for name in FACTS.names}, FACTS)


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


def mapped(path: Path) -> pa.Table:
    """Map an Arrow file into memory."""
    return pa.ipc.open_stream(pa.memory_map(os.fsencode(path))).read_all()


# --- epochs -----------------------------------------------------------------------------------------------------------

Indices = Sequence[int] | NDArray[Any]
Parts = Sequence[tuple[int, int]]
Encode = Callable[[str, int], list[int]]
"""A text and a seed -> its ids."""


class EncodedCorpus:
    """Pairs of ids, without BOS and EOS: the ``drawn`` rows of a table, in any order and number, or all.

    Its columns ``source`` and ``target`` are lists of int32. So is ``links``, if there are any.
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


class TrainingSet(EncodedCorpus):
    """All pairs of the training corpora, corpus after corpus, from which each epoch reads its own.

    ``dropout`` is the share of merges that a segmentation leaves out, ``rough`` has the shares of pairs whose source
    is changed, and some sources show terms of the glossary of their ``recipe``. All are drawn again in each epoch; the
    table then has the text of both sides, too. ``parts`` are the pairs of each corpus of a mix, and how many of them an
    epoch reads. All draws follow from the ``seed``.
    """

    def __init__(
        self,
        table: pa.Table,
        recipe: Recipe,
        *,
        dropout: float = 0.0,
        rough: Rough | None = None,
        parts: Parts = (),
        seed: int = 0,
    ) -> None:
        super().__init__(table)
        self._table, self._rough, self._parts, self._seed = table, rough, parts, seed
        tokenizers, self._glossary = recipe.tokenizers, recipe.glossary
        self._tags, self._parted, self._encode = {*tokenizers.tags}, tokenizers.protection.parted, dict[str, Encode]()
        if dropout:
            self._encode |= {side: BpeDropout(each, dropout).sample for side, each in tokenizers.sides()}
        elif rough is not None or self._glossary is not None:
            self._encode["source"] = lambda text, _: tokenizers.source.encode([text])[0]

    def in_epoch(self, epoch: int) -> EncodedCorpus:
        """The pairs that an epoch reads, in the order of the corpora, changed and segmented for it."""
        if all(size == count for size, count in self._parts):
            return EncodedCorpus(self._sampled(epoch, np.arange(len(self)))) if self._encode else self
        drawn = epoch_rows(self._parts, seed=self._seed, epoch=epoch)
        if not self._encode:
            return EncodedCorpus(self._table, drawn)
        pairs = np.unique(drawn)
        return EncodedCorpus(self._sampled(epoch, pairs), np.searchsorted(pairs, drawn))

    def _sampled(self, epoch: int, pairs: NDArray[np.int64]) -> pa.Table:
        """The ids of these pairs in an epoch, in a temporary file. Raises DataError if it cannot be written."""
        schema, first = self._table.select(SIDES).schema, 0
        try:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # Windows keeps mapped files
                path = Path(folder, "epoch")
                with pa.ipc.new_stream(str(path), schema) as writer:
                    for batch in self._table.to_batches(max_chunksize=UNIT):
                        numbers = pairs[slice(*np.searchsorted(pairs, [first, first + len(batch)]))]
                        chosen = batch.take(pa.array(numbers - first))
                        sides = [self._sampled_side(side, chosen, numbers.tolist(), epoch) for side in SIDES]
                        writer.write_batch(pa.record_batch(sides, schema))
                        first += len(batch)
                return mapped(path)
        except OSError as error:
            key = "data.rough" if self._rough else "data.glossary" if self._glossary else "tokenizer.dropout"
            raise DataError(f"{key}: cannot write an epoch: {error}; let TMPDIR name a directory with space") from None

    def _sampled_side(self, side: str, batch: pa.RecordBatch, numbers: list[int], epoch: int) -> pa.Array:
        """Change and encode the texts of a side of pairs with these numbers."""
        if side not in self._encode:
            return batch[side]
        rows, encode = [], self._encode[side]
        columns = [batch[name].to_pylist() for name in (side, f"{side}_text", "target_text")]
        for pair, ids, text, target in zip(numbers, *columns, strict=True):
            number = text_hash(repr((self._seed, epoch, pair, side)))
            tag = ids[:1] if side == "source" and ids and ids[0] in self._tags else []
            text = self._parted(text)[1] if tag else text  # noqa: PLW2901
            if side == "source" and (self._glossary or self._rough):
                choice = Random(number)
                text = self._glossary.shown(Pair(text, target), choice) if self._glossary else text  # noqa: PLW2901
                text = roughened(text, self._rough, choice) if self._rough else text  # noqa: PLW2901
                number = choice.getrandbits(63)  # another stream for the segmentation
            rows.append(tag + encode(text, number))
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
