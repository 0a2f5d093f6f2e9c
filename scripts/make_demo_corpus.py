"""Write the embedded English-French demo corpus."""

import sys
from typing import Annotated

from pydantic import Field

from demo_language import LONGEST, write_corpus
from nmt.cli.command import Command

Size = Annotated[int, Field(ge=0)]


def make_demo_corpus(
    *,
    output: str = "data/demo",
    train: Size = 20_000,
    validation: Size = 500,
    test_per_bin: Size = 100,
    seed: int = 1,
    longest: Annotated[int, Field(ge=12)] = LONGEST,
    verb_final: bool = False,
) -> None:
    """Write the embedded English-French demo corpus: training, validation and test text with gold word alignments.

    Args:
        output: folder of the files
        train: training pairs
        validation: validation pairs
        test_per_bin: test pairs of every 10 words of length
        seed: of all random choices
        longest: leave out the ranges of length that reach beyond this number of English words (12, 20, 30, 40 or 60)
        verb_final: put French verbs behind their complements, as a language such as Japanese does
    """
    write_corpus(output, train, validation, test_per_bin, seed, longest, verb_final=verb_final)


main = Command(make_demo_corpus, "make_demo_corpus.py")

if __name__ == "__main__":
    sys.exit(main())
