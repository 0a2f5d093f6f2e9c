"""``nmt-length-curve``: BLEU against source length, one curve for each system, as figure and numbers."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.cli.common import add_decoding_options, command, refuse_overwriting, say
from nmt.cli.evaluate import (
    add_test_set_options,
    read_hypotheses,
    read_test_set,
    refuse_decoding_options,
    translate,
)
from nmt.config import load_run_config
from nmt.config.schema import Evaluation
from nmt.errors import ConfigError, DataError, tried
from nmt.evaluation.by_length import format_rows, format_scores, score_system
from nmt.evaluation.significance import compare_by_length, format_comparisons
from nmt.files import readable
from nmt.plots.files import make_folder
from nmt.plots.length_curve import BINNED_BY, ENDINGS, write_length_curve


class System(NamedTuple):
    """A system and where its translations come from."""

    name: str
    path: str
    """A run directory, or a file of hypotheses."""


def parser() -> argparse.ArgumentParser:
    """The options of ``nmt-length-curve``."""
    arguments = argparse.ArgumentParser(prog="nmt-length-curve", description=__doc__)
    add_test_set_options(arguments)
    arguments.add_argument(
        "--system",
        action="append",
        required=True,
        type=system_argument("RUN_OR_HYPOTHESES"),
        metavar="NAME=RUN_OR_HYPOTHESES",
        dest="systems",
        help="a run directory, or a file of translations: a curve; given again under the same name, a further seed of "
        "the system, of which the curve is the mean",
    )
    arguments.add_argument("--output", required=True, metavar="STEM", help="STEM.png, .svg, .json and .csv are written")
    arguments.add_argument(
        "--bin-by",
        choices=tuple(BINNED_BY),
        default="source",
        help="whose length, and in what (default: source, in words)",
    )
    arguments.add_argument("--title", metavar="TEXT", help="above the figure")
    add_decoding_options(arguments)
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Score every system, draw the figure, and print the table."""
    systems: list[System] = arguments.systems
    runs = [system for system in systems if Path(system.path).is_dir()]
    check_systems(systems)
    refuse_overwriting(
        [
            ("--source", arguments.source),
            ("--reference", arguments.reference),
            *((f"--system {system.name}={system.path}", system.path) for system in systems),
        ],
        [(f"--output {arguments.output}:", f"{arguments.output}{ending}") for ending in ENDINGS],
    )
    if runs:
        evaluation = load_run_config(runs[0].path).evaluation
    else:
        evaluation = Evaluation()
        refuse_decoding_options(arguments, "every --system is a file, there is no run to translate with")
    bins, resamples = arguments.bins or evaluation.bins, evaluation.bootstrap
    sources, references = read_test_set(arguments.source, arguments.reference)
    ready = {
        system.path: read_hypotheses(system.path, arguments.source, len(sources))
        for system in systems
        if system not in runs
    }
    make_folder(arguments.output)  # as all the above: what can fail, fails before the slow part
    translations = [  # every run is loaded before the first translates
        ready.get(system.path) or translate(system.path, arguments.source, sources, arguments) for system in systems
    ]
    measured = lengths_of(arguments.bin_by, sources, references, runs)
    hypotheses: dict[str, list[list[str]]] = {}
    for system, lines in zip(systems, translations, strict=True):
        hypotheses.setdefault(system.name, []).append(list(lines))
    scored = [
        score_system(name, measured, first, references, bins=bins, resamples=resamples, others=others)
        for name, (first, *others) in hypotheses.items()
    ]
    comparisons = compare_by_length(hypotheses, measured, references, bins=bins, resamples=resamples)
    paths = write_length_curve(
        scored,
        arguments.output,
        test_set=readable(Path(arguments.source).name),
        resamples=resamples,
        title=arguments.title,
        comparisons=comparisons,
        binned_by=arguments.bin_by,
    )
    for each in scored:
        print(each.name, format_scores(each), sep="\n")
    print(format_rows([row for each in scored for row in each.rows], BINNED_BY[arguments.bin_by][2]))
    if comparisons:
        print(f"paired bootstrap, two-sided:\n{format_comparisons(comparisons)}")
    say("written: " + ", ".join(map(str, paths)))


def lengths_of(kind: str, sources: Sequence[str], references: Sequence[str], runs: Sequence[System]) -> Sequence[str]:
    """Lines that have as many words as the length of each sentence is to be. Raises ConfigError."""
    if kind == "source":
        return sources
    if kind == "reference":
        return references
    if not runs:
        raise ConfigError("--bin-by pieces: needs a run among the systems, whose tokenizer cuts the source into pieces")
    from nmt.tokenizer import Tokenizers  # noqa: PLC0415  (scoring files needs none)

    tokenizer = Tokenizers.load(Path(runs[0].path) / "tokenizer").source
    return [" ".join(["piece"] * len(ids)) for ids in tokenizer.encode(sources)]


def system_argument(path: str) -> Callable[[str], System]:
    """An argument type: NAME= and what ``path`` calls the rest."""

    def parse(text: str) -> System:
        name, equals, rest = text.partition("=")
        name = readable(name)
        if not (name.strip() and equals and rest):
            raise argparse.ArgumentTypeError(f"'{text}' is not NAME={path}, as in bahdanau=runs/demo/bahdanau")
        return System(name.strip(), rest)

    return parse


def check_systems(systems: Sequence[System], *, runs_only: bool = False) -> None:
    """Raise ConfigError for a system that is given twice, DataError for a path that is not what it should be."""
    places = [(system.name, Path(system.path).resolve()) for system in systems]
    repeated = sorted({system for number, system in enumerate(systems) if places[number] in places[:number]})
    if repeated:
        raise ConfigError(*(f"--system {name}={path}: is given twice" for name, path in repeated))
    wanted = "run directory" if runs_only else "run directory or file of translations"
    problems = []
    for system in systems:
        path = Path(system.path)
        if not path.exists():
            problems.append(f"--system {system.name}: {path}: no such {wanted}{tried(path)}")
        elif (runs_only or path.is_dir()) and not (path / "config.yaml").is_file():
            problems.append(f"--system {system.name}: {path}: no run directory of nmt-train: config.yaml is missing")
    if problems:
        raise DataError(*problems)
