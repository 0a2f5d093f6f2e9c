"""The systems of a report and their test set: runs of run directories, of output directories of experiments, and of
experiments' files."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nmt.config import Config, load_run_config
from nmt.data.corpus import Pair
from nmt.data.test_set import read_aligned, read_text
from nmt.errors import CheckpointError, DataError, FileError, tried
from nmt.evaluation.alignment import Gold, read_gold
from nmt.experiments.plan import Plan, make_plan
from nmt.experiments.schema import load_experiment
from nmt.experiments.scores import is_translated
from nmt.files import printable, read_json
from nmt.runs.directory import RunDirectory


@dataclass(frozen=True)
class Files:
    """The files of a test set."""

    source: str
    reference: str
    gold: str | None = None
    """Word links of each pair."""
    gold_first: int = 0
    """Index of the first word in them."""
    bins: tuple[int, ...] | None = None
    """Largest source length of each bin; None: those of the first run."""

    @property
    def both(self) -> tuple[Path, Path]:
        """Source and reference, by which two test sets are the same."""
        return Path(self.source).resolve(), Path(self.reference).resolve()


@dataclass(frozen=True)
class TestSet:
    """The lines of a test set."""

    files: Files
    pairs: list[Pair]
    gold: list[Gold] | None

    @property
    def sources(self) -> list[str]:
        """The source lines."""
        return [pair.source for pair in self.pairs]

    @property
    def references(self) -> list[str]:
        """The reference lines."""
        return [pair.target for pair in self.pairs]


def read_test_set(files: Files) -> TestSet:
    """Read the files. Raises DataError for files that cannot be read or do not fit together, and without any text."""
    if files.gold is not None:
        read = read_gold(files.source, files.reference, files.gold, first=files.gold_first)
        pairs, gold = read.pairs, read.links
    else:
        sources = read_text(files.source)
        references = read_aligned(files.reference, files.source, len(sources))
        pairs, gold = [Pair(*each) for each in zip(sources, references, strict=True)], None
    if not any(pair.source.strip() for pair in pairs):
        raise DataError(f"{files.source}: has no line with text")
    return TestSet(files, pairs, gold)


def right_to_left(lines: Iterable[str]) -> bool:
    """Whether most letters of a text are written from right to left."""
    counts = Counter(unicodedata.bidirectional(letter) for letter in "".join(lines) if letter.isalpha())
    return 2 * (counts["R"] + counts["AL"]) > counts.total()


UNSAVED = "no checkpoint yet; a run has one after its first validation"


@dataclass(frozen=True)
class Trained:
    """A run with a checkpoint, and the name under which the page shows it."""

    name: str
    run: RunDirectory
    config: Config
    translations: Path | None = None
    """Translations of the experiment's test set that are current."""


@dataclass
class Found:
    """Systems, and what the experiments say about them."""

    systems: list[Trained] = field(default_factory=list)
    planned: list[Files] = field(default_factory=list)
    """Test sets of experiments: the one that was named, with the experiment's bins and links, or the first."""
    bins: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By the name of a test set's source file, the largest length of each bin in a curve of a finished experiment."""
    left_out: list[str] = field(default_factory=list)
    """Runs of experiments without a checkpoint, and why."""


def find_systems(paths: Sequence[str], test: Files | None) -> Found:
    """Look behind each path; ``test`` is the test set that was named, if any.

    Raises DataError for a path that is no run and no experiment, CheckpointError for a run without a checkpoint and for
    experiments that have none with one.
    """
    found = Found()
    for path in paths:
        _add(found, Path(path), test)
    if found.left_out and not found.systems:
        raise CheckpointError(*found.left_out)
    found.systems = _with_distinct_names(found.systems)
    return found


def _add(found: Found, path: Path, test: Files | None) -> None:
    if path.is_file():
        _add_experiment(found, path, test)
    elif _is_run(path):
        run = RunDirectory(path)
        if not run.has("best"):
            raise CheckpointError(f"{path}: {UNSAVED}")
        found.systems.append(Trained(name_of(path), run, load_run_config(path)))
    elif runs := _runs_below(path):
        for curve in sorted(path.glob("*.json")):
            found.bins |= _bins_of_curve(curve)
        several = Counter(name for name, _ in runs)
        for name, folder in runs:
            label = f"{name}:{folder.name.removeprefix('seed-')}" if several[name] > 1 else name
            _add_unless_new(found, Trained(label, RunDirectory(folder), load_run_config(folder)))
    else:
        problem = "holds no run" if path.is_dir() else f"no such file or directory{tried(path)}"
        raise DataError(f"{path}: {problem}; give a run directory, or an experiment's output directory or YAML file")


def _bins_of_curve(path: Path) -> dict[str, tuple[int, ...]]:
    """The bins of a length curve by source length that a finished experiment drew; nothing for any other file."""
    with suppress(FileError, LookupError, TypeError, AttributeError, ValueError):
        curve = read_json(path)
        if "raw source line" not in curve["binned_by"]:  # binned by the reference, or by pieces
            return {}
        rows = next(iter(curve["systems"].values()))["by_length"]
        edges = {int(edge) for row in rows for edge in (row["low"] - 1, row["high"])} - {0}
        return {str(curve["test_set"]): tuple(sorted(edges))} if edges else {}
    return {}


def _add_experiment(found: Found, path: Path, test: Files | None) -> None:
    plan = make_plan(load_experiment(path), str(path)).compared()
    name = _test_of(plan, test)
    if name is not None:
        of = plan.tests[name]
        links, first = (of.gold.links, of.gold.first) if of.gold else (None, 0)
        found.planned.append(Files(of.source, of.reference, links, first, of.bins))
    for run in plan.runs:
        label = run.label if len(plan.runs_of(run.system)) > 1 else run.system
        if not run.path.is_dir():
            found.left_out.append(f"{run.path}: not trained yet; nmt-experiment --config {path} trains it")
            continue
        ready = name is not None and RunDirectory(run.path).has("best") and is_translated(plan, run, name)
        translations = plan.translations(run, name) if ready and name else None
        _add_unless_new(found, Trained(label, RunDirectory(run.path), load_run_config(run.path), translations))


def _test_of(plan: Plan, test: Files | None) -> str | None:
    """The name of the test set that is meant, or the first that can be read."""
    for name, of in plan.tests.items():
        if test is not None and Files(of.source, of.reference).both == test.both:
            return name
        if test is None and (not of.optional or all(Path(file).exists() for file in of.files)):
            return name
    return None


def _add_unless_new(found: Found, system: Trained) -> None:
    if system.run.has("best"):
        found.systems.append(system)
    else:
        found.left_out.append(f"{system.run.path}: {UNSAVED}")


def _is_run(path: Path) -> bool:
    return (path / "config.yaml").is_file()


def _runs_below(path: Path) -> list[tuple[str, Path]]:
    """System and run directory of each run of an experiment's output directory."""
    if not path.is_dir():
        return []
    runs, order = [], _order_of_results(path)
    folders = [each for each in path.iterdir() if each.is_dir()]
    for child in sorted(folders, key=lambda each: (order.get(each.name, len(order)), _by_number(each))):
        seeds = sorted(child.glob("seed-*"), key=_by_number)
        runs += [(child.name, each) for each in ([child] if _is_run(child) else seeds) if _is_run(each)]
    return runs


def _by_number(path: Path) -> list[tuple[str, int]]:
    """Sort numbers in names by their values: seed-2 comes before seed-10."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", path.name)]


def _order_of_results(path: Path) -> dict[str, int]:
    """The place of each system in the table of a finished experiment, which has the order of its file."""
    with suppress(FileError, LookupError, TypeError):
        rows = read_json(path / "results.json")["rows"]
        return {str(name): place for place, name in enumerate(dict.fromkeys(row["system"] for row in rows))}
    return {}


def name_of(path: Path) -> str:
    """Name a run or an experiment by its path: ``runs/family/lstm/seed-1`` is lstm."""
    path = path.absolute()
    own = path.parent.name if path.name.startswith("seed-") else path.stem if path.is_file() else path.name
    return printable(own) or "report"


def _with_distinct_names(systems: Sequence[Trained]) -> list[Trained]:
    """Leave out runs that are given twice, and tell apart different runs of one name by their paths."""
    once = {system.run.path.resolve(): system for system in reversed(systems)}
    kept = list(reversed(once.values()))
    counts = Counter(system.name for system in kept)
    return [
        Trained(printable(str(each.run.path)), each.run, each.config, each.translations)
        if counts[each.name] > 1
        else each
        for each in kept
    ]
