"""Report on the data: pairs read and dropped by reason, lengths, unknown pieces, overlap of splits."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.tokenizer import Tokenizers

KEPT = "kept"
REASONS = (KEPT, "empty", "too_long_words", "too_long_pieces", "ratio")
"""The ``reason`` of a pair is an index into this list: the first reason that applies."""
HISTOGRAM = "source_length_histogram"
HISTOGRAM_BIN = 10
"""Width of a bin of the length histogram in source words: 1-10, 11-20, ..."""

Columns = Mapping[str, NDArray[Any]]
"""Columns of one split, a row per pair: ``reason``, ``pair_hash``, ``source_hash`` and, for both sides, ``SIDE_words``,
``SIDE_pieces``, ``SIDE_unknown``."""


def make_report(splits: Mapping[str, Columns], tokenizers: Tokenizers) -> dict[str, Any]:
    """Make the report of all splits, as JSON values; those without ``train`` also count pairs and sources in it."""
    report = {name: _split_report(columns) for name, columns in splits.items()}
    train = splits["train"]
    for name, columns in splits.items():
        if name != "train":
            report[name]["pairs_in_train"] = _overlap(columns, train, "pair_hash")
            report[name]["sources_in_train"] = _overlap(columns, train, "source_hash")
    vocabulary = {"source": tokenizers.source.size, "target": tokenizers.target.size}
    return {"vocabulary": vocabulary, "splits": report}


def _split_report(columns: Columns) -> dict[str, Any]:
    kept = columns["reason"] == REASONS.index(KEPT)
    counts = dict(zip(REASONS, np.bincount(columns["reason"], minlength=len(REASONS)).tolist(), strict=True))
    hashes = columns["pair_hash"][kept]
    return {
        "read": len(kept),
        "kept": counts.pop(KEPT),
        "dropped": counts,
        "source": _side_report(columns, "source", kept),
        "target": _side_report(columns, "target", kept),
        HISTOGRAM: _histogram(columns["source_words"][kept]),
        "repeated_pairs": len(hashes) - len(np.unique(hashes)),
    }


def _side_report(columns: Columns, side: str, kept: NDArray[np.bool_]) -> dict[str, Any]:
    words, pieces, unknown = (int(columns[f"{side}_{count}"][kept].sum()) for count in ("words", "pieces", "unknown"))
    return {"words": words, "pieces": pieces, "unknown_rate": unknown / max(1, pieces)}


def _histogram(words: NDArray[Any]) -> list[dict[str, int]]:
    """Count pairs by source words, from ``low`` to ``high`` inclusive; a blank source is in no bin."""
    pairs = np.bincount((words[words > 0] - 1) // HISTOGRAM_BIN)
    return [
        {"low": place * HISTOGRAM_BIN + 1, "high": (place + 1) * HISTOGRAM_BIN, "pairs": int(count)}
        for place, count in enumerate(pairs)
    ]


def _overlap(columns: Columns, train: Columns, key: str) -> int:
    kept = columns["reason"] == REASONS.index(KEPT)
    train_kept = train["reason"] == REASONS.index(KEPT)
    return int(np.isin(columns[key][kept], train[key][train_kept]).sum())


def describe(report: Mapping[str, Any]) -> str:
    """Format the report as a table for a terminal, with a column per split."""
    splits: list[dict[str, Any]] = list(report["splits"].values())
    rows = [("", list(report["splits"]))]

    def add(label: str, values: Iterable[int | None]) -> None:
        rows.append((label, ["" if value is None else f"{value:,}" for value in values]))

    add("pairs read", (split["read"] for split in splits))
    for reason in REASONS[1:]:
        if any(split["dropped"][reason] for split in splits):
            add(f"  dropped: {reason.replace('_', ' ')}", (split["dropped"][reason] for split in splits))
    add("pairs kept", (split["kept"] for split in splits))
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
    lines = [
        f"{label:<{margin}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        for label, cells in rows
    ]
    vocabulary = report["vocabulary"]
    return "\n".join([*lines, f"vocabulary: {vocabulary['source']:,} source, {vocabulary['target']:,} target pieces"])
