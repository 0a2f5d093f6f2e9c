"""Write the embedded English-French demo corpus: training, validation and test text with gold word alignments."""

import argparse
import sys
from pathlib import Path

from command_line import command
from demo_language import write_corpus


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    options.add_argument("--output", type=Path, default=Path("data/demo"), help="folder of the files")
    options.add_argument("--train", type=int, default=20_000, help="training pairs")
    options.add_argument("--validation", type=int, default=500, help="validation pairs")
    options.add_argument("--test-per-bin", type=int, default=100, help="test pairs of every 10 words of length")
    options.add_argument("--seed", type=int, default=1, help="of all random choices")
    return options


@command(parser)
def main(options: argparse.Namespace) -> None:
    """Write the files."""
    write_corpus(options.output, options.train, options.validation, options.test_per_bin, options.seed)


if __name__ == "__main__":
    sys.exit(main())
