"""Language identification between the two sides of the training text, to notice swapped files.

Naive Bayes over character trigrams (Manning et al. 2008, chapter 13), learned on the training text itself, so that it
works for any pair of languages. It reads letters only, in lower case; numbers, punctuation and capitals have no
influence. It gives no answer where the two sides are alike or the text is short.
"""

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nmt.data.corpus import Pair
from nmt.errors import FileError
from nmt.foundation.files import read_json, refuse_links_outside, write_json

FILE_NAME = "language_id.json"
"""Name of the file in a cache entry and in a run directory."""
FORMAT = 1
"""To be raised with any change of what is learned, stored or reported."""
LEARNING_PAIRS, HELD_OUT = 20_000, 10
"""The first pairs of the training text are learned from; each tenth pair is held out for calibration."""
LEARNING_LETTERS = 1000
"""Letters that the held-out text of each side must have."""
JUDGED_LINES, LONGEST_LINE = 500, 1000
"""Lines of a split that are looked at, and characters of a line."""
LEAST_LETTERS, MOST_LETTERS = 150, 20_000
"""Letters that a text must have, about thirty words, and letters after which no more of a file are read."""
SEPARATION = 1.0
"""Least difference of the sides in nats a trigram; English, French and German differ by 3 to 5."""
CLEAR = 0.3
"""Distance from the other side, as a share of the way between both, within which a text looks like the other side."""
BUCKETS_LOG2, STEPS = 14, 16
"""Trigrams are hashed into 2^14 buckets; a log-odds is kept in sixteenths of a nat, in a byte."""
SMOOTHING = 0.5
"""Added to each count."""
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio (Knuth 1998, section 6.4)."""
NOT_LETTERS = re.compile(r"[\W\d_]+")


@dataclass(frozen=True)
class LanguageId:
    """Tells the two sides of a training text apart."""

    weights: NDArray[np.int8]
    """Log-odds of the source side for each bucket of trigrams, in sixteenths of a nat: (16384,)"""
    source: float
    """Mean log-odds of a trigram in held-out source text."""
    target: float
    """The same of target text."""

    @classmethod
    def learn(cls, pairs: Iterable[Pair]) -> Self:
        """From the first pairs of the training text."""
        sample = list(islice(pairs, LEARNING_PAIRS))
        learned = [pair for number, pair in enumerate(sample) if number % HELD_OUT]
        sides = [_trigrams(pair[side] for pair in learned)[0] for side in (0, 1)]
        counts = [np.bincount(buckets, minlength=1 << BUCKETS_LOG2) + SMOOTHING for buckets in sides]
        log_odds = np.subtract(*(np.log(count / count.sum()) for count in counts))
        log_odds[counts[0] + counts[1] == 2 * SMOOTHING] = 0.0  # of what was never seen nothing is known
        weights = np.clip(np.rint(STEPS * log_odds), -127, 127).astype(np.int8)
        held_out = [_trigrams(pair[side] for pair in sample[::HELD_OUT]) for side in (0, 1)]
        if min(letters for _, letters in held_out) < LEARNING_LETTERS:
            return cls(weights, 0.0, 0.0)
        return cls(weights, *(float(weights[buckets].mean()) / STEPS for buckets, _ in held_out))

    def likeness(self, lines: Iterable[str]) -> float | None:
        """About 1 for text like the source side, 0 for text like the target side, another language between them.

        None where that cannot be told: the sides are alike, or the text has too few letters.
        """
        buckets, letters = _trigrams(lines)
        if letters < LEAST_LETTERS or self.source - self.target < SEPARATION:
            return None
        mean = float(self.weights[buckets].mean()) / STEPS
        return (mean - self.target) / (self.source - self.target)

    def report(self, splits: Mapping[str, Iterable[Pair]], languages: tuple[str, str]) -> dict[str, Any]:
        """For ``data_report.json``: the likeness of both sides of each split, and ``warnings`` where one is wrong."""
        likeness, warnings = {}, []
        for name, pairs in splits.items():
            judged = list(islice(pairs, JUDGED_LINES))
            sides = [self.likeness(pair[side] for pair in judged) for side in (0, 1)]
            warnings += _warnings(f"data.{name}", sides, languages)
            likeness[name] = {
                side: value if value is None else round(value, 3)
                for side, value in zip(("source", "target"), sides, strict=True)
            }
        return {"likeness_to_source": likeness, "warnings": warnings}

    def watched(self, lines: Iterable[str], warn: Callable[[], None], letters: int = MOST_LETTERS) -> Iterator[str]:
        """The same lines; ``warn`` is called once if the first ``letters`` of them look like the target side."""
        judged: list[str] = []
        seen = 0
        for line in lines:
            if seen < letters:
                judged.append(line[:LONGEST_LINE])
                seen += sum(map(str.isalpha, judged[-1]))
                if seen >= letters and _wrong(self.likeness(judged), 0):
                    warn()
            yield line
        if seen < letters and _wrong(self.likeness(judged), 0):
            warn()

    def save(self, folder: Path) -> None:
        """Write the file into a cache entry or run directory."""
        weights = base64.b64encode(self.weights.tobytes()).decode()
        write_json(folder / FILE_NAME, {"source": self.source, "target": self.target, "weights": weights})

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """Read what :meth:`save` wrote, perhaps in a run from a stranger; None if there is no such file.

        Raises FileError if it holds anything else, or lies outside the folder.
        """
        path = folder / FILE_NAME
        if not path.exists():
            return None
        refuse_links_outside(folder, [path])
        try:
            found = read_json(path)
            weights = np.frombuffer(base64.b64decode(found["weights"], validate=True), np.int8)
            source, target = (float(found[side]) for side in ("source", "target"))
            if weights.shape != (1 << BUCKETS_LOG2,) or not math.isfinite(source - target):
                raise ValueError(f"{weights.size:,} weights, means {source} and {target}")
        except (LookupError, TypeError, ValueError, OverflowError, binascii.Error) as error:
            raise FileError(f"{path}: damaged ({error}); delete it: only a warning needs it") from None
        return cls(weights, source, target)


def _trigrams(lines: Iterable[str]) -> tuple[NDArray[np.intp], int]:
    """-> the bucket of each character trigram, (trigrams,), and the number of letters."""
    text = NOT_LETTERS.sub(" ", f" {' '.join(line[:LONGEST_LINE] for line in lines)} ".lower())
    points = np.frombuffer(f" {text} ".encode("utf-32-le", "replace"), "<u4").astype(np.uint64)
    first, second, third = points[:-2], points[1:-1], points[2:]
    hashed = ((first * MULTIPLIER + second) * MULTIPLIER + third) * MULTIPLIER
    return (hashed >> np.uint64(64 - BUCKETS_LOG2)).astype(np.intp), len(text) - text.count(" ")


def _wrong(likeness: float | None, side: int) -> bool:
    """Whether text of a side, 0 of the source and 1 of the target, is like the other one."""
    return likeness is not None and (likeness < CLEAR if side == 0 else likeness > 1 - CLEAR)


def _warnings(split: str, sides: Sequence[float | None], languages: tuple[str, str]) -> list[str]:
    source, target = languages
    wrong = [_wrong(likeness, side) for side, likeness in enumerate(sides)]
    if all(wrong):
        return [
            f"{split}: source and target seem to be swapped: the source looks like {target} and the target like "
            f"{source}, going by data.train"
        ]
    told = ((0, f"the source looks like {target}"), (1, f"the target looks like {source}"))
    return [f"{split}: {words}, the other side of data.train" for side, words in told if wrong[side]]
