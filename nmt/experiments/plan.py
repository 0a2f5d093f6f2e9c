"""From an experiment to its runs, test sets and files: values alone, nothing is read but configurations."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.config import Config, load_config
from nmt.config.schema import FileCorpus
from nmt.errors import ConfigError
from nmt.experiments.schema import DEFAULT_TEST, Experiment, TestSet


@dataclass(frozen=True)
class Run:
    """One system, trained with one seed."""

    system: str
    seed: int | None
    """None where the experiment lists no seeds."""
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
    """The base configuration's file."""
    output: Path
    runs: tuple[Run, ...]
    tests: dict[str, TestSet]

    @property
    def systems(self) -> list[str]:
        """In the order in which they are drawn."""
        return list(dict.fromkeys(run.system for run in self.runs))

    def runs_of(self, system: str) -> list[Run]:
        """One for each seed."""
        return [run for run in self.runs if run.system == system]

    def select(self, selected: str, option: str) -> list[Run]:
        """The runs of NAME or NAME:SEED. Raises ConfigError, naming the option, if there are none."""
        runs = [run for run in self.runs if selected in (run.system, run.label)]
        if not runs:
            labels = ", ".join(dict.fromkeys(label for run in self.runs for label in (run.system, run.label)))
            raise ConfigError(f"{option} {selected}: no such system or NAME:SEED; choose one of: {labels}")
        return runs

    def translations(self, run: Run, test: str) -> Path:
        """The file with the translations of a test set by a run."""
        if self.has_translated(run, test):
            return run.path / "test.hypotheses.txt"
        return self.scores(run, test).with_suffix(".txt")

    def scores(self, run: Run, test: str) -> Path:
        """The file with the scores of these translations."""
        seed = "" if run.seed is None else f".seed-{run.seed}"
        return self.output / "tests" / test / f"{run.system}{seed}.json"

    def has_translated(self, run: Run, test: str) -> bool:
        """Whether training itself translates the test set: it is ``data.test`` of the run."""
        own, wanted = run.config.data.test, self.tests[test]
        return own == FileCorpus(source=wanted.source, target=wanted.reference)

    def curve(self, test: str) -> Path:
        """The files of the length curve but for their endings."""
        return self.output / ("length_curve" if test == DEFAULT_TEST else test)

    def diagnosis(self, test: str) -> Path:
        """The files of the diagnosis but for their endings."""
        return self.output / ("diagnosis" if test == DEFAULT_TEST else f"{test}.why")

    @property
    def results(self) -> Path:
        """The files of the table but for their endings."""
        return self.output / "results"


def make_plan(experiment: Experiment, file: str, settings: Sequence[str] = ()) -> Plan:
    """Resolve the configuration of every run of the experiment in ``file``.

    The ``settings``, KEY=VALUE, are for every system, after its own differences. Raises ConfigError for a setting that
    the experiment itself decides, and with every problem of every system.
    """
    keys = {setting.partition("=")[0].strip(): setting for setting in settings}
    if "output" in keys:
        raise ConfigError(f"--set {keys['output']}: each run has a directory of its own; use --output DIR for them all")
    if "seed" in keys and experiment.seeds is not None:
        raise ConfigError(f"--set {keys['seed']}: the experiment lists its seeds; change them there")
    load_config(experiment.base)  # its own problems are not those of a system
    base = load_config(experiment.base, settings)
    output, runs = Path(experiment.output), []
    problems: list[str] = []
    for system, differences in experiment.systems.items():
        changes = tuple(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in differences.items())
        for seed in experiment.seeds or (None,):
            own = [] if seed is None else [f"seed={seed}"]
            path = output / system if seed is None else output / system / f"seed-{seed}"
            try:
                config = load_config(experiment.base, [*changes, *settings, *own])
            except ConfigError as error:
                place = f"{file}: systems.{system}"
                problems += [_placed(problem, experiment.base, place, changes) for problem in error.problems]
                break  # the other seeds have the same problems
            config = config.model_copy(update={"output": str(path)})
            runs.append(Run(system, seed, config, (*changes, *settings, *own)))
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    return Plan(experiment.base, output, tuple(runs), _tests(experiment, file, base))


def _placed(problem: str, base: str, place: str, changes: Sequence[str]) -> str:
    """A problem of a resolved configuration with the place that brought it in: the base alone has none."""
    for origin in (base, *(f"--set {change}" for change in changes)):
        if changes and problem.startswith(f"{origin}: "):
            problem = f"{place}: {problem.removeprefix(f'{origin}: ')}"
            return re.sub(r"--set '([\w.]+)=(.*)'$", r"'\1: \2'", problem)
    return problem


def _tests(experiment: Experiment, file: str, base: Config) -> dict[str, TestSet]:
    """The test sets, each with its bins."""
    tests = experiment.tests
    if tests is None:
        own = base.data.test
        if not isinstance(own, FileCorpus) or own.limit is not None:
            raise ConfigError(
                f"{file}: tests: missing, and data.test of {experiment.base} is not two whole files; "
                "name test sets: {NAME: {source: FILE, reference: FILE}}"
            )
        tests = {DEFAULT_TEST: TestSet(source=own.source, reference=own.target)}
    return {
        name: test if test.bins else test.model_copy(update={"bins": base.evaluation.bins})
        for name, test in tests.items()
    }
