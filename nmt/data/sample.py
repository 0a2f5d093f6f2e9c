"""The text that a tokenizer is learned on: an even sample of the training set, in a temporary file."""

import os
import random
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from nmt.data.corpus import Pair


@contextmanager
def sampled(pairs: Iterable[Pair], size: int) -> Iterator["PairSample"]:
    """Draw a sample and hold it in a file without a name."""
    with tempfile.TemporaryFile() as file:
        yield PairSample(file, pairs, size)


class PairSample:
    """Pairs drawn evenly from a stream, always the same ones (reservoir sampling, Vitter's algorithm R), or all.

    The text is in ``file``; in memory are 16 bytes a pair.
    """

    def __init__(self, file: BinaryIO, pairs: Iterable[Pair], size: int) -> None:
        self._file = file
        self._starts, self._lengths = array("q"), array("q")
        generator, end = random.Random(0), 0
        for seen, pair in enumerate(pairs, 1):
            place = seen - 1 if seen <= size else generator.randrange(seen)
            if place >= size:
                continue
            length = self._file.write("\n".join(pair).encode())
            if seen <= size:
                self._starts.append(end)
                self._lengths.append(length)
            else:
                self._starts[place], self._lengths[place] = end, length
            end += length
        self._file.flush()

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Pair]:
        for start, length in zip(self._starts, self._lengths, strict=True):
            yield Pair(*os.pread(self._file.fileno(), length, start).decode().split("\n"))

    def texts(self, sides: Sequence[int]) -> Iterator[str]:
        """The texts of some sides, 0 the source and 1 the target, pair by pair."""
        return (pair[side] for pair in self for side in sides)
