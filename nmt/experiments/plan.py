"""From an experiment to its runs, test sets and files: values alone, nothing is read but configurations."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nmt.config import Config, load_config
from nmt.config.schema import FileCorpus
from nmt.errors import ConfigError
from nmt.experiments.runs import Languages, PlannedText, Run
from nmt.experiments.schema import DEFAULT_TEST, Experiment, TestSet
from nmt.experiments.texts import files_of, name_problems, names_in, plan_texts, with_files


@dataclass(frozen=True)
class Plan:
    """Everything that an experiment makes."""

    base: str
    """The base configuration's file."""
    output: Path
    runs: tuple[Run, ...]
    tests: dict[str, TestSet]
    texts: tuple[PlannedText, ...] = ()
    languages: Languages = ("", "")
    """Those of the base configuration."""

    @property
    def systems(self) -> list[str]:
        """In the order in which they are drawn."""
        return list(dict.fromkeys(run.system for run in self.runs))

    def runs_of(self, system: str) -> list[Run]:
        """One for each seed."""
        return [run for run in self.runs if run.system == system]

    def select(self, selected: str, option: str, others: Sequence[str] = ()) -> list[Run]:
        """The runs of NAME or NAME:SEED. Raises ConfigError, naming the option and what else it takes, if there are
        none."""
        runs = [run for run in self.runs if selected in (run.system, run.label)]
        if not runs:
            labels = [*dict.fromkeys(label for run in self.runs for label in (run.system, run.label)), *others]
            kinds = "system, NAME:SEED or text" if others else "system or NAME:SEED"
            raise ConfigError(f"{option} {selected}: no such {kinds}; choose one of: {', '.join(labels)}")
        return runs

    def only(self, names: Sequence[str]) -> "Plan":
        """The part that ``--only`` with each of these names is for. Raises ConfigError for an unknown one."""
        texts = tuple(text for text in self.texts if text.name in names)
        known = {text.name for text in texts}
        every = [text.name for text in self.texts]
        runs = {run.label for name in names if name not in known for run in self.select(name, "--only", every)}
        return replace(self, runs=tuple(run for run in self.runs if run.label in runs), texts=texts)

    def compared(self) -> "Plan":
        """The part without systems that are trained for texts alone: they translate in another direction."""
        serving = {run.label for text in self.texts for run in text.runs if run.languages != self.languages}
        return replace(self, runs=tuple(run for run in self.runs if run.label not in serving))

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


def make_plan(experiment: Experiment, file: str, settings: Sequence[str] = (), texts: Path | None = None) -> Plan:
    """Resolve the configuration of every run of the experiment in ``file``.

    The ``settings``, KEY=VALUE, are for every system, after its own differences. ``texts`` is the folder of the made
    texts; None: in the output directory. Raises ConfigError for a setting that the experiment itself decides, and with
    every problem of every system.
    """
    keys = {setting.partition("=")[0].strip(): setting for setting in settings}
    if "output" in keys:
        raise ConfigError(f"--set {keys['output']}: each run has a directory of its own; use --output DIR for them all")
    if "seed" in keys and experiment.seeds is not None:
        raise ConfigError(f"--set {keys['seed']}: the experiment lists its seeds; change them there")
    load_config(experiment.base)  # its own problems are not those of a system
    base = load_config(experiment.base, settings)
    output, runs = Path(experiment.output), list[Run]()
    folder = texts or output / "texts"
    problems = [f"{file}: {problem}" for problem in name_problems(experiment)]
    for system, differences in experiment.systems.items():
        try:
            runs += _runs(experiment, system, settings, folder)
        except ConfigError as error:
            place, changes = f"{file}: systems.{system}", _changes(differences, ANY, folder)
            problems += [_placed(problem, experiment.base, place, changes) for problem in error.problems]
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    made, problems = plan_texts(experiment, runs, folder)
    problems += _backwards(runs, base)
    if problems:
        raise ConfigError(*(f"{file}: {problem}" for problem in problems))
    tests = _tests(experiment, file, base)
    return Plan(experiment.base, output, tuple(runs), tests, tuple(made), _languages(base))


ANY: Languages = ("source", "target")
"""Names of the languages of a text before those of the system are known."""


def _runs(experiment: Experiment, system: str, settings: Sequence[str], folder: Path) -> list[Run]:
    """The runs of a system. Raises ConfigError for its first seed: the others have the same problems."""
    differences, runs = experiment.systems[system], []
    path, texts = Path(experiment.output) / system, names_in(differences)
    languages = ANY
    for seed in experiment.seeds or (None,):
        own = [] if seed is None else [f"seed={seed}"]
        for _ in range(2 if texts else 1):  # the files of a text depend on the languages
            changes = _changes(differences, languages, folder)
            config = load_config(experiment.base, [*changes, *settings, *own])
            languages = _languages(config)
        config = config.model_copy(update={"output": str(path if seed is None else path / f"seed-{seed}")})
        runs.append(Run(system, seed, config, (*changes, *settings, *own), texts))
    return runs


def _languages(config: Config) -> Languages:
    return config.data.source_language, config.data.target_language


def _changes(differences: Mapping[str, Any], languages: Languages, folder: Path) -> tuple[str, ...]:
    """The differences of a system, for ``--set``."""
    values = with_files(differences, files_of(folder, languages))
    return tuple(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in values.items())


def _backwards(runs: Sequence[Run], base: Config) -> list[str]:
    """Problems of systems that translate backwards and read files of the base the wrong way round."""
    problems = []
    for run in runs:
        if run.languages == _languages(base)[::-1]:
            for split in ("train", "validation", "test"):
                corpus = getattr(run.config.data, split)
                if isinstance(corpus, FileCorpus) and corpus == getattr(base.data, split):
                    problems.append(
                        f"systems.{run.system}: data.{split}: is that of the base, which translates in the other "
                        f"direction; write 'data.{split}: {{source: {corpus.target}, target: {corpus.source}}}'"
                    )
    return list(dict.fromkeys(problems))


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
