"""The option that chooses BLEU's tokenizer."""

import argparse
from typing import get_args

from nmt.config.schema import BleuTokenizer


def add_tokenizer_option(arguments: argparse.ArgumentParser) -> None:
    """Add ``--bleu-tokenizer``."""
    arguments.add_argument(
        "--bleu-tokenizer",
        choices=get_args(BleuTokenizer),
        metavar="NAME",
        help=f"tokenizer of BLEU: {', '.join(get_args(BleuTokenizer))} (default: evaluation.bleu_tokenizer of the "
        "runs; without a run, by the script of the references)",
    )
