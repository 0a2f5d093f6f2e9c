"""Spans that are not translated, such as URLs: each is one piece for the network, and comes back in the translation.

A piece of its own is a character of Unicode's private use area, which no text needs and which byte-pair encoding never
merges.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from nmt.config.schema import Span

PLACEHOLDERS = tuple(map(chr, range(0xE000, 0xE00A)))
"""The pieces; of a line with more spans the others are translated as text."""
PATTERNS: Mapping[Span, str] = {
    "url": r"(?:https?://|www\.)[^\s<>{}\"]*[\w/]",
    "email": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "braces": r"\{+[^\s{}]+\}+",
    "tag": r"<[^\s<>]+>",
    "number": r"(?<!\w)\d+(?:[.,:/]\d+)*(?!\w)",
}
"""Spans without white space, by kind."""
SHARE = 0.1
"""Share of the training pairs in which shared words become placeholders too: few corpora have spans."""
MOST_WORDS, SHORTEST = 3, 3
"""Most such words in a pair, and fewest characters in one."""


@dataclass(frozen=True)
class Protection:
    """Replaces the spans of these kinds; without kinds, text stays as it is."""

    kinds: tuple[Span, ...] = ()

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces that both vocabularies need."""
        return PLACEHOLDERS if self.kinds else ()

    @cached_property
    def _span(self) -> re.Pattern[str]:
        """A span; a placeholder in a text is one, so that it stands for itself."""
        return re.compile("|".join([*PLACEHOLDERS, *(PATTERNS[kind] for kind in PATTERNS if kind in self.kinds)]))

    def hide(self, text: str) -> tuple[str, dict[str, str]]:
        """Return a text with placeholders, and the span that each stands for: ``str.maketrans`` puts them back."""
        spans = dict(zip(self.pieces, self._span.findall(text), strict=False))
        places = iter(spans)
        return self._span.sub(lambda span: next(places, span[0]), text) if spans else text, spans

    def hide_pair(self, source: str, target: str, share: float = 0.0) -> tuple[str, str]:
        """Return both sides of a pair with placeholders for the spans that both have.

        In a ``share`` of all pairs some other words of both sides become placeholders, too. Words and placeholders are
        a pure function of the pair.
        """
        if not self.kinds:
            return source, target
        choice, token = random.Random(f"{source}\n{target}"), re.compile(rf"{self._span.pattern}|\w+")
        ours, theirs = (Counter(token.findall(text)) for text in (source, target))
        hidden = [each for each in (ours & theirs).elements() if self._span.fullmatch(each)]
        if choice.random() < share:
            words = [each for each in ours if ours[each] == theirs[each] == 1 and len(each) >= SHORTEST]
            words = [each for each in words if each not in hidden]
            hidden += choice.sample(words, min(len(words), choice.randint(1, MOST_WORDS)))
        choice.shuffle(hidden)
        order = choice.sample(PLACEHOLDERS, len(PLACEHOLDERS))

        def replaced(text: str) -> str:
            places = defaultdict[str, list[str]](list)
            for span, piece in zip(hidden, order, strict=False):
                places[span].append(piece)
            return token.sub(lambda each: places[each[0]].pop() if places[each[0]] else each[0], text)

        return replaced(source), replaced(target)
