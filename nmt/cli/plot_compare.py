"""Draw which sentences system B translates better than system A, and which worse, by length.

A and B are run directories, which translate, or files of translations. The sentences that gained and lost most are
printed.

examples:
  nmt-plot compare runs/none runs/en-fr --source test.en --reference test.fr --output gains
  nmt-plot compare A=old.hyp B=new.hyp --source test.en --reference test.fr --output gains --metric bleu --show 10
"""

import argparse
from collections.abc import Sequence
from typing import get_args

from nmt.cli.common import command, say
from nmt.cli.decoding import DEVICE_OPTIONS, SEARCH_OPTIONS, add_decoding_options
from nmt.cli.options import CommandParser, whole
from nmt.cli.scoring import add_tokenizer_option
from nmt.cli.systems import (
    about,
    add_figure_options,
    add_min_sentences,
    load_configs,
    maybe_named,
    read_ready,
    with_names,
)
from nmt.cli.test_set import add_test_set_options, translate
from nmt.config.schema import Evaluation
from nmt.data.test_set import read_test_set
from nmt.evaluation.gains import NAMES, Gains, SentenceMetric, format_gains, gains, sentence_scores
from nmt.evaluation.metrics import Floats
from nmt.evaluation.writing import BinnedBy, lengths, scoring
from nmt.plots.files import make_folder
from nmt.plots.gains import KINDS, Compared, write_gains


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-plot compare``."""
    arguments = CommandParser(prog="nmt-plot compare", description=__doc__)
    arguments.add_argument(
        "systems",
        nargs=2,
        type=maybe_named,
        metavar="[NAME=]RUN_OR_HYPOTHESES",
        help="A and B: run directories or files of translations; a gain is the score by B minus that by A",
    )
    add_test_set_options(arguments)
    arguments.add_argument(
        "--metric",
        choices=get_args(SentenceMetric),
        default="chrf",
        help="score of a sentence: chrF, or BLEU with effective order",
    )
    arguments.add_argument(
        "--show", type=whole(0), default=5, metavar="N", help="print the N sentences that gained most and lost most"
    )
    add_tokenizer_option(arguments)
    add_min_sentences(arguments)
    add_figure_options(arguments, "write STEM.png, .svg and .json")
    add_decoding_options(arguments)
    arguments.set_defaults(hypotheses=[])
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Score every sentence of both systems, draw the figure, and print the table and the sentences."""
    systems = arguments.systems = with_names(arguments.systems)
    configs = load_configs(arguments, KINDS, option="")
    evaluation = next((config.evaluation for config in configs.values()), Evaluation())
    sources, references = read_test_set(arguments.source, arguments.reference)
    ready = read_ready(arguments, len(sources), SEARCH_OPTIONS + DEVICE_OPTIONS)
    labelled = {system.path: config for system, config in configs.items()}
    how = scoring(arguments.bleu_tokenizer, labelled, sources, references, say)
    binned_by, measured = BinnedBy("source", how.source_unit), lengths(sources, how.source_unit)
    make_folder(arguments.output)  # errors must come before the slow part
    translations = [  # load every run before the first translates
        ready.get(system) or translate([system.path], arguments.source, sources, arguments) for system in systems
    ]
    hypotheses = [list(each) for each in translations]
    scores = [sentence_scores(each, references, arguments.metric, how.tokenizer) for each in hypotheses]
    found = gains(
        scores[0].values,
        scores[1].values,
        measured,
        bins=arguments.bins or evaluation.bins,
        resamples=evaluation.bootstrap,
    )
    compared = Compared(systems[0].name, systems[1].name, arguments.metric, scores[0].signature, measured, found)
    content = about(arguments, configs, ready, evaluation.bootstrap, binned_by)
    paths = write_gains(compared, arguments.output, about=content, title=arguments.title, dpi=arguments.dpi)
    print(format_gains(found.rows, found.whole, binned_by.column, arguments.metric))
    names = [system.name for system in systems]
    _print_sentences(arguments, found, names, sources, references, hypotheses, [each.values for each in scores])
    say("written: " + ", ".join(map(str, paths)))


def _print_sentences(
    arguments: argparse.Namespace,
    found: Gains,
    names: Sequence[str],
    sources: Sequence[str],
    references: Sequence[str],
    hypotheses: Sequence[Sequence[str]],
    scores: Sequence[Floats],
) -> None:
    """Print the sentences that gained most and lost most, with their line numbers and both scores."""
    metric = NAMES[arguments.metric]
    for heading, lines in zip(("gained", "lost"), found.most(arguments.show), strict=True):
        for line in lines:
            print(f"\n{heading} {found.differences[line]:+.1f} {metric}, line {line + 1}:")
            print(f"  source: {sources[line]}\n  reference: {references[line]}")
            for name, translated, score in zip(names, hypotheses, scores, strict=True):
                print(f"  {name} ({score[line]:.1f}): {translated[line]}")
