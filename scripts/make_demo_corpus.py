"""Write the embedded English-French demo corpus."""

import argparse
import sys
from pathlib import Path

from nmt.demo import write_corpus
from nmt.errors import NmtError


def main() -> int:
    """Parse the command line and write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("data/demo"), help="folder of the files (default: %(default)s)")
    parser.add_argument("--train", type=int, default=20_000, help="training pairs (default: %(default)s)")
    parser.add_argument("--validation", type=int, default=500, help="validation pairs (default: %(default)s)")
    parser.add_argument("--test-per-bin", type=int, default=100, help="test pairs of each 10 words (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of all random choices (default: %(default)s)")
    options = parser.parse_args()
    try:
        write_corpus(options.output, options.train, options.validation, options.test_per_bin, options.seed)
    except NmtError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
