"""Bilingual phrases, the rules that combine them, and their spelling.

A token may be written ``before-consonant|before-vowel``: ``le|l'``, ``beau|bel``, ``a|an``. A leading ``*`` makes a
word sound as if it began with a consonant, whatever its letter: ``*héros`` (h aspiré), ``*useful``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

Links = tuple[tuple[int, int], ...]

PUNCTUATION = (",", ".", "?")
ENGLISH_VOWELS = "aeiou"
FRENCH_VOWELS = "aàâeéèêiîoôœuûh"
CONTRACTIONS = {
    ("de", "le"): "du",
    ("de", "les"): "des",
    ("à", "le"): "au",
    ("à", "les"): "aux",
    ("si", "il"): "s'il",
    ("si", "ils"): "s'ils",
}


class Sentence(NamedTuple):
    """A raw sentence pair and its gold links: (English word, French word), from 0, words split at spaces."""

    english: str
    french: str
    alignment: Links


@dataclass(frozen=True, slots=True)
class Phrase:
    """English tokens, French tokens, and links (English index, French index) between translations."""

    english: tuple[str, ...] = ()
    french: tuple[str, ...] = ()
    links: Links = ()

    @property
    def words(self) -> int:
        """Number of English words in writing, where a punctuation mark belongs to the word before it."""
        return sum(token not in PUNCTUATION for token in self.english)

    def __add__(self, other: Phrase) -> Phrase:
        """Concatenate phrases in both languages."""
        return rule("{left} {right}", "{left} {right}", left=self, right=other)


NOTHING = Phrase()


def word(english: str, french: str) -> Phrase:
    """A dictionary entry: every English token is linked to every French token."""
    left, right = tuple(english.split()), tuple(french.split())
    return Phrase(left, right, tuple((i, j) for i in range(len(left)) for j in range(len(right))))


def rule(english: str, french: str, **parts: Phrase) -> Phrase:
    """Apply a rule of a synchronous grammar (Chiang 2007, section 2): the same parts, in each language's own order.

    ``{name}`` is the part of that name. ``token/tag`` is a word of the rule itself; it is linked to the words with the
    same tag on the other side, and to a part of that name: ``rule("{who} does/verb not/neg {verb}", "{who} ne/neg
    {verb} pas/neg", ...)``. A word without a tag has no link; one with several (``does/verb+question``) has them all.
    """
    left, starts, left_tags = _side(english, {name: part.english for name, part in parts.items()})
    right, others, right_tags = _side(french, {name: part.french for name, part in parts.items()})
    links = [(starts[name] + i, others[name] + j) for name in parts for i, j in parts[name].links]
    for tag, rows in left_tags.items():
        columns = right_tags.get(tag, [])
        links += [(i, j) for i in rows for j in columns]
        if tag in parts:
            links += [(i, others[tag] + j) for i in rows for j in range(len(parts[tag].french))]
    for tag, columns in right_tags.items():
        if tag in parts:
            links += [(starts[tag] + i, j) for j in columns for i in range(len(parts[tag].english))]
    return Phrase(left, right, tuple(sorted(links)))


def _side(
    template: str, parts: dict[str, tuple[str, ...]]
) -> tuple[tuple[str, ...], dict[str, int], dict[str, list[int]]]:
    """Fill one side of a rule: -> its tokens, the first index of each part, the indices of each tag."""
    tokens: list[str] = []
    starts: dict[str, int] = {}
    tags: dict[str, list[int]] = {}
    for part, token, tag in _parse(template):
        if part:
            starts[part] = len(tokens)
            tokens += parts[part]
        else:
            for one in filter(None, tag.split("+")):
                tags.setdefault(one, []).append(len(tokens))
            tokens.append(token)
    return tuple(tokens), starts, tags


@cache
def _parse(template: str) -> tuple[tuple[str, str, str], ...]:
    """Parse a template into (part name, token, tag); those that do not apply are empty."""
    items = []
    for item in template.split():
        if item.startswith("{"):
            items.append((item[1:-1], "", ""))
        else:
            token, _, tag = item.partition("/")
            items.append(("", token, tag))
    return tuple(items)


def write(phrase: Phrase) -> Sentence:
    """Spell a sentence in both languages; links between tokens become links between the words that contain them."""
    english, english_word = _spell(phrase.english, ENGLISH_VOWELS, attached=PUNCTUATION)
    french, french_word = _spell(phrase.french, FRENCH_VOWELS, attached=(",", "."))
    links = {(english_word[i], french_word[j]) for i, j in phrase.links}
    return Sentence(_capitalised(" ".join(english)), _capitalised(" ".join(french)), tuple(sorted(links)))


def _spell(tokens: tuple[str, ...], vowels: str, attached: Sequence[str]) -> tuple[list[str], list[int]]:
    """Join tokens to words: -> the words, and the index of the word that contains each token."""
    following = (*tokens[1:], ".")
    spelled = [_choose(token, next_token, vowels) for token, next_token in zip(tokens, following, strict=True)]
    words: list[str] = []
    places: list[int] = []
    previous = ""
    for token in spelled:
        if (previous, token) in CONTRACTIONS:
            words[-1] = CONTRACTIONS[previous, token]
        elif words and (token in attached or words[-1].endswith("'")):
            words[-1] += token
        else:
            words.append(token)
        places.append(len(words) - 1)
        previous = token
    return words, places


def _choose(token: str, following: str, vowels: str) -> str:
    """Choose the spelling of a token in front of another."""
    before_consonant, _, before_vowel = token.partition("|")
    if before_vowel and following[0].lower() in vowels:
        return before_vowel
    return before_consonant.removeprefix("*")


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
