"""Search among the pieces of a shortlist in a command: its option, and what is said of it."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from nmt.cli.common import say
from nmt.errors import ConfigError

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.data.tokenizer import Tokenizers
    from nmt.translation.results import Translation
    from nmt.translation.shortlist import Shortlist
    from nmt.translation.translator import Translator


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


class ListedPieces:
    """Counts the pieces that lines are translated with if there is a shortlist."""

    def __init__(self) -> None:
        self.lines = self.pieces = 0

    def counted(self, translations: "Iterable[Translation]") -> "Iterator[Translation]":
        """Pass the translations on and count the pieces of each line's list."""
        for translation in translations:
            if translation.listed is not None:
                self.lines += 1
                self.pieces += translation.listed
            yield translation

    def tell(self, translator: "Translator", who: str) -> None:
        """Say how many pieces of the vocabulary a line had on average; nothing without a shortlist."""
        if self.lines:
            size = translator.tokenizers.target.size
            say(f"{who}: shortlist: {self.pieces / self.lines:,.0f} of {size:,} pieces a line on average")


def with_listed_pieces(
    translations: "Iterable[Translation]", translator: "Translator", who: str
) -> "Iterator[Translation]":
    """Pass the translations on, and say after the last one how many pieces a line had on average."""
    listed = ListedPieces()
    yield from listed.counted(translations)
    listed.tell(translator, who)
