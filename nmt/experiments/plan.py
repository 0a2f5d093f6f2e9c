"""An experiment: one base configuration, and what each system changes in it; its runs, test sets and files.

Paths start at the working directory, as they do in a configuration. Only configurations and test sets are read.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from nmt.config import Config, load_config
from nmt.config.loading import one_line, read_mapping
from nmt.config.problems import explain
from nmt.config.schema import Count, FileCorpus, Gold, PathText, Section, Size
from nmt.data.corpus import read_test_set
from nmt.errors import ConfigError, DataError, NmtError
from nmt.evaluation.alignment import read_gold
from nmt.evaluation.by_length import scoring
from nmt.evaluation.significance import ranges
from nmt.messages import Say, silent

NAME = re.compile(r"\w[\w+-]*")
"""A name of a system, text or test set: part of the names of files."""
RESERVED = {"results", "tests", "length_curve", "diagnosis", "precision"}
"""Names of other things in the output directory."""
DEFAULT_TEST = "test"
"""The name of the base configuration's own test set."""

Range = tuple[Count, Count]


class TestSet(Section):
    """Text that every run translates, and how its scores are drawn."""

    source: PathText
    reference: PathText
    bins: Annotated[tuple[Size, ...], Field(min_length=1)] | None = None
    """Largest source length of each bin; null: ``evaluation.bins`` of the base configuration."""
    short: Range | None = None
    """Source lengths, both included, that count as short in retained BLEU; null: the shortest bin."""
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

    base: PathText
    """A configuration file: what all systems share."""
    output: PathText
    """A directory for the runs, their translations, the figures and the tables."""
    systems: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    """Name to differences from the base, dotted key to value. A section as a value replaces the whole section."""
    seeds: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None
    """Each system is trained once with each, into OUTPUT/SYSTEM/seed-N; null: with the seed of the base, into
    OUTPUT/SYSTEM."""
    tests: dict[str, TestSet] | None = None
    """Name to test set; null: ``data.test`` of the base configuration, under the name ``test``."""
    claims: dict[str, Any] | None = None
    """Claims about the systems, for ``scripts/textbook.py``."""
    jobs: Size = 1
    """Runs that are trained side by side."""

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
        raise ConfigError(f"{path}: describes one run, not an experiment; nmt-train --config {path} trains it")
    data |= {key: value for key, value in changes.items() if value is not None}
    try:
        return Experiment.model_validate(data)
    except ValidationError as error:
        raise ConfigError(*(one_line(f"{path}: {problem}") for problem in explain(error, Experiment))) from None


# --- its runs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One system, trained with one seed."""

    system: str
    seed: int | None
    """None if the experiment lists no seeds."""
    config: Config
    """Resolved, with the run directory as its output."""
    settings: tuple[str, ...]
    """Differences from the base configuration: KEY=VALUE, for ``nmt-train --set``."""

    @property
    def label(self) -> str:
        """NAME or NAME:SEED, as ``--only`` takes it."""
        return self.system if self.seed is None else f"{self.system}:{self.seed}"

    @property
    def path(self) -> Path:
        """The run directory."""
        return Path(str(self.config.output))


@dataclass(frozen=True)
class Plan:
    """Everything that an experiment makes."""

    base: str
    """The file of the base configuration."""
    output: Path
    runs: tuple[Run, ...]
    tests: dict[str, TestSet]

    def runs_of(self, system: str) -> list[Run]:
        """Return the runs of a system, one for each seed."""
        return [run for run in self.runs if run.system == system]

    def select(self, names: Sequence[str]) -> tuple[Run, ...]:
        """Return the runs of each NAME or NAME:SEED of ``--only``. Raises ConfigError for an unknown one."""
        labels = list(dict.fromkeys(label for run in self.runs for label in (run.system, run.label)))
        if unknown := [name for name in names if name not in labels]:
            problem = f"no such system or NAME:SEED; choose one of: {', '.join(labels)}"
            raise ConfigError(*(f"--only {name}: {problem}" for name in unknown))
        return tuple(run for run in self.runs if run.system in names or run.label in names)

    def translations(self, run: Run, test: str) -> Path:
        """Return the file with the translations of a test set by a run."""
        if self.translated_in_training(run, test):
            return run.path / "test.hypotheses.txt"
        seed = "" if run.seed is None else f".seed-{run.seed}"
        return self.output / "tests" / test / f"{run.system}{seed}.txt"

    def translated_in_training(self, run: Run, test: str) -> bool:
        """Whether training itself translates the test set, because it is ``data.test`` of the run."""
        wanted = self.tests[test]
        return run.config.data.test == FileCorpus(source=wanted.source, target=wanted.reference)

    def curve(self, test: str) -> Path:
        """Return the path of the files of the length curve, without their endings."""
        return self.output / ("length_curve" if test == DEFAULT_TEST else test)

    def diagnosis(self, test: str) -> Path:
        """Return the path of the files of the diagnosis, without their endings."""
        return self.output / ("diagnosis" if test == DEFAULT_TEST else f"{test}.why")


def make_plan(experiment: Experiment, file: str, settings: Sequence[str] = ()) -> Plan:
    """Resolve the configuration of every run of the experiment in ``file``.

    The ``settings``, KEY=VALUE, hold for every system and come after its own differences. Raises ConfigError for a
    setting that the experiment itself decides, and with every problem of every system.
    """
    keys = {setting.partition("=")[0].strip() for setting in settings}
    if "output" in keys:
        raise ConfigError("--set output: each run has a directory of its own; use --output DIR for all of them")
    if "seed" in keys and experiment.seeds is not None:
        raise ConfigError("--set seed: the experiment lists its seeds; change them there")
    load_config(experiment.base)  # problems of the base are not reported once for each system
    base, runs, problems = load_config(experiment.base, settings), list[Run](), list[str]()
    for system, differences in experiment.systems.items():
        decided = [key for key in ("output", *(["seed"] if experiment.seeds else [])) if key in differences]
        problems += [f"{file}: systems.{system}: {key}: the experiment decides it; leave it out" for key in decided]
        changes = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in differences.items()]
        for seed in experiment.seeds or (None,):
            path = Path(experiment.output) / system / ("" if seed is None else f"seed-{seed}")
            every = (*changes, *settings, *([] if seed is None else [f"seed={seed}"]))
            try:
                config = load_config(experiment.base, every)
            except ConfigError as error:
                origins = experiment.base, *(f"--set {change}" for change in changes)
                problems += [_placed(problem, origins, f"{file}: systems.{system}") for problem in error.problems]
            else:
                runs.append(Run(system, seed, config.model_copy(update={"output": str(path)}), every))
    ConfigError.raise_if_any(problems)  # repeated for each seed
    return Plan(experiment.base, Path(experiment.output), tuple(runs), _tests(experiment, file, base))


def _placed(problem: str, origins: Sequence[str], place: str) -> str:
    """Replace the origin of a problem by its place in the experiment."""
    for origin in origins:
        if problem.startswith(f"{origin}: "):
            problem = f"{place}: {problem.removeprefix(f'{origin}: ')}"
            return re.sub(r"--set '([\w.]+)=(.*)'$", r"'\1: \2'", problem)
    return problem


def _tests(experiment: Experiment, file: str, base: Config) -> dict[str, TestSet]:
    tests = experiment.tests
    if not tests:
        own = base.data.test
        if not isinstance(own, FileCorpus) or own.limit is not None:
            problem = f"missing, and data.test of {experiment.base} is not two whole files"
            remedy = "name test sets: {NAME: {source: FILE, reference: FILE}}"
            raise ConfigError(f"{file}: tests: {problem}; {remedy}")
        tests = {DEFAULT_TEST: TestSet(source=own.source, reference=own.target)}
    if both := sorted((tests.keys() & experiment.systems.keys()) - {DEFAULT_TEST}):  # OUTPUT/NAME is a directory
        raise ConfigError(*(f"{file}: tests.{name}: a system has this name, too; choose another" for name in both))
    return {
        name: test if test.bins else test.model_copy(update={"bins": base.evaluation.bins})
        for name, test in tests.items()
    }


def readable_tests(plan: Plan, say: Say) -> Plan:
    """Return the plan without optional test sets that are missing. Raises DataError, before hours of training, for
    files that could not be read after them, and for systems or lengths that could not be compared."""
    configs = {f"{run.label}={run.path}": run.config for run in plan.runs}
    tests, problems = dict[str, TestSet](), list[str]()
    for name, test in plan.tests.items():
        missing = [path for path in test.files if not Path(path).exists()]
        if test.optional and missing:
            say(f"test set {name}: left out: {', '.join(missing)}: no such file")
            continue
        tests[name] = test
        try:
            texts = read_test_set(test.source, test.reference)
            ranges(scoring(configs, *texts, silent, test.bins or ()), test.short, test.long)
            if test.gold:
                read_gold(test.source, test.reference, test.gold.links, first=test.gold.first)
        except NmtError as error:
            problems += [f"tests.{name}: {problem}" for problem in error.problems]
    if not tests:
        problems.append(f"{plan.output}: no test set is left; name one in tests: of the experiment")
    DataError.raise_if_any(problems)
    return replace(plan, tests=tests)
