"""Encoding of text: ids, counts, hashes, and the reason for which a pair is dropped."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nmt.config.schema import Filter
from nmt.config.scripts import scripts_of
from nmt.data.language_id import script_share
from nmt.data.report import KEPT, REASONS, SIDES, Counts, Hashes
from nmt.data.tokenizer import Tokenizers

ENCODE_BATCH = 1_000
"""Pairs that are encoded at a time."""
NUMBERS = pa.list_(pa.int32())

Texts = Mapping[str, Sequence[str]]
"""Columns ``source_text`` and ``target_text``."""


@dataclass(frozen=True)
class Recipe:
    """How the pairs of a split are encoded."""

    tokenizers: Tokenizers
    languages: tuple[str, str]
    rule: Filter | None = None
    """Which pairs are dropped; None: empty ones alone."""
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
        """The columns of a table."""
        text = [("source_text", pa.string()), ("target_text", pa.string())] if self.text else []
        links = [("links", NUMBERS)] if self.links else []
        return pa.schema([("source", NUMBERS), ("target", NUMBERS), *text, *links])


def encode_rows(
    rows: Mapping[str, Sequence[Any]], repeats: Sequence[bool], recipe: Recipe
) -> tuple[pa.Table, Counts, Hashes]:
    """Encode columns of text, and links if the recipe has them; -> kept rows, counts of all, hashes of the kept ones.

    ``repeats`` says of each pair whether it repeats an earlier one.
    """
    tables, hashes = [recipe.schema.empty_table()], [np.zeros((0, 2), np.int64)]
    counts = Counts.of(dict.fromkeys(COLUMNS, ()))
    for first in range(0, len(repeats), ENCODE_BATCH):
        part = slice(first, first + ENCODE_BATCH)
        batch = {name: column[part] for name, column in rows.items()}
        columns = encode_batch(batch, recipe, repeats[part])
        kept = np.flatnonzero(np.array(columns["reason"]) == REASONS.index(KEPT))
        whole = {**batch, "source": columns["source"], "target": columns["target"]}
        table = pa.table({name: whole[name] for name in recipe.schema.names}, recipe.schema)
        tables.append(table.take(kept))
        hashes.append(np.array([columns["pair_hash"], columns["source_hash"]], np.int64).T[kept])
        counts += Counts.of({name: columns[name] for name in COLUMNS})
    return pa.concat_tables(tables), counts, np.concatenate(hashes)


COLUMNS = ("reason", *(f"{side}_{unit}" for side in SIDES for unit in ("words", "pieces", "unknown")))
"""The columns that :class:`nmt.data.report.Counts` counts."""


def encode_batch(batch: Texts, recipe: Recipe, repeats: Sequence[bool]) -> dict[str, list[Any]]:
    """Ids, counts and hashes of a batch of texts, and the reason for which each pair is dropped or kept."""
    texts = {side: batch[f"{side}_text"] for side in SIDES}
    columns: dict[str, list[Any]] = {}
    for side, tokenizer in recipe.tokenizers.sides():
        ids = tokenizer.encode(texts[side])
        if side == "source" and recipe.tag is not None:
            tag = tokenizer.piece_id(recipe.tag)
            ids = [[tag, *row] if row else row for row in ids]
        columns[side] = ids
        columns[f"{side}_words"] = [len(text.split()) for text in texts[side]]
        columns[f"{side}_pieces"] = [len(row) for row in ids]
        columns[f"{side}_unknown"] = [row.count(tokenizer.unk_id) for row in ids]
    words = zip(columns["source_words"], columns["target_words"], strict=True)
    pieces = zip(columns["source_pieces"], columns["target_pieces"], strict=True)
    pairs = list(zip(*texts.values(), strict=True))
    found = (_reason_of(recipe, *each) for each in zip(pairs, words, pieces, repeats, strict=True))
    columns["reason"] = list(map(REASONS.index, found))
    columns["source_hash"] = list(map(text_hash, texts["source"]))
    columns["pair_hash"] = [pair_hash(*pair) for pair in pairs]
    return columns


def _reason_of(
    recipe: Recipe, pair: tuple[str, str], words: tuple[int, int], pieces: tuple[int, int], repeats: bool
) -> str:
    if recipe.whole:
        return KEPT
    found = reason(words, pieces, recipe.rule)
    if found != KEPT or recipe.rule is None:
        return found
    return text_reason(pair, repeats, recipe.rule, recipe.languages)


def reason(words: tuple[int, int], pieces: tuple[int, int], rule: Filter | None) -> str:
    """The first of ``REASONS`` that applies to a pair with these numbers of words and pieces."""
    if not all(words + pieces):
        return "empty"
    if rule is None:
        return KEPT
    if rule.max_words is not None and max(words) > rule.max_words:
        return "too_long_words"
    if max(pieces) > rule.max_pieces:
        return "too_long_pieces"
    if rule.max_ratio is not None and max(words) > rule.max_ratio * min(words):
        return "ratio"
    return KEPT


def text_reason(pair: tuple[str, str], repeats: bool, rule: Filter, languages: tuple[str, str]) -> str:
    """The first of the other ``REASONS`` that applies to a pair, by its text."""
    if rule.copies and len({" ".join(text.casefold().split()) for text in pair}) == 1:
        return "copy"
    if rule.script is not None:
        scripts = map(scripts_of, languages)
        if any(script_share(text, own) < rule.script for text, own in zip(pair, scripts, strict=True)):
            return "script"
    return "duplicate" if rule.duplicates and repeats else KEPT


def pair_hash(source: str, target: str) -> int:
    """A hash of a pair, in 64 bits: of 36 million pairs, two that differ share one with a probability of 0.00004."""
    return text_hash(f"{source}\n{target}")


def text_hash(text: str) -> int:
    """A hash of a text, in 64 bits."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)
