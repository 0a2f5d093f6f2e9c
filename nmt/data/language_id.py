"""Language identification, to detect swapped files.

Each split is compared with the languages that the configuration names, by their scripts or by their function words. In
other languages a split is compared with the training text: naive Bayes over character trigrams (Manning et al. 2008,
chapter 13) works for any pair of languages. It reads lowercased letters only. Neither gives an answer if both languages
are alike or the text is short.
"""

import base64
import binascii
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nmt.config.scripts import scripts_of
from nmt.data.corpus import Pair
from nmt.errors import FileError
from nmt.files import read_json, refuse_links_outside, write_json

FILE_NAME = "language_id.json"
"""File in a cache entry and in a run directory."""
LANGUAGE_ID_FORMAT = 2
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
FUNCTION_WORDS = {
    "bg": "и на в да се за не от с са по като че това е си ще към след които",
    "ca": "de la el i que a en les els per un una del amb no és es al dels més",
    "cs": "a v se na je že o s z do i to jako za k ve pro by jsou který",
    "da": "og i at det er en til af på den for de ikke med et jeg har som der vi",
    "de": "der die das und in den von zu mit ist sich nicht ein eine auf für dem des im auch",
    "en": "the of and to in is that a for it on with as are this be was not by have",
    "es": "de la que el en y los se del las por un para con no una su al es lo",
    "et": "ja on ei et see ta mis oli kui ka ma oma aga siis mida või kes nii seda meie",
    "fi": "ja on ei se että oli hän mutta kun ovat myös tai kuin joka sen ole jos niin mitä voi",
    "fr": "de la le et les des en un du une que est pour qui dans a par sur pas au",
    "hu": "a az és hogy nem is egy ez meg volt de csak ha már mint van azt el vagy ki",
    "it": "di e che la il un a per in è una del con non si le della sono da i",
    "lt": "ir kad į iš su tai yra bei buvo kaip ne o apie dėl už nuo bet jis taip prie",
    "lv": "un ir ka ar no par uz kas tas bet to kā ja vai pēc gan arī nav bija tikai",
    "nb": "og i det er en til av på for at som med ikke de den et jeg har om vi",
    "nl": "de het een van en in is dat op te zijn met voor niet die aan er om ook als",
    "no": "og i det er en til av på for at som med ikke de den et jeg har om vi",
    "pl": "w i na z się nie że to do jest o jak za od przez po są który oraz dla",
    "pt": "de a o que e do da em um para com não uma os no se na por mais as",
    "ro": "de și în a la cu pe nu că o din este care un mai să pentru o sunt au",
    "ru": "и в не на что я с он как это по но из у за от так о же для",
    "sk": "a v sa na je že o s z do to ako za k vo pre by sú ktorý nie",
    "sl": "in je v na se da za so ki pa z s ne bi kot tudi to po iz ni",
    "sv": "och i att det som en på är av för med till den har de inte om ett jag vi",
    "tr": "ve bir bu da de için ile çok ne ama o gibi daha var en olarak olan kadar sonra mi",
    "uk": "і в не на що я з він як це та до за від у але або є по для",
}
"""Frequent words of common languages, by ISO 639 code."""
LEAST_WORDS, FUNCTION_SHARE = 30, 0.1
"""Minimum of words for an answer, and the share of them that must be function words of the language."""
TIMES_AS_MANY = 4
"""How many letters or function words of a language there must be for one of the other language."""


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
        """Report the likeness of both sides of each split, with ``warnings`` for wrong ones.

        ``languages`` are the names of the source and the target language.
        """
        likeness, warnings = {}, []
        for name, pairs in splits.items():
            judged = [[pair[side] for pair in islice(pairs, JUDGED_LINES)] for side in (0, 1)]
            named = [language_of(lines, languages) for lines in judged]
            sides = [self.likeness(lines) for lines in judged]
            if named != [None, None]:
                warnings += _warnings(name, [found == 1 - side for side, found in enumerate(named)], languages)
            else:
                warnings += _disagreement(name, [_wrong(value, side) for side, value in enumerate(sides)])
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


def language_of(lines: Iterable[str], languages: tuple[str, str]) -> int | None:
    """Return which of two languages, 0 or 1, a text is written in, by their scripts or by their function words.

    None if the text is short or in neither, or if a language is unknown.
    """
    text = _letters(lines)
    scripts = [scripts_of(language) for language in languages]
    if all(scripts) and scripts[0].isdisjoint(scripts[1]):
        written = [_script(letter) for letter in text]
        found, least = [sum(script in own for script in written) for own in scripts], float(LEAST_LETTERS)
    else:
        known = [set(FUNCTION_WORDS.get(re.split("[-_]", language)[0].lower(), "").split()) for language in languages]
        if not all(known):
            return None
        words = text.split()
        found = [sum(word in own for word in words) for own in (known[0] - known[1], known[1] - known[0])]
        least = FUNCTION_SHARE * max(len(words), LEAST_WORDS)
    likely = int(found[1] > found[0])
    return likely if found[likely] >= max(least, TIMES_AS_MANY * found[1 - likely]) else None


def script_share(text: str, scripts: Set[str]) -> float:
    """Share of the letters of a text whose script is one of ``scripts``; 1 for a text without letters.

    A letter is a character of the Unicode categories L*; its script is the first word of its Unicode name, as in
    CYRILLIC SMALL LETTER A. Marks, digits and punctuation do not count.
    """
    letters = [script for script in map(_script, text) if script]
    return sum(script in scripts for script in letters) / len(letters) if letters else 1.0


@cache
def _script(character: str) -> str:
    """The script of a letter, "" for anything else."""
    if unicodedata.category(character)[0] != "L":
        return ""
    first, *others = unicodedata.name(character, "UNKNOWN").split()
    return others[0] if first in ("FULLWIDTH", "HALFWIDTH") and others else first


def _letters(lines: Iterable[str]) -> str:
    """The lowercased words of a text, letters only, with a space around each."""
    return NOT_LETTERS.sub(" ", f" {' '.join(line[:LONGEST_LINE] for line in lines)} ".lower())


def _trigrams(lines: Iterable[str]) -> tuple[NDArray[np.intp], int]:
    """Hash a text: -> the bucket of each character trigram, (trigrams,), and the number of letters."""
    text = _letters(lines)
    points = np.frombuffer(f" {text} ".encode("utf-32-le", "replace"), "<u4").astype(np.uint64)
    first, second, third = points[:-2], points[1:-1], points[2:]
    hashed = ((first * MULTIPLIER + second) * MULTIPLIER + third) * MULTIPLIER
    return (hashed >> np.uint64(64 - BUCKETS_LOG2)).astype(np.intp), len(text) - text.count(" ")


def _wrong(likeness: float | None, side: int) -> bool:
    """Whether text of a side (0 source, 1 target) looks like the other side."""
    return likeness is not None and (likeness < CLEAR if side == 0 else likeness > 1 - CLEAR)


def _warnings(split: str, wrong: Sequence[bool], languages: tuple[str, str]) -> list[str]:
    """Warn of sides that are written in the language of the other side."""
    source, target = languages
    if all(wrong):
        return [
            f"data.{split}: source and target seem to be swapped: the source looks like {target} and the target like "
            f"{source}"
        ]
    looks = f"the source looks like {target}", f"the target looks like {source}"
    return [f"data.{split}: {look}" for look, side in zip(looks, wrong, strict=True) if side]


def _disagreement(split: str, wrong: Sequence[bool]) -> list[str]:
    """Warn of sides that look like the other side of the training text, which may itself be wrong."""
    disagree = f"data.train and data.{split} disagree"
    if all(wrong):
        return [
            f"{disagree}: the source of each looks like the target of the other; source and target of one of them "
            "seem to be swapped"
        ]
    return [
        f"{disagree}: the {side} of data.{split} looks like the {other} of data.train"
        for side, other, found in (("source", "target", wrong[0]), ("target", "source", wrong[1]))
        if found
    ]
