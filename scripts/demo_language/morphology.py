"""Regular English and French inflection; the lexicon has the irregular forms."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Tense = Literal["present", "past", "future"]


class Agreement(NamedTuple):
    """Person, number and gender, for agreement. French `vous` is a second person plural."""

    person: int = 3
    plural: bool = False
    feminine: bool = False


@dataclass(frozen=True)
class Noun:
    """A common noun. `kind` is its letter in the lexicon, by which verbs and adjectives select nouns."""

    english: tuple[str, str]
    """Singular, plural."""
    french: tuple[str, str]
    feminine: bool
    kind: str


@dataclass(frozen=True)
class Adjective:
    """An adjective; `before` is True for the few that stay in front of the French noun."""

    english: str
    french: tuple[str, str, str, str]
    """Masculine, feminine, masculine plural, feminine plural."""
    before: bool
    kinds: str

    def form(self, agreement: Agreement) -> str:
        """The French form that agrees."""
        return self.french[2 * agreement.plural + agreement.feminine]


@dataclass(frozen=True)
class EnglishVerb:
    """The English half of a verb; `particle` follows it: look for, wake up."""

    base: str
    third: str
    past: str
    participle: str
    particle: str = ""


@dataclass(frozen=True)
class FrenchVerb:
    """The French half of a verb."""

    infinitive: str
    present: tuple[str, str, str, str, str]
    """je, il, nous, vous, ils."""
    future: str
    """The stem: finir-, fer-."""
    participle: str
    etre: bool = False
    """Compound tenses with être, whose participle agrees with the subject."""
    reflexive: bool = False
    preposition: str = ""
    """In front of the object: à."""


@dataclass(frozen=True)
class Verb:
    """A verb and its translation. `objects` lists the kinds of noun it takes; empty: intransitive."""

    english: EnglishVerb
    french: FrenchVerb
    objects: str


def english_plural(noun: str) -> str:
    """The regular English plural: cats, boxes, ladies."""
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def english_third(verb: str) -> str:
    """The third person singular: sees, watches, carries, goes."""
    return {"have": "has", "go": "goes"}.get(verb) or english_plural(verb)


def english_past(verb: str) -> str:
    """The regular past: walked, loved, carried."""
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + "ed"


def french_plural(word: str) -> str:
    """The regular French plural of a noun, an adjective or a participle: chats, souris, oiseaux, chevaux."""
    if word.endswith(("s", "x")):
        return word
    if word.endswith(("eau", "eu")):
        return word + "x"
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + "s"


def french_feminine(word: str) -> str:
    """The regular feminine of an adjective or a participle: rouge, grande."""
    return word if word.endswith("e") else word + "e"


def agreeing(participle: str, agreement: Agreement) -> str:
    """A participle in the gender and number of an agreement: vu, vue, vus, vues."""
    form = french_feminine(participle) if agreement.feminine else participle
    return french_plural(form) if agreement.plural else form


def regular_present(infinitive: str, strong: str) -> tuple[str, str, str, str, str]:
    """The present of a verb in -er, -ir (finir) or -re (attendre); `strong` is the stem under stress: achèt-."""
    stem, ending = infinitive[:-2], infinitive[-2:]
    if ending == "er":
        nous = stem + "e" if stem.endswith("g") else stem
        return strong + "e", strong + "e", nous + "ons", stem + "ez", strong + "ent"
    if ending == "ir":
        return stem + "is", stem + "it", stem + "issons", stem + "issez", stem + "issent"
    return stem + "s", stem, stem + "ons", stem + "ez", stem + "ent"


def regular_participle(infinitive: str) -> str:
    """The past participle of a regular verb: aimé, fini, attendu."""
    return infinitive[:-2] + {"er": "é", "ir": "i", "re": "u"}[infinitive[-2:]]


def person_index(agreement: Agreement) -> int:
    """Index of a person in (je, il, nous, vous, ils)."""
    return {(1, False): 0, (3, False): 1, (1, True): 2, (2, True): 3, (3, True): 4}[agreement.person, agreement.plural]


FUTURE_ENDINGS = ("ai", "a", "ons", "ez", "ont")
IMPERFECT_ENDINGS = ("ais", "ait", "ions", "iez", "aient")
