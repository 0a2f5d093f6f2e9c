"""The test set of a report."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nmt.data.corpus import Pair
from nmt.data.test_set import read_aligned, read_text
from nmt.errors import DataError
from nmt.evaluation.links import Gold, read_gold


@dataclass(frozen=True)
class Files:
    """The files of a test set."""

    source: str
    reference: str
    gold: str | None = None
    """Word links of each pair."""
    gold_first: int = 0
    """Index of the first word in them."""
    bins: tuple[int, ...] | None = None
    """Largest source length of each bin; None: those of the first run."""

    @property
    def both(self) -> tuple[Path, Path]:
        """Source and reference, by which two test sets are the same."""
        return Path(self.source).resolve(), Path(self.reference).resolve()


@dataclass(frozen=True)
class TestSet:
    """The lines of a test set."""

    files: Files
    pairs: list[Pair]
    gold: list[Gold] | None

    @property
    def sources(self) -> list[str]:
        """The source lines."""
        return [pair.source for pair in self.pairs]

    @property
    def references(self) -> list[str]:
        """The reference lines."""
        return [pair.target for pair in self.pairs]


def read_test_set(files: Files) -> TestSet:
    """Read the files. Raises DataError for files that cannot be read or do not fit together, and without any text."""
    if files.gold is not None:
        read = read_gold(files.source, files.reference, files.gold, first=files.gold_first)
        pairs, gold = read.pairs, read.links
    else:
        sources = read_text(files.source)
        references = read_aligned(files.reference, files.source, len(sources))
        pairs, gold = [Pair(*each) for each in zip(sources, references, strict=True)], None
    if not any(pair.source.strip() for pair in pairs):
        raise DataError(f"{files.source}: has no line with text")
    return TestSet(files, pairs, gold)


def right_to_left(lines: Iterable[str]) -> bool:
    """Whether most letters of a text are written from right to left."""
    counts = Counter(unicodedata.bidirectional(letter) for letter in "".join(lines) if letter.isalpha())
    return 2 * (counts["R"] + counts["AL"]) > counts.total()
