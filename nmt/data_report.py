"""What was read, what was dropped and why: counted from the columns that encoding leaves beside each pair."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

KEPT = "kept"
REASONS = (KEPT, "empty", "too_long_words", "too_long_pieces", "ratio")
"""A pair's ``reason`` column is a place in this list; a pair is dropped for the first that applies."""
HISTOGRAM_BIN = 10
"""Source words of one bin of the length histogram: 1-10, 11-20, ..."""

Columns = Mapping[str, NDArray[Any]]
"""Of one split, a row a pair: ``reason``, ``pair_hash``, ``source_hash`` and, for both sides, ``SIDE_words``,
``SIDE_pieces``, ``SIDE_unknown``."""


def make_report(splits: Mapping[str, Columns]) -> dict[str, Any]:
    """The report of all splits; ``train`` must be one, and the overlap of each other split with it is counted."""
    report = {name: _split_report(columns) for name, columns in splits.items()}
    train = splits["train"]
    for name, columns in splits.items():
        if name != "train":
            report[name]["pairs_in_train"] = _overlap(columns, train, "pair_hash")
            report[name]["sources_in_train"] = _overlap(columns, train, "source_hash")
    return {"splits": report}


def _split_report(columns: Columns) -> dict[str, Any]:
    kept = columns["reason"] == REASONS.index(KEPT)
    by_reason = np.bincount(columns["reason"], minlength=len(REASONS))
    counts = {reason: int(count) for reason, count in zip(REASONS, by_reason, strict=True)}
    hashes = columns["pair_hash"][kept]
    return {
        "read": len(kept),
        "kept": counts.pop(KEPT),
        "dropped": counts,
        "source": _side_report(columns, "source", kept),
        "target": _side_report(columns, "target", kept),
        "source_length_histogram": _histogram(columns["source_words"][kept]),
        "repeated_pairs": len(hashes) - len(np.unique(hashes)),
    }


def _side_report(columns: Columns, side: str, kept: NDArray[np.bool_]) -> dict[str, Any]:
    words, pieces, unknown = (int(columns[f"{side}_{count}"][kept].sum()) for count in ("words", "pieces", "unknown"))
    return {"words": words, "pieces": pieces, "unknown_rate": unknown / pieces if pieces else 0.0}


def _histogram(words: NDArray[Any]) -> list[dict[str, int]]:
    """Pairs by source words, from ``low`` to ``high``, both included."""
    pairs = np.bincount((words - 1) // HISTOGRAM_BIN) if len(words) else []
    return [
        {"low": place * HISTOGRAM_BIN + 1, "high": (place + 1) * HISTOGRAM_BIN, "pairs": int(count)}
        for place, count in enumerate(pairs)
    ]


def _overlap(columns: Columns, train: Columns, key: str) -> int:
    kept = columns["reason"] == REASONS.index(KEPT)
    train_kept = train["reason"] == REASONS.index(KEPT)
    return int(np.isin(columns[key][kept], train[key][train_kept]).sum())


def describe(report: Mapping[str, Any]) -> str:
    """The report as a small table for a terminal, without a final line break."""
    splits: dict[str, dict[str, Any]] = report["splits"]
    rows: list[tuple[str, list[str]]] = [("", list(splits))]

    def add(label: str, values: list[Any]) -> None:
        rows.append(
            (label, ["" if value is None else value if isinstance(value, str) else f"{value:,}" for value in values])
        )

    add("pairs read", [split["read"] for split in splits.values()])
    for reason in REASONS[1:]:
        if any(split["dropped"][reason] for split in splits.values()):
            add(f"  dropped: {reason.replace('_', ' ')}", [split["dropped"][reason] for split in splits.values()])
    add("pairs kept", [split["kept"] for split in splits.values()])
    for side in ("source", "target"):
        for count in ("words", "pieces"):
            add(f"{side} {count}", [split[side][count] for split in splits.values()])
        add(f"{side} unknown pieces", [f"{split[side]['unknown_rate']:.2%}" for split in splits.values()])
    add("repeated pairs", [split["repeated_pairs"] for split in splits.values()])
    add("pairs also in train", [split.get("pairs_in_train") for split in splits.values()])
    add("sources also in train", [split.get("sources_in_train") for split in splits.values()])
    bins = max((split["source_length_histogram"] for split in splits.values()), key=len)
    for place, row in enumerate(bins):
        label = f"pairs of {row['low']}-{row['high']} source words"
        histograms = [split["source_length_histogram"] for split in splits.values()]
        add(label, [histogram[place]["pairs"] if place < len(histogram) else 0 for histogram in histograms])
    widths = [max(len(values[column]) for _, values in rows) for column in range(len(splits))]
    first = max(len(label) for label, _ in rows)
    return "\n".join(
        f"{label:<{first}}" + "".join(f"  {value:>{width}}" for value, width in zip(values, widths, strict=True))
        for label, values in rows
    )
