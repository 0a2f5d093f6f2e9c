"""Replacement of unknown words in a command: its options."""

import argparse
from typing import TYPE_CHECKING

from nmt.cli.options import refuse_useless
from nmt.errors import ConfigError

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.data.tokenizer import Tokenizers
    from nmt.translation.unknown import UnknownWords


def add_unknown_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--replace-unknown`` and ``--dictionary FILE``."""
    group = parser.add_argument_group("unknown words, for vocabularies of words")
    group.add_argument(
        "--replace-unknown",
        action="store_true",
        help="replace each unknown word of a translation by the source word that the attention weighs most",
    )
    group.add_argument(
        "--dictionary",
        metavar="FILE",
        help="with --replace-unknown: translate that source word where a line of FILE has it, a tab and a translation",
    )


def check_unknown(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for a dictionary that would have no effect."""
    if not arguments.replace_unknown:
        refuse_useless(arguments, ("dictionary",), "without --replace-unknown")


def unknown_words(arguments: argparse.Namespace, tokenizers: "Tokenizers") -> "UnknownWords | None":
    """Return what replaces unknown words, if the command line asks for it.

    Raises ConfigError for vocabularies of other pieces than words, DataError for a dictionary that cannot be read.
    """
    from nmt.translation.unknown import UnknownWords, read_dictionary, unsuitable  # noqa: PLC0415

    if not arguments.replace_unknown:
        return None
    if reason := unsuitable(tokenizers):
        raise ConfigError(f"--replace-unknown: {', '.join(arguments.model)}: {reason}")
    return UnknownWords({} if arguments.dictionary is None else read_dictionary(arguments.dictionary))
