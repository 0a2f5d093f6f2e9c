"""``nmt-length-curve``: BLEU against source length, one curve for each system, as figure and numbers."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nmt.cli.common import DEVICE_OPTIONS, SEARCH_OPTIONS, add_decoding_options, command, say
from nmt.cli.evaluate import add_test_set_options, read_test_set, translate
from nmt.cli.scoring import Scoring, add_tokenizer_option, scoring
from nmt.cli.systems import (
    System,
    add_system_options,
    check_systems,
    origins,
    read_ready,
    refuse_overwriting_systems,
)
from nmt.config import load_run_config
from nmt.config.schema import Evaluation
from nmt.errors import ConfigError
from nmt.evaluation.by_length import format_rows, format_scores, score_system
from nmt.evaluation.kept import Range, format_kept, kept, ranges
from nmt.evaluation.metrics import Integers
from nmt.evaluation.significance import compare_by_length, compare_overall, format_comparisons, format_overall
from nmt.evaluation.writing import BinnedBy, lengths
from nmt.foundation.files import printable
from nmt.plots.about import About
from nmt.plots.files import KINDS, make_folder
from nmt.plots.length_curve import write_length_curve


def parser() -> argparse.ArgumentParser:
    """The options of ``nmt-length-curve``."""
    arguments = argparse.ArgumentParser(prog="nmt-length-curve", description=__doc__)
    add_test_set_options(arguments)
    add_system_options(arguments, "RUN_OR_HYPOTHESES", "STEM.png, .svg, .json and .csv")
    arguments.add_argument(
        "--bin-by",
        choices=("source", "reference", "pieces"),
        default="source",
        help="the length of the source (the default), of the reference, or of the source in pieces of the first run's "
        "tokenizer",
    )
    add_tokenizer_option(arguments)
    for name, which in (("--short", "shortest"), ("--long", "longest")):
        arguments.add_argument(
            name,
            type=length_range,
            metavar="N-M",
            help="lengths, both included, for the share of BLEU that is kept from short to long sentences (default: "
            f"the {which} bin of at least --min-sentences)",
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
    refuse_overwriting_systems(arguments, KINDS)
    configs = {system: load_run_config(system.path) for system in runs}
    evaluation = configs[runs[0]].evaluation if runs else Evaluation()
    bins, resamples = arguments.bins or evaluation.bins, evaluation.bootstrap
    sources, references = read_test_set(arguments.source, arguments.reference)
    ready = read_ready(arguments, len(sources), SEARCH_OPTIONS + DEVICE_OPTIONS)
    labelled = {f"--system {system.name}={system.path}": config for system, config in configs.items()}
    how = scoring(arguments.bleu_tokenizer, labelled, sources, references)
    binned_by, measured = lengths_of(arguments.bin_by, sources, references, how, runs)
    sides = ranges(measured, bins, arguments.min_sentences, arguments.short, arguments.long)
    make_folder(arguments.output)  # as all the above: what can fail, fails before the slow part
    translations = [  # every run is loaded before the first translates
        ready.get(system) or translate(system.path, arguments.source, sources, arguments) for system in systems
    ]
    hypotheses: dict[str, list[list[str]]] = {}
    for system, lines in zip(systems, translations, strict=True):
        hypotheses.setdefault(system.name, []).append(list(lines))
    scored = [
        score_system(
            name, measured, first, references, tokenizer=how.tokenizer, bins=bins, resamples=resamples, others=others
        )
        for name, (first, *others) in hypotheses.items()
    ]
    comparisons = compare_by_length(scored, measured, bins=bins, resamples=resamples)
    overall = compare_overall(scored, resamples=resamples)
    shares = kept(scored, measured, *sides, resamples=resamples) if sides else None
    paths = write_length_curve(
        scored,
        arguments.output,
        about=About(
            printable(Path(arguments.source).name),
            resamples,
            binned_by,
            arguments.min_sentences,
            origins(arguments, configs, ready),
        ),
        title=arguments.title,
        comparisons=comparisons,
        overall=overall,
        kept=shares,
    )
    for each in scored:
        print(each.name, format_scores(each), sep="\n")
    print(format_rows([row for each in scored for row in each.rows], binned_by.column))
    if comparisons:
        print(f"by length, paired bootstrap, two-sided:\n{format_comparisons(comparisons)}")
        print(f"whole test set, 95% interval, two-sided:\n{format_overall(overall)}")
    if shares:
        print(format_kept(shares, binned_by.column))
    else:
        say(f"share kept: no two bins have {arguments.min_sentences} sentences; --short and --long choose lengths")
    say("written: " + ", ".join(map(str, paths)))


def length_range(text: str) -> Range:
    """An argument type: two whole numbers, the smaller first, as in 11-20."""
    low, _, high = text.partition("-")
    try:
        found = int(low), int(high)
    except ValueError:
        found = 1, 0
    if not 0 <= found[0] <= found[1]:
        raise argparse.ArgumentTypeError(f"'{text}' is not a range of lengths, as in 11-20")
    return found


def lengths_of(
    kind: str, sources: Sequence[str], references: Sequence[str], how: Scoring, runs: Sequence[System]
) -> tuple[BinnedBy, Integers]:
    """The length of each sentence by which ``--bin-by`` bins, and what it is. Raises ConfigError."""
    if kind == "source":
        return BinnedBy("source", how.source_unit), lengths(sources, how.source_unit)
    if kind == "reference":
        return BinnedBy("reference", how.reference_unit), lengths(references, how.reference_unit)
    if not runs:
        raise ConfigError("--bin-by pieces: needs a run among the systems, whose tokenizer cuts the source into pieces")
    from nmt.data.tokenizer import Tokenizers  # noqa: PLC0415  (scoring files needs none)

    tokenizer = Tokenizers.load(Path(runs[0].path) / "tokenizer").source
    return BinnedBy("source", "pieces"), np.array([len(ids) for ids in tokenizer.encode(sources)], np.int64)
