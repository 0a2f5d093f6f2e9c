"""Translation of a text with warnings of lines that lose text.

Models that were trained on sentences drop text of longer lines.
"""

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import nullcontext

from nmt.errors import NmtWarning
from nmt.messages import UNSEEN, progress_bar
from nmt.translation.results import Translation
from nmt.translation.searching import WINDOW, SearchOptions
from nmt.translation.translator import Translator

BREAK = re.compile(r"(?<=[^\W\d_]{3})[.!?…][\"'”’»)\]]*\s+[\"'“‘«(\[¿¡]*(?=(\w))|[。！？]\s*(?=(\w))")
"""The end of a sentence and the beginning of the next. Three letters stand before the sign, so that titles (Mr.) and
initials (U.S.) end none."""
SHORT, LEAST = 4, 8
"""A translation is far too short if the line has SHORT times its pieces, and LEAST pieces at least."""
MOST_NAMED = 10
"""Line numbers that a warning names."""

SEVERAL = "several sentences on a line, but a model trained on sentences translates one; put each on its own line"
EMPTY = "the translation is empty"
TOO_SHORT = f"the translation has less than 1/{SHORT} of the pieces of the line"


def sentences(line: str) -> int:
    """Count the sentences of a line: one, and one more for each sign of an end before a letter that is not small."""
    return 1 + sum(not (found[1] or found[2]).islower() for found in BREAK.finditer(line.strip()))


class LostText:
    """The lines whose translation seems to lack text, by the sign of it."""

    def __init__(self) -> None:
        self._lines: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, number: int, translation: Translation) -> None:
        """Look at the translation of the line of this number."""
        read, written = len(translation.source_pieces), len(translation.pieces)
        if sentences(translation.source) > 1:
            self._lines[SEVERAL].append(number)
        if read and not translation.text.strip():
            self._lines[EMPTY].append(number)
        elif read >= LEAST and SHORT * written < read:
            self._lines[TOO_SHORT].append(number)

    def problems(self) -> Iterator[str]:
        """Name the lines of each sign, in one text each, and forget them."""
        found, self._lines = self._lines, defaultdict(list)
        for sign, numbers in found.items():
            named = ", ".join(f"{number:,}" for number in numbers[:MOST_NAMED])
            more = f" and {len(numbers) - MOST_NAMED:,} more" if len(numbers) > MOST_NAMED else ""
            yield f"line{'s' * (len(numbers) > 1)} {named}{more}: {sign}"


def translate_watched(
    translator: Translator,
    lines: Iterable[str],
    options: SearchOptions,
    *,
    source: str,
    typed: bool = False,
    first: int = 1,
    what: str | None = None,
    total: int | None = None,
) -> Iterator[Translation]:
    """Translate lines as they arrive, with warnings that name the text ``source`` and count from line ``first``.

    With ``typed``, a person types the lines, which are translated one by one. ``what`` names the step in which
    ``total`` lines are counted, if that is known; None shows no progress.
    """

    def warn(place: str, problem: str) -> None:
        warnings.warn(f"{place}: {problem}", NmtWarning, stacklevel=3)

    lost = LostText()
    with nullcontext(UNSEEN) if what is None else progress_bar(what, total, "lines") as progress:
        found = translator.stream(
            lines,
            options,
            first=first,
            window=1 if typed else WINDOW,
            warn=lambda line, problem: warn(f"{source}:{line}", problem),
            progress=progress,
        )
        for number, translation in enumerate(found, first):
            lost.add(number, translation)
            if typed:
                for problem in lost.problems():
                    warn(source, problem)
            yield translation
    for problem in lost.problems():
        warn(source, problem)
