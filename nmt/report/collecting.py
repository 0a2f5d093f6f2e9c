"""What a report is made of, found and checked before anything is computed: the systems and their test set."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nmt.config.schema import BleuTokenizer, FileCorpus
from nmt.data.lines import read_lines
from nmt.errors import ConfigError, DataError, FileError, tried
from nmt.evaluation.writing import tokenizer_of_runs
from nmt.files import printable
from nmt.report.systems import Files, Found, TestSet, Trained, find_systems, name_of, read_test_set
from nmt.runs.changes import History
from nmt.runs.metrics import last_progress, read_metrics

Say = Callable[[str], None]


@dataclass(frozen=True)
class Collected:
    """The systems of a page, which translate in one direction and are scored alike, and the test set."""

    title: str
    systems: list[Trained]
    test: TestSet
    tokenizer: BleuTokenizer
    bins: tuple[int, ...]
    resamples: int
    notes: list[str]
    """What a reader of the scores has to know of single systems."""


def collect(paths: Sequence[str], test: Sequence[str] | None, gold: tuple[str | None, int], say: Say) -> Collected:
    """Find the runs of run directories, output directories of experiments and files of experiments.

    Args:
        paths: these.
        test: source and reference; None: those of the experiment, or else ``data.test``, which is the same for all runs
            that have one. The others are measured on it, too, and ``notes`` says so.
        gold: file with the word links of the test set, and the index of the first word in it; without a file, that of
            the experiment's test set, or ``evaluation.gold`` if it is of the same files.
        say: is told which runs of an experiment are left out, because they have no checkpoint yet.

    Raises the errors of :func:`~nmt.report.systems.find_systems`, ConfigError for runs that cannot be compared and
    where no test set is named, DataError for one that cannot be read.
    """
    wanted = None if test is None else Files(test[0], test[1])
    found = find_systems(paths, wanted)
    for problem in found.left_out:
        say(f"left out: {problem}")
    systems = found.systems
    _refuse_different(systems)
    files, notes = _common_test(found) if wanted is None else (_planned(found, wanted), [])
    for note in notes:
        say(note)
    links, first_word = gold
    files = _with_gold(files, systems) if links is None else replace(files, gold=links, gold_first=first_word)
    test_set = read_test_set(files)
    first = systems[0].config.evaluation
    return Collected(
        title=printable(", ".join(dict.fromkeys(name_of(Path(path)) for path in paths))),
        systems=systems,
        test=test_set,
        tokenizer=tokenizer_of_runs(
            {system.name: system.config for system in systems},
            test_set.references,
            say,
            "report those with the same one",
        ),
        bins=files.bins or found.bins.get(Path(files.source).name) or first.bins,
        resamples=first.bootstrap,
        notes=notes + _changed_in_training(systems),
    )


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
            changes = [each for each in History.of(system.run).changes if each.key.startswith(("training.", "model."))]
            notes += [f"{printable(system.name)}, {printable(str(change))}" for change in changes]
    return notes


def _planned(found: Found, wanted: Files) -> Files:
    """The test set that was named, as the experiment that has it describes it."""
    return next((each for each in found.planned if each.both == wanted.both), wanted)


def _common_test(found: Found) -> tuple[Files, list[str]]:
    """The test set of the experiment, or the one of the runs, and which systems have none. Raises ConfigError."""
    wanted, without = list(found.planned), dict[str, str]()
    if not wanted:
        for system in found.systems:
            own = system.config.data.test
            if isinstance(own, FileCorpus) and own.limit is None:
                wanted.append(Files(own.source, own.target))
            else:
                without[system.name] = "no data.test" if own is None else "a data.test that is not two whole files"
    if not wanted:
        problems = [f"{name}: has {what}" for name, what in without.items()]
        raise ConfigError(*problems, "no system has a test set to report on; name one with --test SOURCE REFERENCE")
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
    notes = [
        f"{printable(name)} has {what}: it is measured on {printable(first.source)}, the test set of the others"
        for name, what in without.items()
    ]
    return first, notes


def _with_gold(files: Files, systems: Sequence[Trained]) -> Files:
    """Add the links of ``evaluation.gold`` if they are of these files."""
    for system in systems:
        gold = system.config.evaluation.gold
        if files.gold is None and gold is not None and gold.limit is None and Path(gold.links).exists():
            candidate = Files(gold.source, gold.target, gold.links, gold.first, files.bins)
            if candidate.both == files.both:
                return candidate
    return files


@dataclass(frozen=True)
class Kept:
    """Translations of the test set that lie beside a run."""

    lines: list[str]
    bleu: float | None
    """What was written down for them; None where digests vouch for them."""


def kept_translations(system: Trained, test: TestSet) -> Kept | None:
    """Return the translations of the test set that the run or the experiment keeps, unless they are out of date.

    Those of an experiment have digests of what they were made from. Those that training wrote are of ``data.test``, and
    nothing may have been trained after them. The caller sees whether they have the BLEU that was written for them.
    """
    if system.translations is not None:
        lines = list(read_lines(system.translations))
        return Kept(lines, None) if len(lines) == len(test.pairs) else None
    run, own = system.run, system.config.data.test
    if not isinstance(own, FileCorpus) or Files(own.source, own.target).both != test.files.both:
        return None
    written = [each for each in read_metrics(run.metrics) if each.get("split") == "test"][-1:]
    if not written or not run.test_hypotheses.is_file():
        return None
    with suppress(FileError, LookupError, TypeError):
        update = last_progress(run.path)["update"]
        lines = list(read_lines(run.test_hypotheses))
        if written[0]["step"] == update and len(lines) == len(test.pairs):
            return Kept(lines, float(written[0]["bleu"]))
    return None
