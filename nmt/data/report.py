"""Report on the data: pairs read and dropped by reason, lengths, unknown pieces, overlap of splits.

Counts are sums over parts of a split, and hashes are read part by part, so that memory does not grow with the corpus,
except for one byte a pair while repeated pairs are counted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nmt.data.tokenizer import Tokenizers

KEPT = "kept"
REASONS = (KEPT, "empty", "too_long_words", "too_long_pieces", "ratio", "copy", "script", "duplicate")
"""The ``reason`` of a pair is an index into this list: the first reason that applies."""
SIDES = ("source", "target")
HISTOGRAM = "source_length_histogram"
HISTOGRAM_BIN = 10
"""Width of a bin of the length histogram in source words: 1-10, 11-20, ..."""
COMPARED = 1 << 21
"""Hashes that are sorted at a time, about 50 bytes each."""

Hashes = NDArray[np.int64]
"""Hashes of pairs and of their sources: (pairs, 2)"""


@dataclass(frozen=True)
class Counts:
    """Numbers of a part of a split: sums, so that the counts of two parts add up."""

    reasons: NDArray[np.int64]
    """Pairs by reason: (reasons,)"""
    sides: NDArray[np.int64]
    """Words, pieces and unknown pieces of the kept pairs, for both sides: (2, 3)"""
    histogram: NDArray[np.int64]
    """Kept pairs by source words, ``HISTOGRAM_BIN`` to a bin; a blank source is in none: (bins,)"""

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[int] | NDArray[Any]]) -> Self:
        """Count columns with a row per pair: ``reason`` and, for both sides, ``SIDE_words``, ``SIDE_pieces``,
        ``SIDE_unknown``."""
        arrays = {name: np.asarray(column, np.int64) for name, column in columns.items()}
        kept = arrays["reason"] == REASONS.index(KEPT)
        sums = [[int(arrays[f"{side}_{unit}"][kept].sum()) for unit in UNITS] for side in SIDES]
        words = arrays["source_words"][kept]
        return cls(
            np.bincount(arrays["reason"], minlength=len(REASONS)),
            np.array(sums, np.int64),
            np.bincount((words[words > 0] - 1) // HISTOGRAM_BIN),
        )

    def __add__(self, other: Self) -> Self:
        bins = max(len(self.histogram), len(other.histogram))
        histograms = (np.pad(each.histogram, (0, bins - len(each.histogram))) for each in (self, other))
        return type(self)(self.reasons + other.reasons, self.sides + other.sides, sum(histograms))  # type: ignore[arg-type]

    @property
    def kept(self) -> int:
        """Number of kept pairs."""
        return int(self.reasons[REASONS.index(KEPT)])

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"reasons": self.reasons.tolist(), "sides": self.sides.tolist(), "histogram": self.histogram.tolist()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` returns."""
        return cls(*(np.array(value[name], np.int64) for name in ("reasons", "sides", "histogram")))


UNITS = ("words", "pieces", "unknown")


class Counted(NamedTuple):
    """What the report needs of a split."""

    counts: Counts
    hashes: Callable[[], Iterable[Hashes]]
    """The hashes of the kept pairs, part by part; called more than once."""

    @classmethod
    def sum(cls, parts: Sequence[Self]) -> Self:
        """Several splits as one."""

        def hashes() -> Iterator[Hashes]:
            for part in parts:
                yield from part.hashes()

        return cls(reduce(Counts.__add__, (part.counts for part in parts)), hashes)


def make_report(
    splits: Mapping[str, Counted], tokenizers: Tokenizers, corpora: Mapping[str, Counted] | None = None
) -> dict[str, Any]:
    """Make the report of all splits, as JSON values; those without ``train`` also count pairs and sources in it.

    ``corpora`` are those of a mix, by name.
    """
    report = {name: _split_report(split) for name, split in splits.items()}
    for name, split in splits.items():
        if name != "train":
            in_train = _overlap(split, splits["train"])
            report[name] |= dict(zip(("pairs_in_train", "sources_in_train"), in_train, strict=True))
    vocabulary = {"source": tokenizers.source.size, "target": tokenizers.target.size}
    parts = {name: _split_report(corpus) for name, corpus in (corpora or {}).items()}
    return {"vocabulary": vocabulary, "splits": report} | ({"corpora": parts} if parts else {})


def _split_report(split: Counted) -> dict[str, Any]:
    counts = split.counts
    dropped = dict(zip(REASONS, counts.reasons.tolist(), strict=True))
    return {
        "read": int(counts.reasons.sum()),
        "kept": dropped.pop(KEPT),
        "dropped": dropped,
        **{side: _side_report(row) for side, row in zip(SIDES, counts.sides.tolist(), strict=True)},
        HISTOGRAM: [
            {"low": place * HISTOGRAM_BIN + 1, "high": (place + 1) * HISTOGRAM_BIN, "pairs": count}
            for place, count in enumerate(counts.histogram.tolist())
        ],
        "repeated_pairs": int(repeated(lambda: (part[:, 0] for part in split.hashes()), counts.kept).sum()),
    }


def _side_report(sums: Sequence[int]) -> dict[str, Any]:
    words, pieces, unknown = sums
    return {"words": words, "pieces": pieces, "unknown_rate": unknown / max(1, pieces)}


def repeated(parts: Callable[[], Iterable[NDArray[np.int64]]], total: int) -> NDArray[np.bool_]:
    """Which of the hashes in ``parts`` stand there before: -> (total,).

    The hashes are compared in groups of equal remainders, so that about ``COMPARED`` are in memory at a time.
    """
    again = np.zeros(total, bool)
    groups = max(1, -(-total // COMPARED))
    for group in range(groups):
        places, values, first = [], [], 0
        for part in parts():
            chosen = np.flatnonzero(part % groups == group)
            places.append(first + chosen)
            values.append(part[chosen])
            first += len(part)
        if places:
            _, firsts = np.unique(np.concatenate(values), return_index=True)
            again[np.delete(np.concatenate(places), firsts)] = True
    return again


def _overlap(split: Counted, train: Counted) -> tuple[int, int]:
    """How many pairs, and how many sources, of a split are in the training set."""
    own = np.concatenate([np.zeros((0, 2), np.int64), *split.hashes()])
    found = np.zeros(own.shape, bool)
    for part in train.hashes():
        for column in (0, 1):
            found[:, column] |= np.isin(own[:, column], part[:, column])
    pairs, sources = found.sum(0).tolist()
    return pairs, sources


def describe(report: Mapping[str, Any]) -> str:
    """Format the report for a terminal: a table, and the sizes of the vocabularies."""
    vocabulary = report["vocabulary"]
    return f"{table(report)}\nvocabulary: {vocabulary['source']:,} source, {vocabulary['target']:,} target pieces"


def table(report: Mapping[str, Any]) -> str:
    """Format the counts of the report, with a column per split and per corpus of a mix."""
    corpora = {f"corpora.{name}": part for name, part in report.get("corpora", {}).items()}
    columns: dict[str, dict[str, Any]] = report["splits"] | corpora
    splits = list(columns.values())
    rows = [("", list(columns))]

    def add(label: str, values: Iterable[int | None]) -> None:
        rows.append((label, ["" if value is None else f"{value:,}" for value in values]))

    add("pairs read", (split["read"] for split in splits))
    for reason in REASONS[1:]:
        if any(split["dropped"][reason] for split in splits):
            add(f"  dropped: {reason.replace('_', ' ')}", (split["dropped"][reason] for split in splits))
    add("pairs kept", (split["kept"] for split in splits))
    if "corpora" in report:
        add("pairs in an epoch", (split.get("pairs_in_epoch") for split in splits))
    add("repeated pairs", (split["repeated_pairs"] for split in splits))
    add("pairs also in train", (split.get("pairs_in_train") for split in splits))
    add("sources also in train", (split.get("sources_in_train") for split in splits))
    for side in ("source", "target"):
        add(f"{side} words", (split[side]["words"] for split in splits))
        add(f"{side} pieces", (split[side]["pieces"] for split in splits))
        rows.append((f"{side} pieces unknown", [f"{split[side]['unknown_rate']:.2%}" for split in splits]))
    histograms = [{(row["low"], row["high"]): row["pairs"] for row in split[HISTOGRAM]} for split in splits]
    for low, high in sorted(set().union(*histograms)):
        add(f"pairs of {low}-{high} source words", (histogram.get((low, high), 0) for histogram in histograms))

    widths = [max(map(len, column)) for column in zip(*(cells for _, cells in rows), strict=True)]
    margin = max(len(label) for label, _ in rows)
    return "\n".join(
        f"{label:<{margin}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        for label, cells in rows
    )
