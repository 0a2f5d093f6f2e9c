"""Plot BLEU against source length with one curve per system, and write the figure and its numbers.

examples:
  nmt-length-curve --source test.en --reference test.fr --output curve --system rnn=runs/en-fr --system none=runs/none
  nmt-length-curve --source test.en --reference test.fr --output curve --system rnn=test.hyp --bin-by reference
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nmt.cli.common import command, say
from nmt.cli.decoding import DEVICE_OPTIONS, SEARCH_OPTIONS, add_decoding_options
from nmt.cli.scoring import Scoring, add_tokenizer_option, scoring
from nmt.cli.systems import System, about, add_system_options, load_configs, read_ready
from nmt.cli.test_set import add_test_set_options, read_test_set, translate
from nmt.config.schema import Evaluation
from nmt.errors import ConfigError
from nmt.evaluation.by_length import format_rows, format_scores, score_system
from nmt.evaluation.metrics import Integers
from nmt.evaluation.retention import Range, format_retention, ranges, retention
from nmt.evaluation.significance import compare_by_length, compare_overall, format_comparisons, format_overall
from nmt.evaluation.writing import BinnedBy, lengths
from nmt.plots.files import KINDS, make_folder
from nmt.plots.length_curve import write_length_curve


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-length-curve``."""
    arguments = argparse.ArgumentParser(prog="nmt-length-curve", description=__doc__)
    add_test_set_options(arguments)
    add_system_options(arguments, "RUN_OR_HYPOTHESES", "write STEM.png, .svg, .json and .csv")
    arguments.add_argument(
        "--bin-by",
        choices=("source", "reference", "pieces"),
        default="source",
        help="length by which sentences are binned: that of the source, of the reference, or of the source in "
        "subword pieces of the first run's tokenizer",
    )
    add_tokenizer_option(arguments)
    for name, which in (("--short", "shortest"), ("--long", "longest")):
        arguments.add_argument(
            name,
            type=length_range,
            metavar="N-M",
            help="lengths from N to M of the sentences that count as "
            f"{name[2:]} for the share of BLEU retained (default: the {which} bin of at least --min-sentences)",
        )
    arguments.add_argument("--title", metavar="TEXT", help="title of the figure")
    add_decoding_options(arguments)
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Score every system, draw the figure, and print the table."""
    systems: list[System] = arguments.systems
    configs = load_configs(arguments, KINDS)
    evaluation = next((config.evaluation for config in configs.values()), Evaluation())
    bins, resamples = arguments.bins or evaluation.bins, evaluation.bootstrap
    sources, references = read_test_set(arguments.source, arguments.reference)
    ready = read_ready(arguments, len(sources), SEARCH_OPTIONS + DEVICE_OPTIONS)
    labelled = {f"--system {system.name}={system.path}": config for system, config in configs.items()}
    how = scoring(arguments.bleu_tokenizer, labelled, sources, references)
    binned_by, measured = lengths_of(arguments.bin_by, sources, references, how, list(configs))
    sides = ranges(measured, bins, arguments.min_sentences, arguments.short, arguments.long)
    make_folder(arguments.output)  # errors must come before the slow part
    translations = [  # load every run before the first translates
        ready.get(system) or translate([system.path], arguments.source, sources, arguments) for system in systems
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
    content = about(arguments, configs, ready, resamples, binned_by)
    comparisons = compare_by_length(scored, measured, bins=bins, resamples=resamples)
    overall = compare_overall(scored, resamples=resamples)
    retained = retention(scored, measured, *sides, resamples=resamples) if sides else None
    paths = write_length_curve(
        scored,
        arguments.output,
        about=content,
        title=arguments.title,
        comparisons=comparisons,
        overall=overall,
        retention=retained,
    )
    for each in scored:
        print(each.name, format_scores(each), sep="\n")
    print(format_rows([row for each in scored for row in each.rows], binned_by.column))
    if comparisons:
        print(f"difference by length (two-sided paired bootstrap):\n{format_comparisons(comparisons)}")
        print(f"difference on the whole test set (95% interval, two-sided tests):\n{format_overall(overall)}")
    if retained:
        print(format_retention(retained, binned_by.column))
    else:
        say(
            f"share of BLEU retained: fewer than two bins have {arguments.min_sentences} sentences; "
            "choose lengths with --short and --long"
        )
    say("written: " + ", ".join(map(str, paths)))


def length_range(text: str) -> Range:
    """Parse an argument: two whole numbers such as 11-20, the smaller one first."""
    low, _, high = text.partition("-")
    try:
        bounds = int(low), int(high)
    except ValueError:
        bounds = 1, 0
    if not 0 <= bounds[0] <= bounds[1]:
        raise argparse.ArgumentTypeError(f"'{text}' is not a range of lengths such as 11-20")
    return bounds


def lengths_of(
    kind: str, sources: Sequence[str], references: Sequence[str], how: Scoring, runs: Sequence[System]
) -> tuple[BinnedBy, Integers]:
    """Return how ``--bin-by`` measures length, and the length of each sentence. Raises ConfigError without a run."""
    if kind == "source":
        return BinnedBy("source", how.source_unit), lengths(sources, how.source_unit)
    if kind == "reference":
        return BinnedBy("reference", how.reference_unit), lengths(references, how.reference_unit)
    if not runs:
        raise ConfigError("--bin-by pieces: needs a run among the systems, because its tokenizer splits the source")
    from nmt.data.tokenizer import Tokenizers  # noqa: PLC0415  (not needed to score files)

    tokenizer = Tokenizers.load(Path(runs[0].path) / "tokenizer").source
    return BinnedBy("source", "pieces"), np.array([len(ids) for ids in tokenizer.encode(sources)], np.int64)
