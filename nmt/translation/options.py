"""How lines are translated."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from nmt.config.decoding import OF_SEVERAL, search_contradictions
from nmt.config.schema import LARGEST_LENGTH_FACTOR, LARGEST_LENGTH_PENALTY, Decoding
from nmt.errors import ConfigError
from nmt.search import Sampling
from nmt.translation.unknown import UnknownWords

if TYPE_CHECKING:  # sacreBLEU is slow to import, and few translate by minimum Bayes risk
    from nmt.translation.risk import MinimumBayesRisk

MORE_PIECES = 10
"""Pieces that a translation may have in addition to the source's times ``max_length_factor``."""


def longest(source: int, factor: float) -> int:
    """Return how many pieces a translation of ``source`` pieces may have, the end symbol of neither counted."""
    return int(source * factor) + MORE_PIECES


@dataclass(frozen=True)
class SearchOptions:
    """How lines are translated; see ``nmt.config.schema.Decoding`` for those without a text here.

    Raises ConfigError for options that contradict each other.
    """

    beam_size: int
    length_penalty: float
    batch_tokens: int
    max_source: int
    max_length_factor: float
    n_best: int = 1
    """Translations of each line, at most ``beam_size``."""
    sampling: Sampling | None = None
    """Sample instead of searching for the best; needs beam_size 1."""
    attention: bool = False
    """Keep the attention weights."""
    risk: "MinimumBayesRisk | None" = None
    """Sample many translations and keep the one that is most like the others; needs ``sampling``."""
    unknown: UnknownWords | None = None
    """Replace unknown words; needs a searchable with attention and tokenizers of words."""
    min_length_factor: float = 0.0
    coverage_penalty: float = 0.0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    beam_groups: int = 1
    diversity: float = 0.0

    def __post_init__(self) -> None:
        problems = []
        for name, most in (("length_penalty", LARGEST_LENGTH_PENALTY), ("max_length_factor", LARGEST_LENGTH_FACTOR)):
            if not 0 <= getattr(self, name) <= most:
                problems.append(f"decoding.{name}: {getattr(self, name):g} must be from 0 to {most:g}")
        if self.sampling is not None and self.beam_size != 1:
            problems.append(f"beam size {self.beam_size}: sampling follows one hypothesis; use beam size 1")
        if self.risk is not None and self.sampling is None:
            problems.append("minimum Bayes risk: chooses among samples; give a sampling, too")
        if self.n_best > self.beam_size:
            problems.append(
                f"n-best {self.n_best}: a beam of {self.beam_size} has no more than {self.beam_size} hypotheses; "
                f"use beam size {self.n_best} or more"
            )
        problems += map(str, search_contradictions(self))
        if problems:
            raise ConfigError(*problems)

    @property
    def hypotheses(self) -> int:
        """Hypotheses of a line that are followed side by side."""
        return self.beam_size if self.risk is None else self.risk.samples

    @classmethod
    def from_config(cls, decoding: Decoding, **overrides: Any) -> Self:
        """Take the options of a configuration; an override that is None changes nothing.

        An override to a beam size of 1 leaves out the configuration's options that compare hypotheses.
        """
        given = {key: value for key, value in overrides.items() if value is not None}
        names = {field.name for field in fields(cls)} - set(OF_SEVERAL if given.get("beam_size") == 1 else ())
        return cls(**{key: value for key, value in decoding if key in names} | given)
