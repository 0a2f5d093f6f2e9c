"""Rules for noun phrases: determiners, agreement, adjectives that change sides, lists, names, numbers and dates.

Every function is a rule of the grammar: it combines its parts into a phrase and makes no random choices.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from demo_language.lexicon import ENGLISH_TENS, ENGLISH_UNITS, FRENCH_TENS, FRENCH_UNITS, MONTHS, WEEKDAYS
from demo_language.morphology import Adjective, Agreement, Noun
from demo_language.phrase import Phrase, rule, word


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun phrase, name or pronoun, with its agreement and the kinds of noun in it."""

    phrase: Phrase
    agreement: Agreement
    kinds: str = "P"


class Determiner(NamedTuple):
    """A determiner: English singular and plural; French masculine, feminine and plural."""

    one: str
    many: str
    masculine: str
    feminine: str
    plural: str

    def phrase(self, agreement: Agreement) -> Phrase:
        """The forms that agree."""
        french = self.plural if agreement.plural else self.feminine if agreement.feminine else self.masculine
        return word(self.many if agreement.plural else self.one, french)


THE = Determiner("the", "the", "le|l'", "la|l'", "les")
A = Determiner("a|an", "some", "un", "une", "des")
ANY = Determiner("a|an", "any", "de|d'", "de|d'", "de|d'")
"""The indefinite as an object of a negated verb: pas de pain."""
THIS = Determiner("this", "these", "ce|cet", "cette", "ces")
MY = Determiner("my", "my", "mon", "ma|mon", "mes")
HIS = Determiner("his", "his", "son", "sa|son", "ses")
HER = Determiner("her", "her", "son", "sa|son", "ses")
OUR = Determiner("our", "our", "notre", "notre", "nos")
YOUR = Determiner("your", "your", "votre", "votre", "vos")
THEIR = Determiner("their", "their", "leur", "leur", "leurs")
EACH = Determiner("each", "", "chaque", "chaque", "")
SEVERAL = Determiner("", "several", "", "", "plusieurs")
MANY = Determiner("", "many", "", "", "beaucoup de|d'")


def noun_phrase(
    determiner: Determiner | int,
    noun: Noun,
    *,
    plural: bool = False,
    before: Adjective | None = None,
    after: Adjective | None = None,
) -> NounPhrase:
    """A noun with its determiner and adjectives: the small red houses, les petites maisons rouges.

    Args:
        determiner: a number (2 or more) makes the noun plural.
        noun: the noun.
        plural: its number.
        before: an adjective that stays in front of the noun in French.
        after: an adjective that follows it.
    """
    plural = plural or isinstance(determiner, int)
    agreement = Agreement(3, plural, noun.feminine)
    head = word(noun.english[plural], noun.french[plural])
    if after:
        head = rule(
            "{adjective} {noun}", "{noun} {adjective}", noun=head, adjective=agreeing_adjective(after, agreement)
        )
    if before:
        head = word(before.english, before.form(agreement)) + head
    if isinstance(determiner, int):
        head = number(determiner, feminine=noun.feminine) + head
    elif before and determiner is A:
        head = A._replace(plural="de|d'").phrase(agreement) + head  # de vieilles maisons
    else:
        head = determiner.phrase(agreement) + head
    return NounPhrase(head, agreement, noun.kind)


def agreeing_adjective(adjective: Adjective, agreement: Agreement) -> Phrase:
    """An adjective not in front of its noun, where no vowel changes it: un bel arbre, but il est beau et bon."""
    return word(adjective.english, adjective.form(agreement).split("|")[0])


def name(text: str, *, feminine: bool) -> NounPhrase:
    """A person's name: the same words in both languages, each linked to itself."""
    words = tuple(text.split())
    return NounPhrase(Phrase(words, words, tuple((i, i) for i in range(len(words)))), Agreement(feminine=feminine))


SUBJECT_PRONOUNS = [
    NounPhrase(word("I", "je|j'"), Agreement(1)),
    NounPhrase(word("he", "il"), Agreement(3)),
    NounPhrase(word("she", "elle"), Agreement(3, feminine=True)),
    NounPhrase(word("we", "nous"), Agreement(1, plural=True)),
    NounPhrase(word("you", "vous"), Agreement(2, plural=True)),
    NounPhrase(word("they", "ils"), Agreement(3, plural=True)),
]


class ObjectPronoun(NamedTuple):
    """An object pronoun: English, French direct and French indirect (to somebody)."""

    english: str
    direct: str
    indirect: str
    agreement: Agreement


OBJECT_PRONOUNS = [
    ObjectPronoun("me", "me|m'", "me|m'", Agreement(1)),
    ObjectPronoun("him", "le|l'", "lui", Agreement(3)),
    ObjectPronoun("her", "la|l'", "lui", Agreement(3, feminine=True)),
    ObjectPronoun("us", "nous", "nous", Agreement(1, plural=True)),
    ObjectPronoun("you", "vous", "vous", Agreement(2, plural=True)),
    ObjectPronoun("them", "les", "leur", Agreement(3, plural=True)),
]


def listing(items: Sequence[NounPhrase]) -> NounPhrase:
    """A list: a, b and c. It is plural, and feminine if every item is."""
    phrase = items[0].phrase
    for item in items[1:-1]:
        phrase = rule("{left} , {right}", "{left} , {right}", left=phrase, right=item.phrase)
    phrase = rule("{left} and/and {right}", "{left} et/and {right}", left=phrase, right=items[-1].phrase)
    agreement = Agreement(plural=True, feminine=all(item.agreement.feminine for item in items))
    return NounPhrase(phrase, agreement, "".join(item.kinds for item in items))


def attached(head: NounPhrase, modifier: Phrase) -> NounPhrase:
    """A noun phrase with a modifier that follows it in both languages."""
    return NounPhrase(head.phrase + modifier, head.agreement, head.kinds)


OF = word("of", "de|d'")
WITH, WITHOUT, FOR = word("with", "avec"), word("without", "sans"), word("for", "pour")
PREPOSITIONS_OF_PLACE = [
    word("in", "dans"), word("on", "sur"), word("under", "sous"), word("behind", "derrière"),
    word("in front of", "devant"), word("near", "près de|d'"), word("next to", "à côté de|d'"),
    word("far from", "loin de|d'"), word("opposite", "en face de|d'"), word("above", "au-dessus de|d'"),
    word("around", "autour de|d'"),
]  # fmt: skip

# --- numbers and dates ------------------------------------------------------------------------------------------------


def number(value: int, *, feminine: bool) -> Phrase:
    """A number from 2 to 99 in words, a larger one in digits; 21, 31... agree: vingt et une maisons."""
    if value > 99:
        return word(str(value), str(value))
    return word(_english_number(value), _french_number(value, feminine=feminine))


def _english_number(value: int) -> str:
    tens, unit = divmod(value, 10)
    if value < 20:
        return ENGLISH_UNITS[value]
    return ENGLISH_TENS[tens] + (f"-{ENGLISH_UNITS[unit]}" if unit else "")


def _french_number(value: int, *, feminine: bool) -> str:
    """The traditional spelling: vingt et un, soixante et onze, quatre-vingts, quatre-vingt-un."""
    tens, unit = divmod(value, 10)
    if value < 20:
        return FRENCH_UNITS[value]
    rest = unit + (10 if tens in (7, 9) else 0)
    if rest == 0:
        return FRENCH_TENS[tens] + ("s" if tens == 8 else "")
    last = "une" if rest == 1 and feminine else FRENCH_UNITS[rest].removeprefix("*")
    return FRENCH_TENS[tens] + (" et " if rest in (1, 11) and tens < 8 else "-") + last


def date(day: datetime.date) -> Phrase:
    """A day of the calendar: on Monday 3 May 1987, le lundi 3 mai 1987."""
    weekday, jour = WEEKDAYS[day.weekday()]
    month, mois = MONTHS[day.month - 1]
    return rule(
        f"on/on {weekday}/weekday {day.day}/day {month}/month {day.year}/year",
        f"le/on {jour}/weekday {'1er' if day.day == 1 else day.day}/day {mois}/month {day.year}/year",
    )


def clock(hour: int) -> Phrase:
    """An hour of the clock, 1 to 11: at seven o'clock, à sept heures."""
    french = "une/hour heure/clock" if hour == 1 else f"{FRENCH_UNITS[hour]}/hour heures/clock"
    return rule(f"at/at {ENGLISH_UNITS[hour]}/hour o'clock/clock", f"à/at {french}")
