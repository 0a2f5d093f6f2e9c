"""Results of a translator: a line, its translations, and their attention.

Shapes: T target pieces, S source pieces, end symbols included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Attention = np.ndarray[tuple[int, int], np.dtype[np.float32]]
"""Weights from 0 to 1; each row sums to 1 for every attention whose weights are a distribution."""


@dataclass(frozen=True)
class TranslatedHypothesis:
    """One translation of a line."""

    text: str
    """Detokenized; never holds a line end."""
    log_probability: float
    """The sum over the pieces; nats."""
    score: float
    """The log-probability divided by the length penalty (Wu et al. 2016, eq. 14), by which hypotheses are ranked."""
    pieces: list[str]
    """Target pieces, with the end symbol if it was emitted."""
    attention: Attention | None = field(default=None, compare=False, repr=False)
    """(T, S), a row for each target piece and a column for each source piece; None if not kept or without attention."""
    ids: Sequence[int] = field(default=(), compare=False, repr=False)

    @property
    def per_piece(self) -> float:
        """The mean log-probability of the pieces; nats."""
        return self.log_probability / max(len(self.pieces), 1)


@dataclass(frozen=True)
class Translation:
    """A line and its translations."""

    source: str
    source_pieces: list[str]
    """The model's input, with the end symbol; empty for a blank line, which no model reads."""
    hypotheses: list[TranslatedHypothesis]
    """Best first, at least one."""
    source_ids: Sequence[int] = field(default=(), compare=False, repr=False)
    spans: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """The hidden spans by their placeholders."""

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text

    @property
    def score(self) -> float:
        """The score of the best translation."""
        return self.hypotheses[0].score

    @property
    def pieces(self) -> list[str]:
        """The T pieces of the best translation."""
        return self.hypotheses[0].pieces

    @property
    def attention(self) -> Attention | None:
        """The attention of the best translation, (T, S); None if there is none."""
        return self.hypotheses[0].attention


BLANK = TranslatedHypothesis("", 0.0, 0.0, [])
