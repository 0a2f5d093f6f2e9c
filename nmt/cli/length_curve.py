"""Plot BLEU against source length with one curve per system, and write the figure and its numbers.

examples:
  nmt-length-curve --source test.en --reference test.fr --output curve --system rnn=runs/en-fr --system none=runs/none
  nmt-length-curve --source test.en --reference test.fr --output curve --system rnn=test.hyp --bin-by reference
"""

import argparse

from nmt.cli.common import command, say
from nmt.cli.decoding import DEVICE_OPTIONS, SEARCH_OPTIONS, add_decoding_options
from nmt.cli.options import CommandParser
from nmt.cli.scoring import add_tokenizer_option
from nmt.cli.systems import System, about, add_system_options, load_configs, read_ready
from nmt.cli.test_set import add_test_set_options, translate
from nmt.config.schema import Evaluation
from nmt.data.corpus import read_test_set
from nmt.evaluation.retention import Range
from nmt.evaluation.writing import scoring
from nmt.library.length_curve import measure
from nmt.plots.files import KINDS, make_folder


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-length-curve``."""
    arguments = CommandParser(prog="nmt-length-curve", description=__doc__)
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
    sources, references = read_test_set(arguments.source, arguments.reference)
    ready = read_ready(arguments, len(sources), SEARCH_OPTIONS + DEVICE_OPTIONS)
    labelled = {f"--system {system.name}={system.path}": config for system, config in configs.items()}
    how = scoring(arguments.bleu_tokenizer, labelled, sources, references, say)
    measured = measure(
        sources,
        references,
        how,
        next((config.evaluation for config in configs.values()), Evaluation()),
        bins=arguments.bins or (),
        bin_by=arguments.bin_by,
        runs=[system.path for system in configs],
        min_sentences=arguments.min_sentences,
        short=arguments.short,
        long=arguments.long,
    )
    make_folder(arguments.output)  # errors must come before the slow part
    translations = [  # load every run before the first translates
        ready.get(system) or translate([system.path], arguments.source, sources, arguments) for system in systems
    ]
    content = about(arguments, configs, ready, measured.resamples, measured.binned_by)
    curve = measured.curve(
        zip([system.name for system in systems], translations, strict=True), content, arguments.title
    )
    paths = curve.write(arguments.output)
    print(curve)
    if curve.retention is None and any(each.comparable for each in curve.systems):
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
