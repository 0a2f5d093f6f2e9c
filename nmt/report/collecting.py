"""What a report is made of, found and checked before anything is computed: runs, their names, and the test set."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nmt.config import Config, load_run_config
from nmt.config.schema import BleuTokenizer, FileCorpus
from nmt.data.corpus import Pair, different_line_counts
from nmt.data.lines import read_lines
from nmt.errors import CheckpointError, ConfigError, DataError, tried
from nmt.evaluation.links import Gold, read_gold
from nmt.evaluation.metrics import bleu
from nmt.evaluation.writing import tokenizer_of_run
from nmt.experiments.plan import Plan, make_plan
from nmt.experiments.schema import load_experiment
from nmt.experiments.scores import is_translated
from nmt.foundation.files import printable, read_json
from nmt.runs.directory import RunDirectory
from nmt.runs.metrics import read_metrics

SAME = 1e-6
"""Difference up to which a BLEU that was written is that of the translations beside it."""
Say = Callable[[str], None]


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
class Trained:
    """A run with a checkpoint, and the name under which the page shows it."""

    name: str
    run: RunDirectory
    config: Config
    translations: Path | None = None
    """Translations of the experiment's test set that are current."""


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


@dataclass(frozen=True)
class Collected:
    """The systems of a page, which translate in one direction and are scored alike, and the test set."""

    title: str
    systems: list[Trained]
    test: TestSet
    tokenizer: BleuTokenizer
    bins: tuple[int, ...]
    resamples: int


@dataclass
class _Found:
    systems: list[Trained] = field(default_factory=list)
    planned: list[Files] = field(default_factory=list)
    """Test sets of experiments."""
    left_out: list[str] = field(default_factory=list)


def collect(paths: Sequence[str], test: Sequence[str] | None, gold: tuple[str | None, int], say: Say) -> Collected:
    """Find the runs of run directories, output directories of experiments and files of experiments.

    Args:
        paths: these.
        test: source and reference; None: those of the experiment, or else ``data.test``, which all runs must share.
        gold: file with the word links of the test set, and the index of the first word in it; without a file, that of
            the experiment's test set, or ``evaluation.gold`` if it is of the same files.
        say: is told which runs of an experiment are left out, because they have no checkpoint yet.

    Raises DataError for a path that is none of these, CheckpointError for a run without a checkpoint, ConfigError for
    runs that cannot be compared, and where there is no test set.
    """
    found, wanted = _Found(), None if test is None else Files(test[0], test[1])
    for path in paths:
        _add(found, Path(path), wanted)
    if found.left_out and not found.systems:
        raise CheckpointError(*found.left_out)
    for problem in found.left_out:
        say(f"left out: {problem}")
    systems = _with_distinct_names(found.systems)
    _refuse_different(systems)
    files = wanted or _common_test(found, systems)
    links, first_word = gold
    files = _with_gold(files, systems) if links is None else replace(files, gold=links, gold_first=first_word)
    test_set = _read(files)
    first = systems[0].config.evaluation
    return Collected(
        title=printable(" ".join(dict.fromkeys(_name(Path(path)) for path in paths))),
        systems=systems,
        test=test_set,
        tokenizer=_tokenizer(systems, test_set.references),
        bins=files.bins or first.bins,
        resamples=first.bootstrap,
    )


# --- runs -------------------------------------------------------------------------------------------------------------


def _add(found: _Found, path: Path, test: Files | None) -> None:
    if path.is_file():
        _add_experiment(found, path, test)
    elif _is_run(path):
        run = RunDirectory(path)
        if not run.has("best"):
            raise CheckpointError(f"{path}: no checkpoint yet; a run has one after its first validation")
        found.systems.append(Trained(_name(path), run, load_run_config(path)))
    elif runs := _runs_below(path):
        several = Counter(name for name, _ in runs)
        for name, folder in runs:
            label = f"{name}:{folder.name.removeprefix('seed-')}" if several[name] > 1 else name
            _add_unless_new(found, Trained(label, RunDirectory(folder), load_run_config(folder)))
    else:
        problem = "holds no run" if path.is_dir() else f"no such file or directory{tried(path)}"
        raise DataError(f"{path}: {problem}; give a run directory, or an experiment's output directory or YAML file")


def _add_experiment(found: _Found, path: Path, test: Files | None) -> None:
    plan = make_plan(load_experiment(path), str(path)).compared()
    name = _test_of(plan, test)
    if test is None and name is not None:
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


def _add_unless_new(found: _Found, system: Trained) -> None:
    if system.run.has("best"):
        found.systems.append(system)
    else:
        found.left_out.append(f"{system.run.path}: no checkpoint yet; a run has one after its first validation")


def _is_run(path: Path) -> bool:
    return (path / "config.yaml").is_file()


def _runs_below(path: Path) -> list[tuple[str, Path]]:
    """System and run directory of each run of an experiment's output directory."""
    if not path.is_dir():
        return []
    runs = []
    for child in sorted(each for each in path.iterdir() if each.is_dir()):
        seeds = sorted(child.glob("seed-*"))
        runs += [(child.name, each) for each in ([child] if _is_run(child) else seeds) if _is_run(each)]
    return runs


def _name(path: Path) -> str:
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


def _refuse_different(systems: Sequence[Trained]) -> None:
    """Raise ConfigError for runs that translate in different directions."""
    directions = {
        system.name: (system.config.data.source_language, system.config.data.target_language) for system in systems
    }
    if len(set(directions.values())) > 1:
        named = ", ".join(f"{name} {' to '.join(languages)}" for name, languages in directions.items())
        raise ConfigError(f"the systems of a report translate in one direction; found {named}")


def _tokenizer(systems: Sequence[Trained], references: Sequence[str]) -> BleuTokenizer:
    choices = {system.name: tokenizer_of_run(system.config, references).tokenizer for system in systems}
    if len(set(choices.values())) > 1:
        named = ", ".join(f"{name} {tokenizer}" for name, tokenizer in choices.items())
        raise ConfigError(f"scores by different tokenizers of BLEU (evaluation.bleu_tokenizer) do not compare: {named}")
    return next(iter(choices.values()))


# --- the test set -----------------------------------------------------------------------------------------------------


def _common_test(found: _Found, systems: Sequence[Trained]) -> Files:
    """The test set of the experiment, or the one that all runs have. Raises ConfigError."""
    wanted = list(found.planned)
    if not wanted:
        for system in systems:
            own = system.config.data.test
            if not isinstance(own, FileCorpus) or own.limit is not None:
                has = "no data.test" if own is None else "a data.test that is not two whole files"
                raise ConfigError(f"{system.run.path}: has {has}; name a test set with --test SOURCE REFERENCE")
            wanted.append(Files(own.source, own.target))
    if len({files.both for files in wanted}) > 1:
        named = ", ".join(sorted({files.source for files in wanted}))
        raise ConfigError(f"the runs have different test sets ({named}); name one with --test SOURCE REFERENCE")
    first = wanted[0]
    missing = [path for path in (first.source, first.reference) if not Path(path).exists()]
    if missing:
        raise DataError(
            *(f"{path}: no such file{tried(path)}" for path in missing),
            "that is the test set of the runs; start where they were trained, or name one with --test SOURCE REFERENCE",
        )
    return first


def _with_gold(files: Files, systems: Sequence[Trained]) -> Files:
    """Add the links of ``evaluation.gold`` if they are of these files."""
    for system in systems:
        gold = system.config.evaluation.gold
        if files.gold is None and gold is not None and gold.limit is None and Path(gold.links).exists():
            candidate = Files(gold.source, gold.target, gold.links, gold.first, files.bins)
            if candidate.both == files.both:
                return candidate
    return files


def _read(files: Files) -> TestSet:
    """Read a test set. Raises DataError."""
    if files.gold is not None:
        read = read_gold(files.source, files.reference, files.gold, first=files.gold_first)
        pairs, gold = read.pairs, read.links
    else:
        sources, references = (list(read_lines(path)) for path in (files.source, files.reference))
        if len(sources) != len(references):
            raise different_line_counts(files.source, len(sources), files.reference, len(references))
        pairs, gold = [Pair(*each) for each in zip(sources, references, strict=True)], None
    if not any(pair.source.strip() for pair in pairs):
        raise DataError(f"{files.source}: has no line with text")
    return TestSet(files, pairs, gold)


def kept_translations(system: Trained, collected: Collected) -> list[str] | None:
    """Return the translations of the test set that the run or the experiment keeps, if they are current.

    Those of an experiment carry digests of what they were made from. Those that training wrote are current if nothing
    was trained after them, the test set is ``data.test``, and they have the BLEU that was written for them.
    """
    test = collected.test
    if system.translations is not None:
        lines = list(read_lines(system.translations))
        return lines if len(lines) == len(test.pairs) else None
    run, own = system.run, system.config.data.test
    if not isinstance(own, FileCorpus) or Files(own.source, own.target).both != test.files.both:
        return None
    if not run.test_hypotheses.is_file():
        return None
    lines = list(read_lines(run.test_hypotheses))
    written = [each for each in read_metrics(run.metrics) if each.get("split") == "test"][-1:]
    try:
        update = read_json(run.checkpoints / "last" / "training.json")["update"]
    except (LookupError, TypeError, OSError):
        return None
    if len(lines) != len(test.pairs) or not written or written[0].get("step") != update:
        return None
    now = bleu(lines, test.references, collected.tokenizer).value
    return lines if abs(now - float(written[0].get("bleu", -1.0))) < SAME else None


def right_to_left(lines: Iterable[str]) -> bool:
    """Whether most letters of a text are written from right to left."""
    counts = Counter(unicodedata.bidirectional(letter) for letter in "".join(lines) if letter.isalpha())
    return 2 * (counts["R"] + counts["AL"]) > counts.total()
