"""Report on the data: pairs read and dropped by reason, lengths, unknown pieces, overlap of splits."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nmt.data.tokenizer import Tokenizers
from nmt.messages import aligned

KEPT = "kept"
REASONS = (KEPT, "empty", "too_long_words", "too_long_pieces", "ratio", "copy", "duplicate")
"""The ``reason`` of a pair is an index into this list: the first reason that applies."""
SIDES = ("source", "target")
HISTOGRAM = "source_length_histogram"
HISTOGRAM_BIN = 10
"""Width of a bin of the length histogram in source words: 1-10, 11-20, ..."""


def make_report(facts: Mapping[str, Mapping[str, pa.Table]], tokenizers: Tokenizers) -> dict[str, Any]:
    """Make the report of all splits, as JSON values, from facts of the pairs of each corpus of each split."""
    splits = {name: pa.concat_tables(tables.values()) for name, tables in facts.items()}
    report = {name: _split_report(table) for name, table in splits.items()}
    for name, table in splits.items():
        if name != "train":
            for key, column in (("pairs_in_train", "pair_hash"), ("sources_in_train", "source_hash")):
                found = np.isin(_kept(table, column), _kept(splits["train"], column))
                report[name][key] = int(found.sum())
    vocabulary = {"source": tokenizers.source.size, "target": tokenizers.target.size}
    mixed = {key.partition(".")[2]: _split_report(table) for key, table in facts["train"].items() if key != "train"}
    return {"vocabulary": vocabulary, "splits": report} | ({"corpora": mixed} if mixed else {})


def counts_by_reason(facts: pa.Table) -> dict[str, int]:
    """Count the pairs by reason, the kept ones among them."""
    counts = np.bincount(facts["reason"].to_numpy(), minlength=len(REASONS))
    return dict(zip(REASONS, counts.tolist(), strict=True))


def _kept(facts: pa.Table, column: str) -> NDArray[Any]:
    return np.asarray(facts[column].to_numpy()[facts["reason"].to_numpy() == REASONS.index(KEPT)])


def _split_report(facts: pa.Table) -> dict[str, Any]:
    dropped = counts_by_reason(facts)
    words = _kept(facts, "source_words")
    histogram = np.bincount((words[words > 0] - 1) // HISTOGRAM_BIN)
    return {
        "read": len(facts),
        "kept": (kept := dropped.pop(KEPT)),
        "dropped": dropped,
        **{side: _side_report(facts, side) for side in SIDES},
        HISTOGRAM: [
            {"low": place * HISTOGRAM_BIN + 1, "high": (place + 1) * HISTOGRAM_BIN, "pairs": count}
            for place, count in enumerate(histogram.tolist())
        ],
        "repeated_pairs": kept - len(np.unique(_kept(facts, "pair_hash"))),
        "spans_differ": int(_kept(facts, "spans_differ").sum()),
        "terms": int(_kept(facts, "terms").sum()),
    }


def _side_report(facts: pa.Table, side: str) -> dict[str, Any]:
    words, pieces, unknown = (
        int(_kept(facts, f"{side}_{unit}").sum(dtype=np.int64)) for unit in ("words", "pieces", "unknown")
    )
    return {"words": words, "pieces": pieces, "unknown_rate": unknown / max(1, pieces)}


def by_key(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the report on each split, and on each corpus of a mix, by its key in the section ``data``."""
    corpora = {f"corpora.{name}": part for name, part in report.get("corpora", {}).items()}
    return {**report["splits"], **corpora}


def table(report: Mapping[str, Any]) -> str:
    """Format the counts of the report, with a column per split and per corpus of a mix."""
    columns = by_key(report)
    splits = list(columns.values())
    rows = [["", *columns]]

    def add(label: str, values: Iterable[int | None]) -> None:
        rows.append([label, *("" if value is None else f"{value:,}" for value in values)])

    add("pairs read", (split["read"] for split in splits))
    for reason in REASONS[1:]:
        if any(split["dropped"][reason] for split in splits):
            add(f"  dropped: {reason.replace('_', ' ')}", (split["dropped"][reason] for split in splits))
    add("pairs kept", (split["kept"] for split in splits))
    if "corpora" in report:
        add("pairs in an epoch", (split.get("pairs_in_epoch") for split in splits))
    add("repeated pairs", (split["repeated_pairs"] for split in splits))
    for label, count in (("pairs whose spans differ", "spans_differ"), ("pairs with a term", "terms")):
        if any(split[count] for split in splits):
            add(label, (split[count] for split in splits))
    add("pairs also in train", (split.get("pairs_in_train") for split in splits))
    add("sources also in train", (split.get("sources_in_train") for split in splits))
    for side in SIDES:
        add(f"{side} words", (split[side]["words"] for split in splits))
        add(f"{side} pieces", (split[side]["pieces"] for split in splits))
        rows.append([f"{side} pieces unknown", *(f"{split[side]['unknown_rate']:.2%}" for split in splits)])
    histograms = [
        {(row["low"], row["high"]): row["pairs"] for row in split[HISTOGRAM] if row["pairs"]} for split in splits
    ]
    for low, high in sorted(set().union(*histograms)):
        add(f"pairs of {low}-{high} source words", (histogram.get((low, high), 0) for histogram in histograms))
    return aligned(rows)
