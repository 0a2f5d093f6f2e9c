"""Draw figures in one style, as PNG and SVG: attention, learning curves, two systems compared, length curves.

Each kind has options of its own, for example nmt-plot attention --help:

attention draws the weights between source and target words, of several systems side by side;
learning draws training loss, perplexity and BLEU of several runs;
compare draws which sentences one system translates better than another, by length;
length draws length curves of several files of nmt-length-curve.

examples:
  nmt-plot attention --model runs/en-fr --text 'the old cat sleeps .' --output attention
  nmt-plot learning runs/en-fr runs/none --output learning
"""

import argparse
from collections.abc import Callable

from nmt.cli import plot_attention, plot_compare, plot_learning, plot_length
from nmt.cli.common import command
from nmt.cli.options import CommandParser

KINDS: dict[str, Callable[..., int]] = {
    "attention": plot_attention.main,
    "learning": plot_learning.main,
    "compare": plot_compare.main,
    "length": plot_length.main,
}
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
