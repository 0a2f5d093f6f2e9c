"""The typed schema of an experiment: one base configuration, and what each system changes in it.

Paths start at the working directory, as they do in a configuration.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from nmt.config.loading import one_line, read_mapping
from nmt.config.problems import explain
from nmt.config.schema import Count, Gold, Section, Size, Text
from nmt.errors import ConfigError

NAME = re.compile(r"\w[\w+-]*")
"""A name of a system, text or test set: part of the names of files."""
RESERVED = {"results", "tests", "length_curve", "diagnosis"}
"""Names of other things in the output directory."""
DEFAULT_TEST = "test"
"""The name of the base configuration's own test set."""

Range = tuple[Count, Count]


class TestSet(Section):
    """Text that every run translates, and how its scores are drawn."""

    source: Text
    reference: Text
    bins: Annotated[tuple[Size, ...], Field(min_length=1)] | None = None
    """Largest source length of each bin; null: ``evaluation.bins`` of the base configuration."""
    short: Range | None = None
    """Source lengths, both included, for the share of BLEU that is kept at ``long`` ones; null: the shortest bin."""
    long: Range | None = None
    """Likewise; null: the longest bin."""
    gold: Gold | None = None
    """Also score the attention of each run as word alignment."""
    draw: tuple[Literal["curve", "diagnosis"], ...] = ("curve", "diagnosis")
    optional: bool = False
    """Leave the test set out if one of its files is missing."""

    @property
    def files(self) -> tuple[str, ...]:
        """Everything that is read."""
        return (self.source, self.reference, *([self.gold.links] if self.gold else []))


class Experiment(Section):
    """Systems that are compared."""

    base: Text
    """A configuration file: what all systems share."""
    output: Text
    """A directory for the runs, their translations, the figures and the tables."""
    systems: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    """Name to differences from the base, dotted key to value. A section as a value replaces the whole section."""
    seeds: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None
    """Each system is trained once with each, into OUTPUT/SYSTEM/seed-N; null: with the seed of the base, into
    OUTPUT/SYSTEM."""
    tests: dict[str, TestSet] | None = None
    """Name to test set; null: ``data.test`` of the base configuration, under the name ``test``."""
    claims: dict[str, Any] | None = None
    """What is said of the systems, for ``scripts/textbook.py``."""
    jobs: Size = 1
    """Runs that are trained side by side."""

    @field_validator("systems", mode="before")
    @classmethod
    def _nothing_differs(cls, systems: Any) -> Any:
        """Read ``NAME:`` with nothing behind it as the base itself."""
        return {name: differs or {} for name, differs in systems.items()} if isinstance(systems, dict) else systems

    @field_validator("systems", "tests")
    @classmethod
    def _usable_names(cls, named: dict[str, Any] | None) -> dict[str, Any] | None:
        for name in named or {}:
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a name of letters, digits, '_', '+' and '-'")
            if name in RESERVED:
                raise ValueError(f"{name!r} is the name of something else in the output directory; choose another")
        return named

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if seeds is not None and len(set(seeds)) < len(seeds):
            raise ValueError(f"a seed is given twice: {list(seeds)}")
        return seeds


def load_experiment(path: str | Path, **changes: str | int | None) -> Experiment:
    """Load an experiment from a YAML file; ``changes`` that are not None replace keys of the top level.

    Raises ConfigError with every problem, each a line ``FILE: a.b: what was found; what would be right``.
    """
    data = read_mapping(Path(path), "must have the keys base, output, systems")
    if "training" in data:
        raise ConfigError(f"{path}: describes one run, not an experiment; use nmt-train --config {path}")
    data |= {key: value for key, value in changes.items() if value is not None}
    try:
        return Experiment.model_validate(data)
    except ValidationError as error:
        found = [explain(detail, Experiment) for detail in error.errors(include_url=False)]
        raise ConfigError(*(one_line(f"{path}: {problem}") for problem in found)) from None
