"""Search among the pieces of a shortlist in a command: its option."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmt.errors import ConfigError

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.data.tokenizer import Tokenizers
    from nmt.translation.shortlist import Shortlist


def add_shortlist_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--shortlist FILE``."""
    parser.add_argument(
        "--shortlist",
        metavar="FILE",
        help="translate with the pieces alone that this file of nmt-shortlist has for each line: faster, and some "
        "translations differ (default: with all pieces)",
    )


def load_shortlist(path: str | None, runs: Sequence[str], tokenizers: "Tokenizers") -> "Shortlist | None":
    """Return the shortlist that the command line asks for, if it does.

    Raises ConfigError for several runs and for a list of other pieces, DataError for a file that holds something else.
    """
    from nmt.translation.shortlist import Shortlist  # noqa: PLC0415

    if path is None:
        return None
    if len(runs) > 1:
        raise ConfigError(f"--shortlist: is for one run, and there are {len(runs)}; leave it out, or give one run")
    return Shortlist.load(path, tokenizers)
