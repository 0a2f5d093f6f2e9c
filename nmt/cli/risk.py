"""Minimum Bayes risk decoding in a command: its options."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.cli.options import refuse_useless, whole
from nmt.config import load_run_config
from nmt.config.schema import LARGEST_BEAM

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.translation.risk import MinimumBayesRisk


def add_risk_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--mbr N`` and ``--mbr-utility``."""
    group = parser.add_argument_group("minimum Bayes risk, instead of beam search")
    group.add_argument(
        "--mbr",
        type=whole(1, LARGEST_BEAM),
        metavar="N",
        help="draw N samples of each line and write the one that is most like the others; sampling options apply, "
        "the temperature is 1 unless given; the time grows with N, that of the comparison with its square "
        "(default: none)",
    )
    group.add_argument(
        "--mbr-utility",
        choices=("chrf", "bleu"),
        help="how alike two samples are: sentence-level chrF or BLEU (default: chrf)",
    )


def check_risk(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for options that would have no effect."""
    if arguments.mbr is None:
        refuse_useless(arguments, ("mbr_utility",), "without --mbr")


def risk(arguments: argparse.Namespace) -> "MinimumBayesRisk | None":
    """Return the decision rule that the command line asks for, if it does; BLEU's tokenizer is that of the run."""
    if arguments.mbr is None:
        return None
    from nmt.evaluation.utility import SentenceBleu, Utility, sentence_chrf  # noqa: PLC0415
    from nmt.evaluation.writing import tokenizer_of_run  # noqa: PLC0415
    from nmt.translation.risk import MinimumBayesRisk  # noqa: PLC0415

    utility: Utility = sentence_chrf
    if arguments.mbr_utility == "bleu":
        utility = SentenceBleu(tokenizer_of_run(load_run_config(Path(arguments.model[0]))).tokenizer)
    return MinimumBayesRisk(arguments.mbr, utility)
