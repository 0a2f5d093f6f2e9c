"""What the page shows, as records: in JSON, its script reads some of their fields.

Numbers are rounded to six significant digits at most in JSON; null stands for what is unknown or undefined.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

DIGITS = 6
"""Significant digits of a number in JSON, at most."""

Words = list[list[str]]
"""The pieces of each word, in order; the end symbol is a word of its own."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Languages:
    """The languages of the test set, and the units in which the lengths of their sentences are counted."""

    source: str
    target: str
    source_rtl: bool
    target_rtl: bool
    unit: str
    """Of the source: words or characters."""
    target_unit: str


@dataclass(frozen=True)
class System:
    """One trained run, measured on the whole test set."""

    name: str
    settings: dict[str, str]
    """Dotted keys of the configuration whose values differ between the systems; "" where unset."""
    parameters: int
    update: int | None
    """Of the weights that translated; the last of those that were averaged."""
    seconds: float | None
    """Of training."""
    tokens_per_second: float | None
    """Target tokens, in training."""
    perplexity: float | None
    """On the validation set, of the best checkpoint."""
    bleu: Row
    """value, low, high (the ends of the 95% interval), signature."""
    chrf: Row
    """value, signature."""
    aer: float | None
    """Alignment error rate of the attention."""
    aer_of: str | None
    """What ``aer`` was measured on: test or validation."""
    attends: bool
    hard: bool
    """Whether the attention looks at one position in each step, so that no temperature changes it."""
    views: list[str]
    """Names of the attention matrices of a sentence."""
    length: list[Row]
    """Scores by source length: the rows of a length curve."""
    samples: list[Row]
    """Translations of the same sentences over time: source, reference, and a step and text for each validation."""


@dataclass(frozen=True)
class Figure:
    """A drawing on the page."""

    panel: str
    title: str
    svg: bytes


@dataclass(frozen=True)
class Reading:
    """A sentence translated by one system: T target and S source pieces."""

    text: str
    bleu: float
    chrf: float
    log_probability: float
    """Of the translation, the end symbol included if it was emitted; nats."""
    failures: list[str]
    target_words: Words
    source_words: Words | None
    """None: the sentence's own."""
    steps: list[list[list[Any]]]
    """For each target piece the likeliest next pieces, each with its probability, given the translation so far."""
    chosen: list[float]
    """The probability of each target piece, (T,)."""
    attention: dict[str, str] | None
    """By view, T x S weights as :func:`nmt.report.reading.packed` has them, in base64; None without attention."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of the test set under every system."""

    id: int
    """Line number, from 1."""
    source: str
    reference: str
    length: int
    """Of the source, in the unit of the report."""
    source_words: Words
    """As the first system reads them."""
    gold: list[list[int]] | None
    """Gold links: index of the group in ``source_words``, index of the reference's word."""
    systems: dict[str, Reading]


@dataclass(frozen=True)
class Report:
    """Everything that the page shows."""

    title: str
    made: dict[str, str]
    """Date, version of the toolkit, command."""
    languages: Languages
    systems: list[System]
    pairs: list[Row]
    """a, b, difference (BLEU of b minus that of a), p: of systems that are trained enough to be compared."""
    findings: list[str]
    """Sentences that say which system is better."""
    figures: list[Figure]
    bins: list[Row]
    """low, high: source lengths."""
    sentences: list[Sentence]
    example: Sentence | None
    """A sentence for the overview."""
    selection: str
    """How the sentences were chosen, in words."""
    notes: list[str]
    """Remarks on single systems, below the table of scores."""


def plain(value: Any) -> Any:
    """Convert records, arrays and numbers to what JSON has."""
    match value:
        case None | bool() | str() | int():
            return value
        case float() | np.floating():
            return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
        case np.integer():
            return int(value)
        case Mapping():
            return {str(key): plain(each) for key, each in value.items()}
        case Sequence() | np.ndarray():
            return [plain(each) for each in value]
        case _ if is_dataclass(value):
            return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    raise TypeError(f"{type(value)} has no place in a report")
