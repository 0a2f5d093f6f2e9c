"""Draw the attention of sentences, of several systems side by side, as PNG and SVG: nmt-plot attention --help.

examples:
  nmt-plot attention --model runs/en-fr --text 'the old cat sleeps .' --output attention
"""

import argparse
from collections.abc import Callable

from nmt.cli import plot_attention
from nmt.cli.common import command
from nmt.cli.options import CommandParser

KINDS: dict[str, Callable[..., int]] = {"attention": plot_attention.main}
"""The command of each kind of figures."""


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-plot``."""
    arguments = CommandParser(prog="nmt-plot", description=__doc__)
    arguments.add_argument("kind", choices=KINDS, metavar="{" + ",".join(KINDS) + "}", help="kind of figure")
    arguments.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="its options")
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> int:
    """Hand the options to the command of the kind."""
    return KINDS[arguments.kind](arguments.rest)
