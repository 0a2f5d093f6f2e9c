"""Training, validation and test files of the demo language: the same bytes on every machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from nmt.demo.generator import Dice, Generator
from nmt.demo.phrase import Sentence
from nmt.errors import DataError

SHORTEST, LONGEST = 3, 60
"""English words of a sentence, both included."""
BINS = [(1, 10), (11, 20), (21, 30), (31, 40), (41, 50), (51, 60)]
"""The test set has as many sentences of each."""


def write_corpus(
    folder: str | Path, train: int = 20_000, validation: int = 500, test_per_bin: int = 100, seed: int = 1
) -> None:
    """Write {train,validation,test}.{en,fr,align} into a folder; no English sentence occurs twice in them all.

    The alignments are Pharaoh links `i-j` of whitespace words, from 0. The test set does not depend on the sizes of the
    others. A file that has its content already is not touched; others are replaced whole.

    Args:
        folder: made if it is missing.
        train: pairs.
        validation: pairs, their lengths drawn like the training lengths.
        test_per_bin: pairs for each of BINS.
        seed: of all random choices.

    Raises:
        DataError: the folder or a file in it cannot be written.
    """
    folder = Path(folder)
    generator = Generator(seed)
    seen: set[str] = set()
    test = [pair for low, high in BINS for pair in _draw(generator, test_per_bin, seen, low, high)]
    heldout = [pair for low, high in [(SHORTEST, LONGEST)] for pair in _draw(generator, validation, seen, low, high)]
    splits = {"test": test, "validation": heldout, "train": _draw(generator, train, seen, SHORTEST, LONGEST)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for split, pairs in splits.items():
            for extension, line in LINES.items():
                _write(folder / f"{split}.{extension}", "".join(f"{line(pair)}\n" for pair in pairs).encode())
    except OSError as error:
        raise DataError(f"{error.filename or folder}: cannot be written: {error.strerror}") from error


LINES: dict[str, Callable[[Sentence], str]] = {
    "en": lambda pair: pair.english,
    "fr": lambda pair: pair.french,
    "align": lambda pair: " ".join(f"{i}-{j}" for i, j in pair.alignment),
}
"""What a file with each extension says about a pair."""


def _draw(generator: Generator, count: int, seen: set[str], low: int, high: int) -> list[Sentence]:
    """New sentences of low to high English words."""
    pairs: list[Sentence] = []
    while len(pairs) < count:
        pair = generator.sentence(_length(generator.dice, max(low, SHORTEST), high))
        if low <= len(pair.english.split()) <= high and pair.english not in seen:
            seen.add(pair.english)
            pairs.append(pair)
    return pairs


def _length(dice: Dice, low: int, high: int) -> int:
    """A length: more than half are short as in real text, a sixth are long. Within a bin of the test set all alike."""
    if (low, high) != (SHORTEST, LONGEST):
        return dice.between(low, high)
    return dice.between(*dice.pick([(3, 12), (3, 20), (8, 20), (20, 40), (3, 30), (40, 60)]))


def _write(path: Path, content: bytes) -> None:
    """Replace a file if its content differs; a reader sees the old or the new one, never a part."""
    if path.exists() and path.read_bytes() == content:
        return
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_bytes(content)
    os.replace(unfinished, path)
