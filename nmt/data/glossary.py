"""Terms with a given translation, which the network reads in place of the term, and learns to copy.

Inline constraints that replace the source term (Dinu et al. 2019). Two marks, pieces of their own like the placeholders
of spans, stand around the translation.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from nmt.data.corpus import Pair
from nmt.data.protection import LETTER, PLACEHOLDERS, Protection

TERM_MARKS = chr(ord(PLACEHOLDERS[-1]) + 1), chr(ord(PLACEHOLDERS[-1]) + 2)
"""Before and behind a translation."""
STRAY = str.maketrans(dict.fromkeys(TERM_MARKS, "\ufffd"))
"""Makes marks in a text unknown characters."""
COPIED = 0.15
"""Part of ``share`` that shows the whole target, to learn to copy words of any glossary (Currey et al. 2017)."""
STEM, ENDING = 3, 2
"""Letters of a word that inflection keeps at least, and letters at its end that it may change."""


@dataclass(frozen=True)
class Glossary:
    """Translations of terms."""

    terms: Mapping[str, str]
    share: float = 0.0
    """Share of the training pairs that an epoch shows with some of them."""
    protection: Protection = field(default_factory=Protection)
    """Terms inside its spans stay."""

    @cached_property
    def _spelled(self) -> dict[str, str]:
        """The translations of the terms as written, with a capital as at the beginning of a sentence, in capitals."""
        first = {term[0].upper() + term[1:]: each for term, each in self.terms.items()}
        return {term.upper(): each for term, each in self.terms.items()} | first | dict(self.terms)

    @cached_property
    def _found(self) -> re.Pattern[str]:
        """A whole term, the longest first, with any white space between its words."""
        groups = defaultdict[str, list[str]](list)  # by their first character, so that few are tried at each place
        for term in sorted(self._spelled, key=len, reverse=True):
            groups[first := re.escape(term[0])].append(r"\s+".join(map(re.escape, term.split())).removeprefix(first))
        spelled = "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in groups.items())
        return re.compile(rf"(?<!{LETTER})(?:{spelled or '(?!)'})(?!{LETTER})")

    def annotated(self, text: str) -> str:
        """Replace each term of a text to translate."""
        return self._replaced(text.translate(STRAY), lambda _: True)

    def inside(self, text: str) -> set[int]:
        """Return the places inside terms of a text, where it must not be split."""
        return {place for term in self._found.finditer(text) for place in range(term.start() + 1, term.end())}

    def shown(self, pair: Pair, choice: Random) -> str:
        """Return the source of a training pair: in ``share`` of all pairs with translations that the target has, in any
        form, each with a probability drawn for the pair; in ``COPIED`` of these the marked target."""
        if choice.random() >= self.share:
            return pair.source
        if choice.random() < COPIED:
            return marked(pair.target.translate(STRAY))
        part = choice.random()

        def wanted(translation: str) -> bool:
            return choice.random() < part and inflected(translation, pair.target)

        return self._replaced(pair.source, wanted)

    def fits(self, pair: Pair) -> bool:
        """Whether a training pair has a term and its translation."""
        return self._replaced(pair.source, lambda each: inflected(each, pair.target)) != pair.source

    def _replaced(self, text: str, wanted: Callable[[str], bool]) -> str:
        """Replace the terms behind the tag and outside protected spans whose translations are wanted."""
        tag, text = self.protection.parted(text)
        inside = self.protection.inside(text)

        def replaced(term: re.Match[str]) -> str:
            translation = self._spelled[" ".join(term[0].split())]
            shown = not inside & {term.start(), term.end()} and wanted(translation)
            return marked(translation) if shown else term[0]

        return tag + self._found.sub(replaced, text)


def marked(translation: str) -> str:
    """Put marks around a translation."""
    return f"{TERM_MARKS[0]} {translation} {TERM_MARKS[1]}"


def inflected(translation: str, text: str) -> bool:
    """Whether a text has a translation, the ends of its words of STEM letters or more aside: ``belle porte`` for
    ``belles portes``."""

    def forms(word: str) -> str:
        if len(word) < STEM or re.search(r"\d", word):
            return re.escape(word)
        stem = word[: max(STEM, len(word) - ENDING)]
        return rf"{re.escape(stem)}\w{{0,{len(word) - len(stem) + ENDING}}}"

    pattern = r"\s+".join(map(forms, translation.split()))
    return re.search(rf"(?<!{LETTER}){pattern}(?!{LETTER})", text, re.IGNORECASE) is not None
