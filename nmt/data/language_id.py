"""Language identification between the two sides of the training text, to detect swapped files.

Naive Bayes over character trigrams (Manning et al. 2008, chapter 13), learned on the training text, so that it works
for any pair of languages. It reads lowercased letters only, and gives no answer if both sides are alike or the text is
short.
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
from nmt.files import read_json, refuse_links_outside, write_json

FILE_NAME = "language_id.json"
"""File in a cache entry and in a run directory."""
LANGUAGE_ID_FORMAT = 1
"""Part of the cache key; to be raised with any change to what is learned, stored or reported."""
FIRST_PAIRS, HELD_OUT = 20_000, 10
"""Pairs of the training text to learn from, the first ones; every tenth is held out for calibration."""
LEARNING_LETTERS = 1000
"""Minimum of letters in the held-out text of each side."""
JUDGED_LINES, LONGEST_LINE = 500, 1000
"""Lines of a split that are judged, and characters of a line."""
LEAST_LETTERS, MOST_LETTERS = 150, 20_000
"""Minimum of letters for an answer, about thirty words, and the letters of a file that are judged."""
SEPARATION = 1.0
"""Minimum difference of the sides, in nats per trigram; English, French and German differ by 3 to 5."""
CLEAR = 0.3
"""Largest distance from the other side, relative to the distance of both sides, of a text that looks like it."""
BUCKETS_LOG2, STEPS = 14, 16
"""Trigrams are hashed into 2^14 buckets; log-odds are stored in sixteenths of a nat, in a byte."""
SMOOTHING = 0.5
"""Added to each count."""
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio (Knuth 1998, section 6.4)."""
NOT_LETTERS = re.compile(r"[\W\d_]+")


@dataclass(frozen=True)
class LanguageId:
    """Classifier of the two sides of a training text."""

    weights: NDArray[np.int8]
    """Log-odds of the source side for each bucket of trigrams, in sixteenths of a nat: (16384,)"""
    source: float
    """Mean log-odds of a trigram in held-out source text."""
    target: float
    """Mean log-odds of a trigram in held-out target text."""

    @classmethod
    def learn(cls, pairs: Iterable[Pair]) -> Self:
        """Learn from the first pairs of the training text."""
        sample = list(islice(pairs, FIRST_PAIRS))
        learned = [pair for number, pair in enumerate(sample) if number % HELD_OUT]
        sides = [_trigrams(pair[side] for pair in learned)[0] for side in (0, 1)]
        counts = [np.bincount(buckets, minlength=1 << BUCKETS_LOG2) + SMOOTHING for buckets in sides]
        log_odds = np.subtract(*(np.log(count / count.sum()) for count in counts))
        log_odds[counts[0] + counts[1] == 2 * SMOOTHING] = 0.0  # unseen trigrams say nothing
        weights = np.clip(np.rint(STEPS * log_odds), -127, 127).astype(np.int8)
        held_out = [_trigrams(pair[side] for pair in sample[::HELD_OUT]) for side in (0, 1)]
        if min(letters for _, letters in held_out) < LEARNING_LETTERS:
            return cls(weights, 0.0, 0.0)
        return cls(weights, *(float(weights[buckets].mean()) / STEPS for buckets, _ in held_out))

    def likeness(self, lines: Iterable[str]) -> float | None:
        """Likeness to the source side: about 1 for source text, 0 for target text, between them for another language.

        None if the sides are alike or the text has too few letters.
        """
        buckets, letters = _trigrams(lines)
        if letters < LEAST_LETTERS or self.source - self.target < SEPARATION:
            return None
        mean = float(self.weights[buckets].mean()) / STEPS
        return (mean - self.target) / (self.source - self.target)

    def report(self, splits: Mapping[str, Iterable[Pair]], languages: tuple[str, str]) -> dict[str, Any]:
        """Report the likeness of both sides of each split, with ``warnings`` for wrong ones."""
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
        """Pass lines through; call ``warn`` once if their first ``letters`` look like the target side."""
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
        """Read what :meth:`save` wrote; None if there is no such file.

        Raises FileError if it is damaged or a link out of the folder, as in a run from a stranger.
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
            raise FileError(f"{path}: damaged ({error}); delete it, as only a warning needs it") from None
        return cls(weights, source, target)


def _trigrams(lines: Iterable[str]) -> tuple[NDArray[np.intp], int]:
    """Hash a text: -> the bucket of each character trigram, (trigrams,), and the number of letters."""
    text = NOT_LETTERS.sub(" ", f" {' '.join(line[:LONGEST_LINE] for line in lines)} ".lower())
    points = np.frombuffer(f" {text} ".encode("utf-32-le", "replace"), "<u4").astype(np.uint64)
    first, second, third = points[:-2], points[1:-1], points[2:]
    hashed = ((first * MULTIPLIER + second) * MULTIPLIER + third) * MULTIPLIER
    return (hashed >> np.uint64(64 - BUCKETS_LOG2)).astype(np.intp), len(text) - text.count(" ")


def _wrong(likeness: float | None, side: int) -> bool:
    """Whether text of a side (0 source, 1 target) looks like the other side."""
    return likeness is not None and (likeness < CLEAR if side == 0 else likeness > 1 - CLEAR)


def _warnings(split: str, sides: Sequence[float | None], languages: tuple[str, str]) -> list[str]:
    source, target = languages
    wrong = [_wrong(likeness, side) for side, likeness in enumerate(sides)]
    if all(wrong):
        return [
            f"{split}: source and target seem to be swapped: the source looks like {target} and the target like "
            f"{source}, compared with data.train"
        ]
    told = ((0, f"the source looks like {target}"), (1, f"the target looks like {source}"))
    return [f"{split}: {words}, the other side of data.train" for side, words in told if wrong[side]]
