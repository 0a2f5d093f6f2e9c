"""The systems of a report and their test set: found, and checked before anything is computed."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nmt.config import Config, load_run_config
from nmt.config.schema import BleuTokenizer, FileCorpus
from nmt.data.corpus import Pair, read_aligned, read_text
from nmt.data.lines import read_lines
from nmt.errors import CheckpointError, ConfigError, DataError, FileError, tried
from nmt.evaluation.alignment import Gold, read_gold
from nmt.evaluation.metrics import bleu
from nmt.evaluation.writing import tokenizer_of_runs
from nmt.experiments.plan import make_plan
from nmt.experiments.schema import TestSet, load_experiment
from nmt.experiments.scores import is_translated
from nmt.files import printable
from nmt.runs.changes import read_changes
from nmt.runs.directory import RunDirectory
from nmt.runs.metrics import last_progress, read_metrics

Say = Callable[[str], None]
SAME = 1e-6
"""Largest difference between a BLEU that was recorded and that of the translations it belongs to."""


@dataclass(frozen=True)
class Trained:
    """A run, and the name under which the page shows it."""

    name: str
    run: RunDirectory
    config: Config
    translations: Path | None = None
    """Translations of the experiment's test set that are current."""


@dataclass(frozen=True)
class Collected:
    """The systems of a page, which translate in one direction and are scored alike, and the test set."""

    title: str
    systems: list[Trained]
    test: TestSet
    pairs: list[Pair]
    gold: list[Gold] | None
    """Word links of each pair."""
    tokenizer: BleuTokenizer
    bins: tuple[int, ...]
    resamples: int
    notes: list[str]
    """Remarks on the scores of single systems."""

    @property
    def sources(self) -> list[str]:
        """The source lines of the test set."""
        return [pair.source for pair in self.pairs]

    @property
    def references(self) -> list[str]:
        """The reference lines of the test set."""
        return [pair.target for pair in self.pairs]


def collect(paths: Sequence[str], test: Sequence[str] | None, gold: tuple[str | None, int], say: Say) -> Collected:
    """Find the runs of run directories, output directories of experiments and files of experiments.

    Args:
        paths: these.
        test: source and reference; None: those of the experiment, or else ``data.test``, which is the same for all runs
            that have one. The other runs are measured on it, too; ``notes`` name them.
        gold: file with the word links of the test set, and the index of the first word in it; without a file, that of
            the experiment's test set, or ``evaluation.gold`` if it is of the same files.
        say: receives the notes, and the runs that are left out because they have no checkpoint yet.

    Raises DataError for a path that is no run and no experiment and for a test set that cannot be read, CheckpointError
    if no run has a checkpoint, ConfigError for runs that cannot be compared and where no test set is named.
    """
    named = None if test is None else TestSet(source=test[0], reference=test[1])
    found: list[Trained] = []
    planned: list[TestSet] = []
    for path in map(Path, paths):
        if path.is_file():
            _add_experiment(path, named, found, planned)
        else:
            found += _runs(path)
    systems = _with_distinct_names([each for each in found if each.run.has("best")])
    left_out = [
        f"{each.run.path}: no checkpoint yet; a run has one after its first validation"
        for each in found
        if not each.run.has("best")
    ]
    if not systems:
        raise CheckpointError(*left_out)
    _refuse_different(systems)
    chosen, notes = _test_set(named, planned, systems)
    for line in (*(f"left out: {problem}" for problem in left_out), *notes):
        say(line)
    links, first_word = gold
    pairs, alignments = _read(chosen, *(_links_of(chosen, systems) if links is None else (links, first_word)))
    first = systems[0].config.evaluation
    return Collected(
        title=printable(", ".join(dict.fromkeys(name_of(Path(path)) for path in paths))),
        systems=systems,
        test=chosen,
        pairs=pairs,
        gold=alignments,
        tokenizer=tokenizer_of_runs(
            {system.name: system.config for system in systems},
            [pair.target for pair in pairs],
            say,
            "report those with the same one",
        ),
        bins=chosen.bins or first.bins,
        resamples=first.bootstrap,
        notes=notes + _changed_in_training(systems),
    )


# --- the systems ------------------------------------------------------------------------------------------------------


def _runs(path: Path) -> list[Trained]:
    """Return the run of a run directory, or all runs of an experiment's output directory."""
    if (path / "config.yaml").is_file():
        return [_trained(name_of(path), path)]
    found = []
    for folder in sorted(path.iterdir(), key=_by_number) if path.is_dir() else ():
        seeds = [each for each in sorted(folder.glob("seed-*"), key=_by_number) if (each / "config.yaml").is_file()]
        if (folder / "config.yaml").is_file():
            found.append(_trained(folder.name, folder))
        for seed in seeds:
            label = f"{folder.name}:{seed.name.removeprefix('seed-')}" if len(seeds) > 1 else folder.name
            found.append(_trained(label, seed))
    if not found:
        raise DataError(f"{path}: holds no run; give a run directory, or an experiment's output directory or YAML file")
    return found


def _trained(name: str, path: Path) -> Trained:
    return Trained(name, RunDirectory(path), load_run_config(path))


def _add_experiment(path: Path, named: TestSet | None, found: list[Trained], planned: list[TestSet]) -> None:
    """Add the runs of an experiment's file, and its test set: the one that is named, or the first that is there."""
    plan = make_plan(load_experiment(path), str(path))
    tests = {
        name: test
        for name, test in plan.tests.items()
        if (_same(test, named) if named else not test.optional or all(Path(file).exists() for file in test.files))
    }
    name = next(iter(tests), None)
    planned += [] if name is None else [tests[name]]
    for run in plan.runs:
        label = run.label if len(plan.runs_of(run.system)) > 1 else run.system
        ready = name is not None and RunDirectory(run.path).has("best") and is_translated(plan, run, name)
        translations = plan.translations(run, name) if ready and name else None
        found.append(Trained(label, RunDirectory(run.path), run.config, translations))


def _by_number(path: Path) -> list[tuple[str, int]]:
    """Sort numbers in names by their values: seed-2 comes before seed-10."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", path.name)]


def name_of(path: Path) -> str:
    """Name a run or an experiment by its path: ``runs/family/lstm/seed-1`` is lstm."""
    path = path.absolute()
    own = path.parent.name if path.name.startswith("seed-") else path.stem if path.is_file() else path.name
    return printable(own) or "report"


def _with_distinct_names(systems: Sequence[Trained]) -> list[Trained]:
    """Leave out runs that are given twice, and name different runs of one name by their paths."""
    once = {system.run.path.resolve(): system for system in reversed(systems)}
    kept = list(reversed(once.values()))
    counts = Counter(system.name for system in kept)
    return [replace(each, name=printable(str(each.run.path))) if counts[each.name] > 1 else each for each in kept]


def _refuse_different(systems: Sequence[Trained]) -> None:
    """Raise ConfigError for runs that translate in different directions."""
    directions = {
        system.name: (system.config.data.source_language, system.config.data.target_language) for system in systems
    }
    if len(set(directions.values())) > 1:
        named = ", ".join(f"{name} {' to '.join(languages)}" for name, languages in directions.items())
        raise ConfigError(f"the systems of a report translate in one direction; found {named}")


def _changed_in_training(systems: Sequence[Trained]) -> list[str]:
    """Return what was changed in the model or the training of a run after its first update."""
    notes = []
    for system in systems:
        with suppress(FileError):  # a system is measured without its manifest, too
            changes = [each for each in read_changes(system.run) if each.key.startswith(("training.", "model."))]
            notes += [f"{printable(system.name)}, {printable(str(change))}" for change in changes]
    return notes


# --- the test set -----------------------------------------------------------------------------------------------------


def _paths(test: TestSet) -> tuple[Path, Path]:
    return Path(test.source).resolve(), Path(test.reference).resolve()


def _same(test: TestSet, other: TestSet) -> bool:
    """Whether two test sets are the same two files."""
    return _paths(test) == _paths(other)


def _own_test(system: Trained) -> TestSet | None:
    """Return ``data.test`` of a run, if it is two whole files."""
    own = system.config.data.test
    whole = isinstance(own, FileCorpus) and own.limit is None
    return TestSet(source=own.source, reference=own.target) if isinstance(own, FileCorpus) and whole else None


def _test_set(
    named: TestSet | None, planned: Sequence[TestSet], systems: Sequence[Trained]
) -> tuple[TestSet, list[str]]:
    """Choose the test set, and note the systems that have another. Raises ConfigError."""
    if named is not None:
        return next((each for each in planned if _same(each, named)), named), []
    own = {} if planned else {system.name: _own_test(system) for system in systems}
    wanted = [*planned, *(each for each in own.values() if each is not None)]
    if not wanted:
        raise ConfigError(
            *(f"{name}: has no data.test of two whole files" for name in own),
            "no system has a test set to report on; name one with --source and --reference",
        )
    if not all(_same(each, wanted[0]) for each in wanted):
        files = ", ".join(sorted({each.source for each in wanted}))
        raise ConfigError(f"the runs have different test sets ({files}); name one with --source and --reference")
    missing = [path for path in (wanted[0].source, wanted[0].reference) if not Path(path).exists()]
    if missing:
        raise DataError(
            *(f"{path}: no such file{tried(path)}" for path in missing),
            "that is the test set of the runs; start where they were trained, or name one by --source and --reference",
        )
    shown = printable(wanted[0].source)
    without = [printable(name) for name, each in own.items() if each is None]
    return wanted[0], [f"{name} has no such data.test: it is measured on {shown} of the others" for name in without]


def _links_of(test: TestSet, systems: Sequence[Trained]) -> tuple[str | None, int]:
    """Return the file of a test set's word links and the index of their first word: the experiment's, or those of
    ``evaluation.gold`` if it is of the same files."""
    if test.gold is not None:
        return test.gold.links, test.gold.first
    for each in (system.config.evaluation.gold for system in systems):
        whole = each is not None and each.limit is None and Path(each.links).exists()
        if each is not None and whole and _same(TestSet(source=each.source, reference=each.target), test):
            return each.links, each.first
    return None, 0


def _read(test: TestSet, links: str | None, first: int) -> tuple[list[Pair], list[Gold] | None]:
    """Read a test set and its word links. Raises DataError for unreadable files and for files without text."""
    if links is not None:
        gold = read_gold(test.source, test.reference, links, first=first)
        pairs, alignments = gold.pairs, gold.links
    else:
        sources = read_text(test.source)
        references = read_aligned(test.reference, test.source, len(sources))
        pairs, alignments = [Pair(*each) for each in zip(sources, references, strict=True)], None
    if not any(pair.source.strip() for pair in pairs):
        raise DataError(f"{test.source}: has no line with text")
    return pairs, alignments


# --- translations that exist ------------------------------------------------------------------------------------------


def kept_translations(system: Trained, collected: Collected) -> list[str] | None:
    """Return the translations of the test set that the run or the experiment keeps, unless they are out of date.

    Those of an experiment have digests of all that they depend on. Those that training wrote are of ``data.test``:
    nothing may have been trained after them, and they have the BLEU that was recorded.
    """
    if system.translations is not None:
        lines = list(read_lines(system.translations))
        return lines if len(lines) == len(collected.pairs) else None
    own, run = _own_test(system), system.run
    if own is None or not _same(own, collected.test) or not run.test_hypotheses.is_file():
        return None
    with suppress(FileError, LookupError, TypeError):
        written = [each for each in read_metrics(run.metrics) if each.get("split") == "test"][-1]
        lines = list(read_lines(run.test_hypotheses))
        current = written["step"] == last_progress(run.path)["update"] and len(lines) == len(collected.pairs)
        if current and abs(bleu(lines, collected.references, collected.tokenizer).value - written["bleu"]) <= SAME:
            return lines
    return None
