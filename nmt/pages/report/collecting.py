"""The systems of a report and their test set: found, and checked before anything is computed."""

from collections import Counter
from collections.abc import Sequence
from csv import DictReader
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from nmt.config import Config, load_run_config, schema
from nmt.config.loading import is_run
from nmt.config.schema import FileCorpus
from nmt.data.corpus import read_lines, read_test_set
from nmt.errors import ConfigError, DataError, FileError, tried
from nmt.evaluation.alignment import Gold, read_gold
from nmt.evaluation.by_length import Scoring, scoring
from nmt.experiments.plan import TestSet, load_experiment, make_plan
from nmt.files import printable, run_name
from nmt.messages import Say
from nmt.runs.directory import RunDirectory, say_precisions


@dataclass(frozen=True)
class Trained:
    """A run, and the name under which the page shows it."""

    name: str
    run: RunDirectory

    @cached_property
    def config(self) -> Config:
        """The configuration that it was trained with, which may not be that of its experiment any more."""
        return load_run_config(self.run.path)


@dataclass(frozen=True)
class Collected:
    """The systems of a page, which translate in one direction and are scored alike, and the test set."""

    title: str
    systems: list[Trained]
    test: TestSet
    sources: list[str]
    gold: list[Gold] | None
    """Word links of each pair."""
    scoring: Scoring


def collect(paths: Sequence[str], test: Sequence[str] | None, gold: tuple[str | None, int], say: Say) -> Collected:
    """Find the runs of run directories, output directories of experiments and files of experiments.

    Args:
        paths: these.
        test: source and reference; None: those of the experiment, or else ``data.test``, which is the same for all runs
            that have one. The other runs are measured on it, too.
        gold: file with the word links of the test set, and the index of the first word in it; without a file, that of
            the experiment's test set.
        say: receives the runs that are left out because they have no checkpoint yet.

    Raises DataError for a path that is no run and no experiment and for a test set that cannot be read, FileError
    if no run has a checkpoint, ConfigError for runs that cannot be compared and where no test set is named.
    """
    found: list[Trained] = []
    planned: list[TestSet] = []
    for path in map(Path, paths):
        if path.is_file():
            plan = make_plan(load_experiment(path), str(path))
            planned += plan.tests.values()
            found += [Trained(run.label, RunDirectory(run.path)) for run in plan.runs]
        else:
            found += _runs(path)
    systems = _with_distinct_names([each for each in found if each.run.has("best")])
    unready = [each.run.path for each in found if not each.run.has("best")]
    left_out = [f"{path}: no checkpoint yet; a run has one after its first validation" for path in unready]
    if not systems:
        raise FileError(*left_out)
    _refuse_different(systems)
    chosen = _test_set(None if test is None else TestSet(source=test[0], reference=test[1]), planned, systems)
    say_precisions([system.run for system in systems], say)
    for line in left_out:
        say(f"left out: {line}")
    sources, references = read_test_set(chosen.source, chosen.reference)
    if not any(map(str.strip, sources)):
        raise DataError(f"{chosen.source}: has no line with text")
    links = chosen.gold if gold[0] is None else schema.Gold(links=gold[0], first=gold[1])
    configs = {system.name: system.config for system in systems}
    return Collected(
        title=", ".join(dict.fromkeys(printable(Path(p).stem) if Path(p).is_file() else run_name(p) for p in paths)),
        systems=systems,
        test=chosen,
        sources=sources,
        gold=read_gold(chosen.source, chosen.reference, links.links, first=links.first).links if links else None,
        scoring=scoring(configs, sources, references, say, chosen.bins or ()),
    )


# --- the systems ------------------------------------------------------------------------------------------------------


def _runs(path: Path) -> list[Trained]:
    """Return the run of a run directory, or all runs of an output directory, in the order of its results."""
    if (path / "config.yaml").is_file():
        return [Trained(run_name(path), RunDirectory(path))]
    found = []
    for pattern in ("*/config.yaml", "*/seed-*/config.yaml"):
        for run in sorted(file.parent for file in path.glob(pattern)):
            name = ":".join(run.relative_to(path).parts).replace(":seed-", ":")
            found.append(Trained(name, RunDirectory(run)))
    if not found:
        near = [str(each) for each in path.resolve().parents if is_run(each)]
        wanted = *near, "a run directory, or an experiment's output directory or YAML file"
        raise DataError(f"{path}: holds no run; give {wanted[0]}")
    results = path / "results.csv"
    order = [row.get("system") for row in DictReader(read_lines(results))] if results.is_file() else []
    ranks = {system: rank for rank, system in enumerate(dict.fromkeys(order))}
    return sorted(found, key=lambda each: ranks.get(each.name.partition(":")[0], len(ranks)))


def _with_distinct_names(systems: Sequence[Trained]) -> list[Trained]:
    """Leave out runs that are given twice, and name different runs of one name by their paths."""
    kept = list({system.run.path.resolve(): system for system in systems}.values())
    counts = Counter(system.name for system in kept)
    return [replace(each, name=printable(str(each.run.path))) if counts[each.name] > 1 else each for each in kept]


def _refuse_different(systems: Sequence[Trained]) -> None:
    """Raise ConfigError for runs that translate in different directions."""
    sections = {system.name: system.config.data for system in systems}
    directions = {name: (data.source_language, data.target_language) for name, data in sections.items()}
    if len(set(directions.values())) > 1:
        named = ", ".join(f"{name} {' to '.join(languages)}" for name, languages in directions.items())
        raise ConfigError(f"the systems of a report translate in one direction; found {named}")


# --- the test set -----------------------------------------------------------------------------------------------------

NAME_ONE = "name one by --source and --reference"


def _test_set(named: TestSet | None, planned: Sequence[TestSet], systems: Sequence[Trained]) -> TestSet:
    """Choose the test set: the one that is named, the first of the experiment, or that of the runs. Raises ConfigError
    if there is none or if the runs have different ones, DataError if it is missing."""
    if named is not None:
        return next((each for each in planned if _files(each) == _files(named)), named)
    wanted = [each for each in planned if not each.optional or all(Path(file).exists() for file in each.files)][:1]
    if not wanted:
        own = [system.config.data.test for system in systems]
        whole = [each for each in own if isinstance(each, FileCorpus) and each.limit is None]
        wanted = [TestSet(source=each.source, reference=each.target) for each in whole]
    if not wanted:
        raise ConfigError(f"no system has a test set to report on: data.test of two whole files; {NAME_ONE}")
    if len(set(map(_files, wanted))) > 1:
        files = ", ".join(sorted({each.source for each in wanted}))
        raise ConfigError(f"the runs have different test sets ({files}); {NAME_ONE}")
    if missing := [path for path in (wanted[0].source, wanted[0].reference) if not Path(path).exists()]:
        raise DataError(
            *(f"{path}: no such file{tried(path)}" for path in missing),
            f"that is the test set of the runs; start where they were trained, or {NAME_ONE}",
        )
    return wanted[0]


def _files(test: TestSet) -> tuple[Path, Path]:
    return Path(test.source).resolve(), Path(test.reference).resolve()
