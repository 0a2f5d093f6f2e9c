"""Spans that are not translated, such as URLs: the network reads and writes a placeholder for each.

A placeholder is a piece of its own: a character of Unicode's private use area, which byte-pair encoding never merges.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from nmt.config.schema import TAG, Span

PLACEHOLDERS = tuple(map(chr, range(0xE000, 0xE00A)))
"""If a text has more spans, the others stay."""
STRAY = str.maketrans(dict.fromkeys(PLACEHOLDERS, "\ufffd"))
"""Makes placeholders in a text unknown characters."""
ATTRIBUTES = r"(?:\s(?:=\s*+(?:\"[^\"<]*\"|'[^'<]*')|[^<>/]|/(?!>))*+)?"
"""Attributes of a tag; a quoted value may contain >."""
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uff00-\uffef"
LETTER = rf"[^\W{UNSPACED}]"
"""A character of a word between spaces, unlike those of Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
URL = r"(?i:https?://|www\.)"
PATTERNS: Mapping[Span, str] = {
    "braces": r"(?<!\{)\{++[^\s{}]++\}++",
    "email": rf"(?<!{LETTER})(?<![.+-])(?:{LETTER}|[.+-])++@(?:{LETTER}|-)++(?:\.(?:{LETTER}|-)+)+",
    "number": rf"(?<!\d[.,:/-])\d++(?:[.,:/-]\d++)*+(?!{LETTER})",
    "tag": rf"</?[A-Za-z][\w:.-]*+{ATTRIBUTES}/?>",
    "url": rf"{URL}[^\s<>{{}}\"{UNSPACED}]*(?:{LETTER}|/)",
}
"""None takes more than linear time. A tag begins with a letter: ``<2fr>``, which names a language, is text."""
SHARE, MOST_WORDS, SHORTEST = 0.1, 3, 3
"""Share of the training pairs in which words become placeholders too, because few corpora have spans; most such words
of a pair, and fewest characters of one."""


@dataclass(frozen=True)
class Hidden:
    """Texts with placeholders."""

    texts: Sequence[str]
    spans: Mapping[str, str] = field(default_factory=dict)
    """The span behind each placeholder."""
    differ: bool = False
    """Whether the two sides of a pair have different spans; then they keep them."""


def restored(text: str, spans: Mapping[str, str]) -> str:
    """Put spans in place of their placeholders."""
    return text.translate({ord(placeholder): span for placeholder, span in spans.items()})


@dataclass(frozen=True)
class Protection:
    """Hides the spans of these kinds; without kinds, text stays as it is."""

    kinds: tuple[Span, ...] = ()
    tags: tuple[str, ...] = ()
    """The tags of the training corpora; each is a piece, and never hidden."""

    @cached_property
    def _token(self) -> re.Pattern[str]:
        """A tag that stays; a span, group 1; or a word, group 2."""
        spans = "|".join(PATTERNS[kind] for kind in self.kinds)
        return re.compile("|".join([*map(re.escape, self.tags), f"({spans})", rf"((?:(?!{URL}){LETTER})+)"]))

    def parted(self, text: str) -> tuple[str, str]:
        """Part a text into the tag at its beginning, or nothing, and the rest."""
        begin = text.lstrip()
        tag = next((tag for tag in self.tags if begin.startswith(tag)), "")
        return tag, begin.removeprefix(tag) if tag else text

    def unknown_tag(self, text: str) -> str | None:
        """Say what is wrong with a text that begins with a word like <2fr>, if it is not one of the tags."""
        found = re.match(rf"\s*({TAG})", text) if self.tags and not self.parted(text)[0] else None
        if found is None or found.end() - 1 in self.inside(text):
            return None
        return f"begins with {found[1]}, which was not trained; the tags are: {', '.join(self.tags)}"

    def inside(self, text: str) -> set[int]:
        """Return the places inside spans of a text, where it must not be split."""
        if not self.kinds:
            return set()
        return {place for token in self._token.finditer(text) for place in range(token.start(1) + 1, token.end(1))}

    def hide(self, *texts: str, share: float = 0.0) -> Hidden:
        """Hide the spans of a text to translate, or of both sides of a pair, if these have the same spans.

        In a ``share`` of all pairs some words that both sides have once become placeholders, too. The placeholders
        depend only on the source, so that a pair has those of its translation.
        """
        if not self.kinds:
            return Hidden(texts)
        clean = [text.translate(STRAY) for text in texts]
        found = [self._token.findall(text) for text in clean]
        hidden, others = ([(1, span) for span, _ in side if span] for side in (found[0], found[-1]))
        if Counter(hidden) != Counter(others):
            return Hidden(clean, differ=True)
        if not hidden and not share:
            return Hidden(clean)
        choice = random.Random(clean[0])
        order = choice.sample(PLACEHOLDERS, len(PLACEHOLDERS))
        if choice.random() < share:
            ours, theirs = (Counter(word for _, word in side) for side in (found[0], found[-1]))
            once = [word for word in ours if ours[word] == theirs[word] == 1 and len(word) >= SHORTEST]
            hidden += [(2, word) for word in choice.sample(once, min(len(once), choice.randint(1, MOST_WORDS)))]
        chosen = [*zip(order, hidden, strict=False)]

        def replaced(text: str) -> str:
            left = defaultdict[tuple[int | None, str], list[str]](list)
            for placeholder, found in chosen:
                left[found].append(placeholder)

            def of(token: re.Match[str]) -> str:
                same = left[token.lastindex, token[0]]  # the group tells the span 0 from that in the word v2.0
                return same.pop(0) if same else token[0]

            return self._token.sub(of, text)

        return Hidden([replaced(text) for text in clean], {placeholder: span for placeholder, (_, span) in chosen})
