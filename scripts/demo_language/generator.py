"""Random derivations of the grammar with a target number of English words."""

import datetime
from functools import partial
from typing import Literal

from demo_language import clauses, nominal
from demo_language.clauses import BE, VerbGroup, clause
from demo_language.dice import Dice
from demo_language.lexicon import (
    ADJECTIVES,
    FEMALE_NAMES,
    INTRANSITIVE,
    KINDS,
    MALE_NAMES,
    MODALS,
    NOUNS,
    PLACES,
    SAYING,
    SURNAMES,
    TRANSITIVE,
    WITH_A,
)
from demo_language.morphology import Tense, Verb
from demo_language.nominal import Determiner, NounPhrase, ObjectPronoun
from demo_language.phrase import NOTHING, Phrase, Sentence, rule, word

LONGEST_CLAUSE = 13
"""English words of one clause; a longer budget becomes several clauses."""

_ANIMATE, _LOCAL = "PA", "TL"
_NOUNS = {kind: [noun for noun in NOUNS if noun.kind == kind] for kind in KINDS}
_BEFORE = {kind: [entry for entry in ADJECTIVES if entry.before and kind in entry.kinds] for kind in KINDS}
_AFTER = {kind: [entry for entry in ADJECTIVES if not entry.before and kind in entry.kinds] for kind in KINDS}
_DEFINITE = [
    nominal.THE, nominal.THE, nominal.THE, nominal.THIS, nominal.MY, nominal.HIS, nominal.HER, nominal.OUR,
    nominal.YOUR, nominal.THEIR,
]  # fmt: skip

Style = Literal["any", "after de", "negated", "existential"]
"""Context of a determiner. After de, French omits des; the indefinite object of a negated verb takes de."""

_SINGULAR: dict[Style, list[Determiner]] = {
    "any": [*_DEFINITE, nominal.EACH, *[nominal.A] * 4],
    "after de": [*_DEFINITE, nominal.EACH, *[nominal.A] * 4],
    "negated": [*_DEFINITE, *[nominal.ANY] * 4],
    "existential": [nominal.A],
}
_PLURAL: dict[Style, list[Determiner]] = {
    "any": [*_DEFINITE, nominal.SEVERAL, nominal.MANY, *[nominal.A] * 4],
    "after de": [*_DEFINITE, nominal.SEVERAL, nominal.MANY],
    "negated": [*_DEFINITE, *[nominal.ANY] * 4],
    "existential": [nominal.SEVERAL, nominal.MANY, nominal.A],
}
_TENSES: list[Tense] = ["present", "past", "future"]
_NEGATIONS = ["not", "not", "never", "no longer"]
_DEGREES: list[Literal["as", "less"]] = ["as", "less"]


class Generator:
    """Generator of sentences, each a derivation of the grammar that splits its budget of English words on the way down.

    The budget `words` of a clause includes its subject.
    """

    def __init__(self, seed: int, *, verb_final: bool = False) -> None:
        self.dice, self.verb_group = Dice(seed), partial(VerbGroup, final=verb_final)

    def sentence(self, words: int) -> Sentence:
        """A sentence of about ``words`` English words (3 or more)."""
        tense = self.dice.pick(_TENSES)
        if 4 <= words <= LONGEST_CLAUSE and self.dice.chance(0.15):
            return clauses.sentence(self.question(words, tense), "?")
        if words >= 9 and tense != "present" and self.dice.chance(0.25):
            return clauses.sentence(self.dated(words, tense))
        return clauses.sentence(self.clauses(words, tense))

    # --- clauses ------------------------------------------------------------------------------------------------------

    def clauses(self, words: int, tense: Tense) -> Phrase:
        """One clause, or several joined."""
        if words <= self.dice.between(LONGEST_CLAUSE - 4, LONGEST_CLAUSE):
            return self.clause(words, tense)
        first = self.clause(self.dice.between(5, min(LONGEST_CLAUSE, words - 4)), tense)
        if self.dice.chance(0.5):
            joint, tense = self.dice.pick(clauses.COORDINATORS), self.dice.pick(_TENSES)
        else:
            joint = self.dice.pick(clauses.SUBORDINATORS[tense])
        return first + joint + self.clauses(words - first.words - joint.words, tense)

    def clause(self, words: int, tense: Tense) -> Phrase:
        """One clause, sometimes with two verbs of one subject."""
        if words >= 4 and self.dice.chance(0.06):
            what = self.noun_phrase(self.dice.between(2, words - 2), "PAFBTL", listed=False, style="existential")
            return self.extended(clauses.there_is(what, tense), words, tense)
        subject = self.subject(self.dice.between(1, words // 3))
        if words < 9 or self.dice.chance(0.75):
            return self.predicate(subject, words, tense)
        # Not "says that": the subject of the second verb would be ambiguous.
        first = self.predicate(subject, self.dice.between(subject.phrase.words + 2, words - 4), tense, saying=False)
        again = NounPhrase(NOTHING, subject.agreement, subject.kinds)
        return first + word("and", "et") + self.predicate(again, words - first.words - 1, tense)

    def dated(self, words: int, tense: Tense) -> Phrase:
        """Clauses with a date in front: on Monday 3 May 1987, ..."""
        years = (1850, 2019) if tense == "past" else (2030, 2079)
        first, last = datetime.date(years[0], 1, 1), datetime.date(years[1], 12, 31)
        day = datetime.date.fromordinal(self.dice.between(first.toordinal(), last.toordinal()))
        date = nominal.date(day)
        return rule("{date} , {rest}", "{date} , {rest}", date=date, rest=self.clauses(words - date.words, tense))

    def question(self, words: int, tense: Tense) -> Phrase:
        """A question: with or without why, when, where."""
        asked = self.dice.pick(clauses.QUESTION_WORDS) if self.dice.chance(0.4) else NOTHING
        words -= asked.words
        subject = self.subject(self.dice.between(1, words // 3))
        return asked + self.predicate(subject, words, tense, question=True, saying=False)

    def predicate(
        self, subject: NounPhrase, words: int, tense: Tense, *, question: bool = False, saying: bool = True
    ) -> Phrase:
        """A subject, a verb that suits it, and its complements."""
        room = words - subject.phrase.words
        if set(subject.kinds) <= set(_ANIMATE):
            frames = [self.intransitive] * 2 + [self.transitive] * 6 * (room >= 2) + [self.indirect] * 2 * (room >= 3)
            if saying and subject.kinds == "P" and tense == "present" and room >= 5:
                frames += [self.saying] * 2
        else:
            frames = []
        frames += [self.copular] * 2 + [self.passive] * 2 * (room >= 5)
        return self.dice.pick(frames)(subject, words, tense, question)

    def intransitive(self, subject: NounPhrase, words: int, tense: Tense, question: bool) -> Phrase:
        """The girl sings in the garden."""
        group = self.group(self.dice.pick(INTRANSITIVE), tense, words - subject.phrase.words)
        return self.extended(clause(subject, group, question=question), words, tense)

    def transitive(self, subject: NounPhrase, words: int, tense: Tense, question: bool) -> Phrase:
        """The girl sees the garden, or sees him."""
        verb = self.dice.pick(TRANSITIVE)
        group = self.group(verb, tense, words - subject.phrase.words - 1)
        room = words - clause(subject, group, question=question).words
        if "P" in verb.objects and self.dice.chance(0.4 if room < 2 else 0.15):
            core = clause(subject, group, pronoun=self.object_pronoun(subject), question=question)
        else:
            size = room if room < 5 or self.dice.chance(0.5) else self.dice.between(2, room - 2)
            what = self.noun_phrase(size, verb.objects, style="negated" if group.negation else "any")
            core = clause(subject, group, what.phrase, question=question)
        return self.extended(core, words, tense)

    def indirect(self, subject: NounPhrase, words: int, tense: Tense, question: bool) -> Phrase:
        """The girl speaks to the gardener, or speaks to him."""
        verb = self.dice.pick(WITH_A)
        group = self.group(verb, tense, words - subject.phrase.words - 2)
        if self.dice.chance(0.3):
            core = clause(subject, group, pronoun=self.object_pronoun(subject), question=question)
        else:
            room = words - clause(subject, group, question=question).words
            what = self.noun_phrase(min(room, 6), verb.objects, listed=False, style="after de")
            core = clause(subject, group, what.phrase, question=question)
        return self.extended(core, words, tense)

    def copular(self, subject: NounPhrase, words: int, tense: Tense, question: bool) -> Phrase:
        """The girl is very happy, or as happy as the gardener."""
        room = words - subject.phrase.words
        group = self.group(BE, tense, room, modal=False)
        suitable = [entry for entry in ADJECTIVES if set(subject.kinds) <= set(entry.kinds)]
        quality = self.dice.pick(suitable)
        if room >= 5 and self.dice.chance(0.4):
            other = self.noun_phrase(min(room - 4, 6), subject.kinds[:1], listed=False)
            said = clauses.compared(quality, subject.agreement, self.dice.pick(_DEGREES), other)
        else:
            said = nominal.agreeing_adjective(quality, subject.agreement)
            if room >= 3 and not group.negation and self.dice.chance(0.6):
                said = self.dice.pick(clauses.DEGREES) + said
        return self.extended(clause(subject, group, said, question=question), words, tense)

    def passive(self, subject: NounPhrase, words: int, tense: Tense, question: bool) -> Phrase:
        """The girl is seen by the gardener."""
        verb = self.dice.pick([verb for verb in TRANSITIVE if set(subject.kinds) <= set(verb.objects)])
        room = words - subject.phrase.words
        group = self.verb_group(
            verb, tense, passive=True, negation="not" if room >= 6 and self.dice.chance(0.15) else ""
        )
        agent = self.noun_phrase(min(room - 3, 7), _ANIMATE, listed=False)
        core = clause(subject, group, clauses.BY + agent.phrase, question=question)
        return self.extended(core, words, tense)

    def saying(self, subject: NounPhrase, words: int, tense: Tense, question: bool) -> Phrase:
        """The girl says that ..."""
        group = self.verb_group(self.dice.pick(SAYING), tense)
        said = self.clauses(words - subject.phrase.words - 2, self.dice.pick(_TENSES))
        return clause(subject, group, clauses.THAT + said, question=question)

    def group(self, verb: Verb, tense: Tense, words: int, *, modal: bool = True) -> VerbGroup:
        """A verb and, if words are left, a negation, an adverb or a modal verb."""
        kind = self.dice.between(1, 10) if words >= 3 else 10
        if kind <= 3:
            return self.verb_group(verb, tense, negation=self.dice.pick(_NEGATIONS))
        if kind == 4:
            return self.verb_group(verb, tense, adverb=self.dice.pick(clauses.ADVERBS))
        if kind == 5 and modal:
            return self.verb_group(verb, tense, modal=self.dice.pick(MODALS))
        return self.verb_group(verb, tense)

    def extended(self, core: Phrase, words: int, tense: Tense) -> Phrase:
        """A clause with a place or time in the words that are left."""
        room = words - core.words
        if room < 1:
            return core
        if 2 <= room <= 4 and self.dice.chance(0.5 if room == 2 else 0.3):
            core, room = core + word(*self.dice.pick(PLACES)), room - 2
        if room <= 2:
            times = [time for time in clauses.TIMES[tense] if time.words <= room]
            return core + self.dice.pick(times) if times else core
        if room == 3 and self.dice.chance(0.3):
            return core + nominal.clock(self.dice.between(1, 11))
        return core + self.prepositional(room)

    # --- noun phrases -------------------------------------------------------------------------------------------------

    def subject(self, words: int) -> NounPhrase:
        """The subject of a clause."""
        if words <= 1:
            return self.dice.pick(nominal.SUBJECT_PRONOUNS) if self.dice.chance(0.4) else self.person(1)
        return self.noun_phrase(words, _ANIMATE if self.dice.chance(0.75) else self.dice.pick("FBTL"))

    def person(self, words: int) -> NounPhrase:
        """A first name, or a first name and a surname."""
        feminine = self.dice.chance(0.5)
        first = self.dice.pick(FEMALE_NAMES if feminine else MALE_NAMES)
        return nominal.name(f"{first} {self.dice.pick(SURNAMES)}" if words > 1 else first, feminine=feminine)

    def object_pronoun(self, subject: NounPhrase) -> ObjectPronoun:
        """An object pronoun of another person than the subject: not I see me."""
        person = subject.agreement.person
        return self.dice.pick([p for p in nominal.OBJECT_PRONOUNS if person == 3 or p.agreement.person != person])

    def noun_phrase(self, words: int, kinds: str, *, listed: bool = True, style: Style = "any") -> NounPhrase:
        """A noun phrase of about ``words`` words.

        Args:
            words: its budget.
            kinds: the kinds of noun that fit.
            listed: whether it may be a list; not after de and à, which French would repeat for each item.
            style: context of its determiner.
        """
        if "P" in kinds and style != "existential" and (words < 2 or (words == 2 and self.dice.chance(0.25))):
            return self.person(words)
        if listed and words >= 5 and self.dice.chance(0.35):
            return self.enumeration(words, kinds, style)
        kind = self.dice.pick(kinds)
        size = words if words < 5 else self.dice.between(2, 4)
        head = self.simple(size, kind, style)
        room = words - head.phrase.words
        return self.modified(head, room) if room >= 3 else head

    def simple(self, words: int, kind: str, style: Style) -> NounPhrase:
        """A determiner or number, a noun, up to two adjectives."""
        before = self.dice.pick(_BEFORE[kind]) if words >= 4 or (words == 3 and self.dice.chance(0.3)) else None
        after = self.dice.pick(_AFTER[kind]) if words >= 4 or (words == 3 and not before) else None
        noun, plural = self.dice.pick(_NOUNS[kind]), self.dice.chance(0.4)
        determiner: Determiner | int
        if plural and self.dice.chance(0.3):
            determiner = self.dice.between(2, 99) if self.dice.chance(0.7) else self.dice.between(100, 999)
        else:
            determiner = self.dice.pick((_PLURAL if plural else _SINGULAR)[style])
        return nominal.noun_phrase(determiner, noun, plural=plural, before=before, after=after)

    def enumeration(self, words: int, kinds: str, style: Style) -> NounPhrase:
        """Two to four noun phrases: a, b and c."""
        items: list[NounPhrase] = []
        count = self.dice.between(2, min(4, (words - 1) // 2))
        room = words - 1
        for missing in range(count, 0, -1):
            items.append(self.noun_phrase(room // missing, kinds, listed=False, style=style))
            room -= items[-1].phrase.words
        return nominal.listing(items)

    def modified(self, head: NounPhrase, words: int) -> NounPhrase:
        """A noun phrase, modified by a prepositional phrase or relative clause of about ``words`` words."""
        choice = self.dice.between(1, 6)
        if choice == 1:
            owner = self.noun_phrase(words - 1, "P", listed=False, style="after de")
            return nominal.attached(head, nominal.OF + owner.phrase)
        if choice == 2:
            return nominal.attached(head, self.prepositional(words))
        tense = self.dice.pick(_TENSES)
        if choice <= 4:
            return nominal.attached(head, self.predicate(clauses.who(head), words, tense))
        subject = self.subject(words - 3)
        if head.kinds == "L" and choice == 5:
            group = self.group(self.dice.pick(INTRANSITIVE), tense, words - 1 - subject.phrase.words)
            return clauses.where(head, clause(subject, group))
        verb = self.dice.pick([verb for verb in TRANSITIVE if head.kinds in verb.objects])
        group = self.group(verb, tense, words - 1 - subject.phrase.words, modal=False)
        return clauses.that(head, clause(subject, group, moved=head.agreement))

    def prepositional(self, words: int) -> Phrase:
        """A preposition and its noun phrase."""
        if self.dice.chance(0.3):
            preposition, kinds = self.dice.pick([nominal.WITH, nominal.WITHOUT, nominal.FOR]), _ANIMATE
        else:
            preposition, kinds = self.dice.pick(nominal.PREPOSITIONS_OF_PLACE), _LOCAL
        return preposition + self.noun_phrase(words - preposition.words, kinds, listed=False, style="after de").phrase
