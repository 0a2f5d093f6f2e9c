"""The rules of the demo language: how English and French put the same words together.

Every function is a rule: it takes parts and gives the phrase they make, with its links. None of them chooses anything;
what to say is decided in :mod:`nmt.demo.generator`.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from nmt.demo.lexicon import MONTHS, WEEKDAYS
from nmt.demo.morphology import (
    FUTURE_ENDINGS,
    IMPERFECT_ENDINGS,
    Adjective,
    Agreement,
    EnglishVerb,
    FrenchVerb,
    Noun,
    Tense,
    Verb,
    agreeing,
    person_index,
)
from nmt.demo.phrase import NOTHING, Phrase, Sentence, rule, word, write


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun phrase, a name or a pronoun, with what it asks of verbs and adjectives."""

    phrase: Phrase
    agreement: Agreement


# --- noun phrases -----------------------------------------------------------------------------------------------------


class Determiner(NamedTuple):
    """English singular and plural; French masculine, feminine and plural."""

    one: str
    many: str
    masculine: str
    feminine: str
    plural: str

    def phrase(self, agreement: Agreement) -> Phrase:
        """The forms that agree; an adjective in front does not change them."""
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
    """A noun with what agrees with it: the small red houses, les petites maisons rouges.

    Args:
        determiner: a number is spelled out (2 to 100) and makes the noun plural.
        noun: the noun.
        plural: its number.
        before: an adjective that stays in front of the noun in French.
        after: one that goes behind it.
    """
    plural = plural or isinstance(determiner, int)
    agreement = Agreement(3, plural, noun.feminine)
    head = word(noun.english[plural], noun.french[plural])
    if after:
        head = rule("{adjective} {noun}", "{noun} {adjective}", noun=head, adjective=adjective(after, agreement))
    if before:
        head = adjective(before, agreement, in_front=True) + head
    if isinstance(determiner, int):
        return NounPhrase(number(determiner, feminine=noun.feminine) + head, agreement)
    if determiner is A and plural and before:
        determiner = replace_plural(A, "de|d'")
    return NounPhrase(determiner.phrase(agreement) + head, agreement)


def replace_plural(determiner: Determiner, plural: str) -> Determiner:
    """The determiner with another French plural: de vieilles maisons, not des."""
    return determiner._replace(plural=plural)


def adjective(adjective: Adjective, agreement: Agreement, *, in_front: bool = False) -> Phrase:
    """An adjective that agrees; only in front of its noun does it change before a vowel: un bel arbre, il est beau."""
    form = adjective.form(agreement)
    return word(adjective.english, form if in_front else form.split("|")[0])


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
    """An object pronoun, in French in front of the verb: English, direct, indirect (to somebody)."""

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
    """A list: a , b and c. It is plural, and feminine if everything in it is."""
    phrase = items[0].phrase
    for item in items[1:-1]:
        phrase = rule("{left} , {right}", "{left} , {right}", left=phrase, right=item.phrase)
    phrase = rule("{left} and/and {right}", "{left} et/and {right}", left=phrase, right=items[-1].phrase)
    return NounPhrase(phrase, Agreement(3, True, all(item.agreement.feminine for item in items)))


PREPOSITIONS_OF_PLACE = [
    word("in", "dans"), word("on", "sur"), word("under", "sous"), word("behind", "derrière"),
    word("in front of", "devant"), word("near", "près de|d'"), word("next to", "à côté de|d'"),
    word("far from", "loin de|d'"), word("opposite", "en face de|d'"), word("above", "au-dessus de|d'"),
    word("around", "autour de|d'"),
]  # fmt: skip
OF = word("of", "de|d'")
WITH, WITHOUT, FOR = word("with", "avec"), word("without", "sans"), word("for", "pour")


def attached(head: NounPhrase, modifier: Phrase) -> NounPhrase:
    """A noun phrase and what follows it."""
    return replace(head, phrase=head.phrase + modifier)


# --- numbers and dates ------------------------------------------------------------------------------------------------

_ENGLISH_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_ENGLISH_TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
_FRENCH_UNITS = (
    "zéro un deux trois quatre cinq six sept *huit neuf dix *onze douze treize quatorze quinze seize dix-sept dix-huit "
    "dix-neuf"
).split()
_FRENCH_TENS = "_ _ vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt".split()


def number(value: int, *, feminine: bool) -> Phrase:
    """A number from 2 to 100 in words, or a larger one in digits; 21, 31... agree: vingt et une maisons."""
    if value > 100:
        return word(str(value), str(value))
    if value == 100:
        return word("a hundred", "cent")
    tens, unit = divmod(value, 10)
    if value < 20:
        english = _ENGLISH_UNITS[value]
    else:
        english = _ENGLISH_TENS[tens] + (f"-{_ENGLISH_UNITS[unit]}" if unit else "")
    return word(english, french_number(value, feminine=feminine))


def french_number(value: int, *, feminine: bool) -> str:
    """A French cardinal from 2 to 99: soixante et onze, quatre-vingts, quatre-vingt-une."""
    tens, unit = divmod(value, 10)
    if value < 20:
        return _FRENCH_UNITS[value]
    rest = unit + (10 if tens in (7, 9) else 0)
    if rest == 0:
        return _FRENCH_TENS[tens] + ("s" if tens == 8 else "")
    last = "une" if rest == 1 and feminine else _FRENCH_UNITS[rest].removeprefix("*")
    joined = " et " if rest in (1, 11) and tens < 8 else "-"
    return _FRENCH_TENS[tens] + joined + last


def date(day: datetime.date) -> Phrase:
    """A day of the calendar: on Monday 3 May 1987, le lundi 3 mai 1987."""
    weekday, jour = WEEKDAYS[day.weekday()]
    month, mois = MONTHS[day.month - 1]
    return rule(
        f"on/on {weekday}/weekday {day.day}/day {month}/month {day.year}/year",
        f"le/on {jour}/weekday {'1er' if day.day == 1 else day.day}/day {mois}/month {day.year}/year",
    )


def clock(hour: int) -> Phrase:
    """An hour of the clock: at seven o'clock, à sept heures."""
    hours = "heure" if hour == 1 else "heures"
    french = "une" if hour == 1 else _FRENCH_UNITS[hour]
    return rule(f"at/at {_ENGLISH_UNITS[hour]}/hour o'clock/clock", f"à/at {french}/hour {hours}/clock")


# --- verbs ------------------------------------------------------------------------------------------------------------

_AVOIR = FrenchVerb("avoir", ("ai", "a", "avons", "avez", "ont"), "aur", "eu")
_ETRE = FrenchVerb("être", ("suis", "est", "sommes", "êtes", "sont"), "ser", "été")
BE = Verb(EnglishVerb("be", "is", "was", "been"), _ETRE, "")
"""The copula: in the past it is the French imperfect, was ~ était; in a passive it is not, was eaten ~ a été mangé."""

NEGATIONS = {"not": "pas", "never": "jamais", "no longer": "plus"}
ADVERBS = [
    word("often", "souvent"), word("always", "toujours"), word("sometimes", "parfois"), word("rarely", "rarement"),
    word("really", "vraiment"), word("also", "aussi"),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class VerbGroup:
    """What is said about the subject, without objects: a verb, its tense, whether it is denied or wanted, how often."""

    verb: Verb
    tense: Tense = "present"
    negation: str = ""
    """One of NEGATIONS, or nothing."""
    adverb: Phrase = NOTHING
    modal: Verb | None = None
    """A verb that takes the infinitive of the other: wants to see, veut voir."""
    passive: bool = False
    """The verb is done to the subject: is seen, est vu."""


def clause(
    subject: NounPhrase,
    group: VerbGroup,
    complement: Phrase = NOTHING,
    *,
    pronoun: ObjectPronoun | None = None,
    moved: Agreement | None = None,
    question: bool = False,
) -> Phrase:
    """A subject, a verb and what follows it.

    The subject may be an empty phrase (a second verb of the same subject) or `who`/`qui` (a relative clause).

    Args:
        subject: who does it.
        group: the verb with its tense, negation, adverb.
        complement: what follows the verb in both languages.
        pronoun: an object that French puts in front of the verb.
        moved: the agreement of any other object in front of the verb: the pears that he ate, qu'il a mangées.
        question: does he see..., est-ce qu'il voit...
    """
    to = group.verb.french.preposition
    if pronoun and not to:
        moved = pronoun.agreement
    do = question or group.negation == "not"
    # Where both languages take an auxiliary and a verb, each is linked to its own: did ~ a, see ~ vu.
    first = "auxiliary" if group.passive or (do and group.tense == "past" and group.verb is not BE) else "verb"
    last = "infinitive" if group.modal else "verb"
    auxiliary, main = _english_verb(group, subject.agreement, do=do, first=first)
    finite, participle = _french_verb(group, subject.agreement, moved, first=first)
    clitic = "{pronoun}" if pronoun else _reflexive(group.verb, subject.agreement, last)
    pas = NEGATIONS.get(group.negation, "")
    english = [
        f"{auxiliary}+question {{subject}}" if question else f"{{subject}} {auxiliary}",
        _tagged(group.negation, "negation"),
        "{adverb}",
        main,
        _tagged(f"to {_with_particle(group.verb, group.verb.english.base)}", last) if group.modal else "",
        "{pronoun} {complement}",
    ]
    french = [
        "est-ce/question que|qu'/question" if question else "",
        "{subject}",
        "ne|n'/negation" if pas else "",
        "" if group.modal else clitic,
        finite,
        _tagged(pas, "negation"),
        "{adverb}",
        participle,
        f"{clitic} {group.verb.french.infinitive}/{last}" if group.modal else "",
        _tagged(to, last) if complement and not pronoun else "",
        "{complement}",
    ]
    parts = {"subject": subject.phrase, "adverb": group.adverb, "complement": complement, "pronoun": NOTHING}
    if pronoun:
        parts["pronoun"] = word(pronoun.english, pronoun.indirect if to else pronoun.direct)
    return rule(" ".join(english), " ".join(french), **parts)


def _tagged(words: str, tag: str) -> str:
    return " ".join(f"{token}/{tag}" for token in words.split())


def _with_particle(verb: Verb, form: str) -> str:
    return f"{form} {verb.english.particle}".strip()


def _english_verb(group: VerbGroup, agreement: Agreement, *, do: bool, first: str) -> tuple[str, str]:
    """The auxiliary (or nothing) and the verb, tagged."""
    verb = group.modal or group.verb
    base, third = verb.english.base, agreement.person == 3 and not agreement.plural
    if group.passive or verb is BE:
        done = _tagged(_with_particle(verb, verb.english.participle), "verb") if group.passive else ""
        if group.tense == "future":
            return f"will/{first}", f"be/{first} {done}"
        return f"{_be(agreement, group.tense)}/{first}", done
    if group.tense == "future":
        auxiliary, form = "will", base
    elif do:
        auxiliary, form = "did" if group.tense == "past" else "does" if third else "do", base
    else:
        auxiliary, form = "", verb.english.past if group.tense == "past" else verb.english.third if third else base
    return _tagged(auxiliary, first), _tagged(_with_particle(verb, form), "verb")


def _be(agreement: Agreement, tense: Tense) -> str:
    person, plural, _ = agreement
    if tense == "past":
        return "were" if plural else "was"
    return "are" if plural else "am" if person == 1 else "is"


def _french_verb(
    group: VerbGroup, agreement: Agreement, moved: Agreement | None, *, first: str
) -> tuple[str, str]:
    """The finite verb and the participle (or nothing), tagged."""
    verb, person = (group.modal or group.verb), person_index(agreement)
    french = _ETRE if group.passive else verb.french
    if group.tense == "present":
        finite, participle = french.present[person], ""
    elif group.tense == "future":
        finite, participle = french.future + FUTURE_ENDINGS[person], ""
    elif verb is BE:
        finite, participle = "ét" + IMPERFECT_ENDINGS[person], ""
    elif french.etre:
        finite, participle = _ETRE.present[person], agreeing(french.participle, agreement)
    else:
        participle = agreeing(french.participle, moved) if moved and not group.modal else french.participle
        finite = _AVOIR.present[person]
    tagged = _tagged(participle, first)
    if group.passive:
        tagged += f" {agreeing(verb.french.participle, agreement)}/verb"
    return f"{finite}/{first}", tagged


def _reflexive(verb: Verb, agreement: Agreement, tag: str) -> str:
    """The pronoun of a French reflexive verb, linked to the verb: she wakes up, elle se réveille."""
    return ("me|m'", "se|s'", "nous", "vous", "se|s'")[person_index(agreement)] + f"/{tag}" if verb.french.reflexive else ""


# --- clauses inside phrases -------------------------------------------------------------------------------------------


def who(antecedent: NounPhrase, *, animate: bool) -> NounPhrase:
    """The subject of a relative clause about this."""
    return NounPhrase(word("who" if animate else "that", "qui"), antecedent.agreement)


def that(antecedent: NounPhrase, relative: Phrase) -> NounPhrase:
    """A relative clause whose object is the antecedent: the pears that he ate."""
    phrase = rule(
        "{head} that/that {relative}", "{head} que|qu'/that {relative}", head=antecedent.phrase, relative=relative
    )
    return replace(antecedent, phrase=phrase)


def where(antecedent: NounPhrase, relative: Phrase) -> NounPhrase:
    """A relative clause about a place: the house where he sleeps."""
    return replace(antecedent, phrase=antecedent.phrase + word("where", "où") + relative)


def predicate(quality: Adjective, agreement: Agreement, degree: Phrase = NOTHING) -> Phrase:
    """What is said with the copula: very old, très vieux."""
    return degree + adjective(quality, agreement)


def compared(quality: Adjective, agreement: Agreement, degree: str, other: NounPhrase) -> Phrase:
    """A comparison: `degree` is 'as' (as old as, aussi vieux que) or 'less' (less old than, moins vieux que)."""
    left, right, french = {"as": ("as", "as", "aussi"), "less": ("less", "than", "moins")}[degree]
    return rule(
        f"{left}/degree {{adjective}} {right}/than {{other}}",
        f"{french}/degree {{adjective}} que|qu'/than {{other}}",
        adjective=adjective(quality, agreement),
        other=other.phrase,
    )


def there_is(what: NounPhrase, tense: Tense) -> Phrase:
    """There is a cat: il y a un chat."""
    english = "will/is be/is" if tense == "future" else f"{_be(what.agreement, tense)}/is"
    french = {"present": "a", "past": "avait", "future": "aura"}[tense]
    return rule(f"there/is {english} {{what}}", f"il/is y/is {french}/is {{what}}", what=what.phrase)


CONJUNCTIONS = [
    rule(", and/and", ", et/and"), rule(", but/but", ", mais/but"), word("because", "parce que|qu'"),
    word("when", "quand"), word("while", "pendant que|qu'"), word("whereas", "alors que|qu'"),
    rule(", so/so", ", donc/so"), word("if", "si"),
]  # fmt: skip
DEGREES = [word("very", "très"), word("too", "trop"), word("so", "si"), word("rather", "plutôt")]
QUESTION_WORDS = [word("why", "pourquoi"), word("when", "quand"), word("where", "où")]
TIMES: dict[Tense, list[Phrase]] = {
    "past": [word("yesterday", "hier"), rule("last/last week/week", "la/week semaine/week dernière/last")],
    "present": [word("today", "aujourd'hui"), word("every day", "chaque jour"), word("now", "maintenant")],
    "future": [word("tomorrow", "demain"), rule("next/next year/year", "l'/year année/year prochaine/next")],
}


def sentence(content: Phrase, mark: str = ".") -> Sentence:
    """A whole sentence, spelled: `mark` is . or ?; French writes a space in front of the second."""
    return write(content + Phrase((mark,), (mark,), ((0, 0),)))
