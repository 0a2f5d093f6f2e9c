"""Encoding of a split: an Arrow file with the ids of the kept pairs, in the order of the text, and facts of all pairs.

The file depends on the text and the recipe only.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nmt.config.schema import AnyCorpus, Filter
from nmt.data.corpus import Pair, corpus_name, read_pairs
from nmt.data.links import Link, linked_pairs, piece_links, piece_words
from nmt.data.protection import SHARE
from nmt.data.report import KEPT, REASONS, counts_by_reason
from nmt.data.tokenizer import Tokenizers
from nmt.errors import DataError, of_key
from nmt.messages import Say, silent, step

UNIT = 10_000
"""Pairs that are encoded at a time."""
NUMBERS = pa.list_(pa.int32())
FACTS = pa.schema(
    [("reason", pa.uint8())]
    + [(f"{side}_{unit}", pa.int32()) for side in ("source", "target") for unit in ("words", "pieces", "unknown")]
    + [("pair_hash", pa.int64()), ("source_hash", pa.int64())]
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
    """The piece before each source sentence."""

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
            with of_key(f"data.{key}"), step(f"encoding {key}", None, "pairs") as progress:
                linked = linked_pairs(read_pairs(corpus, *languages), corpus)
                while unit := list(islice(linked, UNIT)):
                    pairs, links = zip(*unit, strict=True)
                    kept, found = encode(pairs, replace(recipe, tag=corpus.tag), seen, threads, links)
                    writer.write_table(kept)
                    units.append(found)
                    progress.advance(len(found))
                facts[key] = pa.concat_tables(units)
                counts = counts_by_reason(facts[key])
                if not counts.pop(KEPT):
                    reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
                    raise DataError(f"{corpus_name(corpus)}: all pairs were dropped ({reasons}); see data.filter")
    return facts


def encode(
    pairs: Sequence[Pair], recipe: Recipe, seen: set[int], threads: int = 1, links: Sequence[set[Link]] = ()
) -> tuple[pa.Table, pa.Table]:
    """Encode pairs and their links: -> the kept ones, and facts of all. ``seen`` collects hashes of pairs if repeated
    ones are dropped: about 100 bytes each."""
    columns: dict[str, Sequence[Any]] = {}
    facts: dict[str, Sequence[int]] = {}
    places: list[list[list[int]]] = []
    protection, share = recipe.tokenizers.protection, SHARE if recipe.rule else 0.0
    hidden = zip(*(protection.hide_pair(*pair, share) for pair in pairs), strict=True)
    for (side, tokenizer), texts in zip(recipe.tokenizers.sides(), map(list, hidden), strict=True):
        ids = tokenizer.encode(texts, threads)
        if recipe.links:
            places.append([piece_words(tokenizer.pieces(row), text) for row, text in zip(ids, texts, strict=True)])
        if side == "source" and recipe.tag is not None:
            tag = tokenizer.piece_id(recipe.tag)
            ids = [[tag, *row] if row else row for row in ids]
        columns |= {side: ids, f"{side}_text": texts if recipe.rule else [getattr(pair, side) for pair in pairs]}
        facts[f"{side}_words"] = [len(text.split()) for text in texts]
        facts[f"{side}_pieces"] = [len(row) for row in ids]
        facts[f"{side}_unknown"] = [row.count(tokenizer.unk_id) for row in ids]
    if recipe.links:
        first = [] if recipe.tag is None else [-1]  # a tag is part of no word
        columns["links"] = [piece_links(each, first + s, t) for each, s, t in zip(links, *places, strict=True)]
    facts["pair_hash"] = [text_hash("\n".join(pair)) for pair in pairs]
    facts["source_hash"] = [text_hash(pair.source) for pair in pairs]
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
