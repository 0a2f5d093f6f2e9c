"""How lines are translated."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypedDict

from pydantic import ValidationError

from nmt.config.problems import explain
from nmt.config.schema import (
    LARGEST_LENGTH_FACTOR,
    LARGEST_LENGTH_PENALTY,
    OF_SEVERAL,
    Decoding,
    Problem,
    search_contradictions,
)
from nmt.errors import ConfigError, nearest
from nmt.search import Sampling

MORE_PIECES = 10
"""Pieces that a translation may have in addition to the source's times ``max_length_factor``."""


def longest(source: int, factor: float) -> int:
    """Return how many pieces a translation of ``source`` pieces may have, the end symbol of neither counted."""
    return int(source * factor) + MORE_PIECES


class SearchChanges(TypedDict, total=False):
    """The fields of ``SearchOptions`` as keywords, for type checkers and editors."""

    beam_size: int
    length_penalty: float
    batch_tokens: int
    max_source: int
    max_length_factor: float
    n_best: int
    sampling: Sampling | None
    attention: bool
    min_length_factor: float
    coverage_penalty: float
    no_repeat_ngram: int


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
    min_length_factor: float = 0.0
    coverage_penalty: float = 0.0
    no_repeat_ngram: int = 0

    def __post_init__(self) -> None:
        problems = []
        for name, most in (("length_penalty", LARGEST_LENGTH_PENALTY), ("max_length_factor", LARGEST_LENGTH_FACTOR)):
            if not 0 <= getattr(self, name) <= most:
                problems.append(f"decoding.{name}: {getattr(self, name):g} must be from 0 to {most:g}")
        if self.sampling is not None and self.beam_size != 1:
            problems.append(f"beam size {self.beam_size}: sampling follows one hypothesis; use beam size 1")
        if self.n_best < 1:
            problems.append(f"n-best {self.n_best}: must be at least 1")
        if self.n_best > self.beam_size:
            problems.append(
                f"n-best {self.n_best}: a beam of {self.beam_size} has no more than {self.beam_size} hypotheses; "
                f"use beam size {self.n_best} or more"
            )
        problems += map(str, search_contradictions(self) if self.sampling is None else self._sampling_problems())
        if problems:
            raise ConfigError(*problems)

    def _sampling_problems(self) -> Iterator[Problem]:
        """The contradictions of sampling, which follows one hypothesis and therefore compares none."""
        compared, usual = {f"decoding.{name}": name for name in OF_SEVERAL}, Decoding()
        for key, name in compared.items():
            if getattr(self, name) != getattr(usual, name):
                yield Problem(key, "compares the hypotheses of a beam, and sampling follows one; leave it out")
        yield from (problem for problem in search_contradictions(self) if problem.key not in compared)

    @classmethod
    def from_config(cls, decoding: Decoding, **overrides: Any) -> Self:
        """Take the options of a configuration; an override that is None changes nothing.

        An override to a beam size of 1 leaves out the configuration's options that compare hypotheses. Raises
        ConfigError for a value out of the bounds of the schema, TypeError for an unknown option.
        """
        _refuse_unknown(overrides)
        given = {key: value for key, value in overrides.items() if value is not None}
        _check(decoding.model_dump(), given)
        names = {field.name for field in fields(cls)} - set(OF_SEVERAL if given.get("beam_size") == 1 else ())
        return cls(**{key: value for key, value in decoding if key in names} | given)

    def changed(self, **changes: Any) -> Self:
        """Replace single options. Raises errors as :meth:`from_config` does."""
        _refuse_unknown(changes)
        _check({name: getattr(self, name) for name in Decoding.model_fields if hasattr(self, name)}, changes)
        return replace(self, **changes)


def _refuse_unknown(names: Iterable[str]) -> None:
    """Raise TypeError for names that are no option of a search, as Python does for unknown keywords."""
    known = [field.name for field in fields(SearchOptions)]
    unknown = [name for name in names if name not in known]
    if unknown:
        hints = [f"{name}: {hint}" for name in unknown for hint in nearest(name, known)]
        problem = f"unknown option of a search: {', '.join(unknown)}"
        raise TypeError("; ".join([problem, *(hints or [f"there are {', '.join(known)}"])]))


def _check(section: dict[str, Any], given: dict[str, Any]) -> None:
    """Raise ConfigError for overrides of the section ``decoding`` that its schema refuses."""
    overrides = {key: value for key, value in given.items() if key in Decoding.model_fields}
    try:
        Decoding.model_validate(section | overrides)
    except ValidationError as error:
        problems = [explain(each, Decoding) for each in error.errors(include_url=False)]
        raise ConfigError(*(f"decoding.{each}" for each in problems)) from None
