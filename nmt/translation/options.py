"""Options of translation."""

from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError

from nmt.config.problems import explain
from nmt.config.schema import Decoding
from nmt.errors import ConfigError
from nmt.search import Sampling

MORE_PIECES = 10
"""Pieces that a translation may have in addition to the source's times ``max_length_factor``."""


def longest(source: int, factor: float) -> int:
    """Return the greatest length of a translation: its end symbol counts, that of the ``source`` pieces does not."""
    return int(source * factor) + MORE_PIECES


class SearchOptions(Decoding):
    """How lines are translated: the section ``decoding``, and what a single call adds.

    Raises ConfigError for unknown options, for values out of their bounds, and for options that contradict each other.
    """

    n_best: Annotated[int, Field(ge=1)] = 1
    """Translations of each line, at most ``beam_size``."""
    sampling: Sampling | None = None
    """Sample instead of searching for the best; needs beam_size 1."""
    attention: bool = False
    """Keep the attention weights."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problems = [explain(each, SearchOptions) for each in error.errors(include_url=False)]
            raise ConfigError(*(f"decoding.{each}" for each in problems)) from None
        if contradictions := [*map(str, self.contradictions()), *self._of_call()]:
            raise ConfigError(*contradictions)

    def _of_call(self) -> Iterator[str]:
        """Find contradictions of what a call adds."""
        if self.sampling is not None and self.beam_size != 1:
            yield f"beam size {self.beam_size}: sampling follows one hypothesis; use beam size 1"
        if self.n_best > self.beam_size:
            yield (
                f"n-best {self.n_best}: a beam of {self.beam_size} has no more than {self.beam_size} hypotheses; "
                f"use beam size {self.n_best} or more"
            )

    @classmethod
    def from_config(cls, decoding: Decoding, **overrides: Any) -> Self:
        """Take the options of a configuration; an override that is None changes nothing."""
        return cls(**dict(decoding) | {key: value for key, value in overrides.items() if value is not None})
