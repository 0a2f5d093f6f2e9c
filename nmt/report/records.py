"""What the page shows, as records: their fields, in JSON, are what its JavaScript reads.

Numbers are rounded to six significant digits at most in JSON; null stands for what is unknown or undefined.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from nmt.evaluation.by_length import MIN_SENTENCES

DIGITS = 6
"""Significant digits of a number in JSON, at most."""
VERSION = 1
"""Of the format, for programs that read the data out of a page."""

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
    updates: int | None
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
    """Scores by source length in words or characters; ``examples`` are indices of the report's sentences."""
    length_pieces: list[Row]
    """Likewise by source pieces."""
    diagnosis: list[Row]
    """Reasons by source length, as ``nmt-diagnose`` shows them, from forced decoding of the references; entropy in
    bits."""
    training: dict[str, list[list[Any]]]
    """train: step, loss, tokens/s, learning rate; validation: step, loss, perplexity, BLEU, whether it is the best."""
    samples: list[Row]
    """Translations of the same sentences over time: step, lines."""


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
    """By view, T x S weights as :mod:`nmt.report.weights` packs them, in base64; None without attention."""


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
    languages: Languages
    systems: list[System]
    pairs: list[Row]
    """a, b, difference (BLEU of b minus that of a), p."""
    bottleneck: list[Row]
    """system, width, attention: of systems that differ in the width of the encoder's vector; else none."""
    sentences: list[Sentence]
    selection: str
    """How the sentences were chosen, in words."""
    notes: list[str] = field(default_factory=list)
    """Remarks on single systems, below the table of scores."""
    min_sentences: int = field(default=MIN_SENTENCES)
    """A bin of lengths with fewer sentences is weak evidence, and drawn as such."""
    version: int = field(default=VERSION)


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
