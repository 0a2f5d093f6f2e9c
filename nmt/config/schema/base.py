"""Types of values that several sections of the schema share."""

from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

Size = Annotated[int, Field(ge=1)]
Width = Annotated[int, Field(ge=1, le=1 << 20)]
Layers = Annotated[int, Field(ge=1, le=64)]
Cores = Annotated[int, Field(ge=1, le=1024)]
Count = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("contains the character NUL, which is not allowed in a name")
    return text


def _in_fp32(number: float) -> float:
    if number > LARGEST_NUMBER:
        raise ValueError(f"{number:g} is more than {LARGEST_NUMBER:g}, beyond which fp32 would overflow")
    return number


LARGEST_NUMBER = 1e30
Positive = Annotated[float, Field(gt=0), AfterValidator(_in_fp32)]
NotNegative = Annotated[float, Field(ge=0), AfterValidator(_in_fp32)]
Text = Annotated[str, Field(min_length=1), AfterValidator(_without_nul)]
LARGEST_BEAM, LARGEST_BATCH = 1000, 1 << 24
LARGEST_VOCABULARY = 250_000
"""Pieces, as many as the largest multilingual models have; a run from a stranger is checked within a second."""
Beam = Annotated[int, Field(ge=1, le=LARGEST_BEAM)]
Pieces = Annotated[int, Field(ge=1, le=LARGEST_BATCH)]
LARGEST_NGRAM = 100
Ngram = Annotated[int, Field(ge=0, le=LARGEST_NGRAM)]

LARGEST_LENGTH_PENALTY = 10.0
LARGEST_LENGTH_FACTOR = 100.0


class Problem(NamedTuple):
    """One problem of a configuration."""

    key: str
    """Dotted; empty for the configuration as a whole."""
    text: str
    """The value found and the values allowed."""

    def __str__(self) -> str:
        return f"{self.key}: {self.text}" if self.key else self.text


class Section(BaseModel):
    """Section of the configuration, immutable."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def listed(words: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def usual_type(usual: str, *options: str) -> Any:
    """A validator that adds the default type to a section without one."""
    return field_validator(*options, mode="before")(
        lambda value: {"type": usual, **value} if isinstance(value, dict) else value
    )
