"""Rules for clauses: tenses, negation in two parts, pronouns in front of the verb, questions, relative clauses.

Every function is a rule of the grammar: it combines its parts into a phrase and makes no random choices.
"""

from dataclasses import dataclass
from typing import Literal

from demo_language.morphology import (
    FUTURE_ENDINGS,
    IMPERFECT_ENDINGS,
    Adjective,
    Agreement,
    EnglishVerb,
    FrenchVerb,
    Tense,
    Verb,
    agreeing,
    person_index,
)
from demo_language.nominal import NounPhrase, ObjectPronoun, agreeing_adjective, attached
from demo_language.phrase import NOTHING, Phrase, Sentence, rule, word, write

_AVOIR = FrenchVerb("avoir", ("ai", "a", "avons", "avez", "ont"), "aur", "eu")
_ETRE = FrenchVerb("être", ("suis", "est", "sommes", "êtes", "sont"), "ser", "été")
BE = Verb(EnglishVerb("be", "is", "was", "been"), _ETRE, "")
"""The copula: in the past it is the French imperfect, was ~ était; in a passive it is not, was eaten ~ a été mangé."""

NEGATIONS = {"not": "pas", "never": "jamais", "no longer": "plus"}
ADVERBS = [
    word("often", "souvent"), word("always", "toujours"), word("sometimes", "parfois"), word("rarely", "rarement"),
    word("really", "vraiment"),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class VerbGroup:
    """The verb of a clause without objects: tense, negation, adverb, modal verb, voice."""

    verb: Verb
    tense: Tense = "present"
    negation: str = ""
    """A key of NEGATIONS, or empty."""
    adverb: Phrase = NOTHING
    modal: Verb | None = None
    """A verb that takes the infinitive of the other: wants to see, veut voir."""
    passive: bool = False
    """Passive voice: is seen, est vu."""
    final: bool = False
    """Whether the target language puts the verb behind its complements, as Japanese does."""


def clause(
    subject: NounPhrase,
    group: VerbGroup,
    complement: Phrase = NOTHING,
    *,
    pronoun: ObjectPronoun | None = None,
    moved: Agreement | None = None,
    question: bool = False,
) -> Phrase:
    """A subject, a verb and its complements.

    The subject may be an empty phrase (a second verb of the same subject) or `who`/`qui` (a relative clause).

    Args:
        subject: the subject, also of a passive verb.
        group: the verb with its tense, negation, adverb.
        complement: what follows the verb in both languages.
        pronoun: an object that French puts in front of the verb.
        moved: the agreement of another object in front of the verb: the pears that he ate, qu'il a mangées.
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
        "ne|n'/negation" if pas else "",
        "" if group.modal else clitic,
        finite,
        _tagged(pas, "negation"),
        "{adverb}",
        participle,
        f"{clitic} {group.verb.french.infinitive}/{last}" if group.modal else "",
    ]
    complements = [_tagged(to, last) if complement.french and not pronoun else "", "{complement}"]
    french = complements + french if group.final else french + complements
    asked = "est-ce/question que|qu'/question {subject}" if question else "{subject}"
    parts = {"subject": subject.phrase, "adverb": group.adverb, "complement": complement, "pronoun": NOTHING}
    if pronoun:
        parts["pronoun"] = word(pronoun.english, pronoun.indirect if to else pronoun.direct)
    return rule(" ".join(english), " ".join([asked, *french]), **parts)


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


def _french_verb(group: VerbGroup, agreement: Agreement, moved: Agreement | None, *, first: str) -> tuple[str, str]:
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
    if group.passive:
        done = agreeing(verb.french.participle, agreement)
        return f"{finite}/{first}", f"{_tagged(participle, first)} {done}/verb"
    return f"{finite}/{first}", _tagged(participle, "verb")


def _reflexive(verb: Verb, agreement: Agreement, tag: str) -> str:
    """The pronoun of a French reflexive verb, linked to the verb: she wakes up, elle se réveille."""
    return (
        ("me|m'", "se|s'", "nous", "vous", "se|s'")[person_index(agreement)] + f"/{tag}"
        if verb.french.reflexive
        else ""
    )


# --- clauses inside phrases -------------------------------------------------------------------------------------------


def who(antecedent: NounPhrase) -> NounPhrase:
    """The relative pronoun that refers to ``antecedent`` as a subject: who for people, that for the rest."""
    pronoun = word("who" if antecedent.kinds == "P" else "that", "qui")
    return NounPhrase(pronoun, antecedent.agreement, antecedent.kinds)


def that(antecedent: NounPhrase, relative: Phrase) -> NounPhrase:
    """A relative clause whose object is the antecedent: the pears that he ate."""
    return attached(antecedent, word("that", "que|qu'") + relative)


def where(antecedent: NounPhrase, relative: Phrase) -> NounPhrase:
    """A relative clause about a place: the house where he sleeps."""
    return attached(antecedent, word("where", "où") + relative)


def compared(quality: Adjective, agreement: Agreement, degree: Literal["as", "less"], other: NounPhrase) -> Phrase:
    """A comparison for the copula: as old as, aussi vieux que; less old than, moins vieux que."""
    than, french = ("as", "aussi") if degree == "as" else ("than", "moins")
    return rule(
        f"{degree}/degree {{quality}} {than}/than {{other}}",
        f"{french}/degree {{quality}} que|qu'/than {{other}}",
        quality=agreeing_adjective(quality, agreement),
        other=other.phrase,
    )


def there_is(what: NounPhrase, tense: Tense) -> Phrase:
    """There are cats: il y a des chats."""
    english = "will/is be/is" if tense == "future" else f"{_be(what.agreement, tense)}/is"
    french = {"present": "a", "past": "avait", "future": "aura"}[tense]
    return rule(f"there/is {english} {{what}}", f"il/is y/is {french}/is {{what}}", what=what.phrase)


COORDINATORS = [
    rule(", and/joint", ", et/joint"),
    rule(", but/joint", ", mais/joint"),
    rule(", so/joint", ", donc/joint"),
]
_BECAUSE, _WHEREAS = word("because", "parce que|qu'"), word("whereas", "alors que|qu'")
_WHEN, _WHILE, _IF = word("when", "quand"), word("while", "pendant que|qu'"), word("if", "si")
SUBORDINATORS: dict[Tense, list[Phrase]] = {
    "present": [_BECAUSE, _WHEREAS, _WHEN, _WHILE, _IF],
    "past": [_BECAUSE, _WHEREAS, _WHEN],
    "future": [_BECAUSE, _WHEREAS],
}
"""Subordinators whose clauses may both have this tense in both languages."""

THAT = word("that", "que|qu'")
BY = word("by", "par")
DEGREES = [word("very", "très"), word("too", "trop"), word("rather", "plutôt")]
QUESTION_WORDS = [word("why", "pourquoi"), word("when", "quand"), word("where", "où")]
TIMES: dict[Tense, list[Phrase]] = {
    "past": [word("yesterday", "hier"), rule("last/last week/week", "la/week semaine/week dernière/last")],
    "present": [word("today", "aujourd'hui"), word("now", "maintenant"), word("every day", "chaque jour")],
    "future": [word("tomorrow", "demain"), rule("next/next year/year", "l'/year année/year prochaine/next")],
}


def sentence(content: Phrase, mark: Literal[".", "?"] = ".") -> Sentence:
    """Write a sentence. A mark that stands alone, as French ? does, is linked to the word that ends with the other."""
    links = ((0, 0),) if mark == "?" else ()
    return write(content + Phrase((mark,), (mark,), links))
