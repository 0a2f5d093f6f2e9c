"""What to say: random derivations of the grammar that aim for a number of English words."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from typing import TypeVar

from nmt.demo import grammar
from nmt.demo.grammar import BE, Determiner, NounPhrase, ObjectPronoun, VerbGroup
from nmt.demo.lexicon import (
    ADJECTIVES,
    FEMALE_NAMES,
    INTRANSITIVE,
    MALE_NAMES,
    MODALS,
    NOUNS,
    PLACES,
    SAYING,
    SURNAMES,
    TRANSITIVE,
    WITH_A,
)
from nmt.demo.morphology import Tense, Verb
from nmt.demo.phrase import NOTHING, Phrase, Sentence, rule, word

T = TypeVar("T")

LONGEST_SIMPLE_CLAUSE = 13
"""English words; what is longer becomes several clauses."""

_ANYTHING, _ANIMATE, _THINGS, _LOCAL = "PAFBTL", "PA", "FBTL", "TL"
_NOUNS_OF = {kind: [noun for noun in NOUNS if noun.kind == kind] for kind in _ANYTHING}
_ADJECTIVES_OF = {
    (kind, before): [entry for entry in ADJECTIVES if kind in entry.kinds and entry.before == before]
    for kind in _ANYTHING
    for before in (True, False)
}
_SINGULAR = [
    grammar.THE, grammar.THE, grammar.THE, grammar.THIS, grammar.MY, grammar.HIS, grammar.HER, grammar.OUR,
    grammar.YOUR, grammar.THEIR, grammar.EACH,
]  # fmt: skip
_PLURAL = [*_SINGULAR[:-1], grammar.SEVERAL, grammar.MANY]
_TENSES: list[Tense] = ["present", "past", "future"]


class Dice:
    """Random choices that are the same on every machine and Python: only `Random.random` promises that."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number from low to high, both included; low where there is nothing between."""
        return low + int(self._random.random() * (high - low + 1)) if high > low else low

    def pick(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[int(self._random.random() * len(items))]


class Generator:
    """Draws sentences; each is a derivation of the grammar, its budget of words split on the way down."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed)

    def sentence(self, words: int) -> Sentence:
        """A sentence of about so many English words (3 or more)."""
        if 4 <= words <= LONGEST_SIMPLE_CLAUSE and self.dice.chance(0.12):
            return grammar.sentence(self.question(words), "?")
        if words > 8 and self.dice.chance(0.15):
            return grammar.sentence(self.dated(words))
        return grammar.sentence(self.clause(words))

    # --- clauses ------------------------------------------------------------------------------------------------------

    def clause(self, words: int) -> Phrase:
        """One clause, or several joined."""
        if words > self.dice.between(LONGEST_SIMPLE_CLAUSE - 4, LONGEST_SIMPLE_CLAUSE + 2):
            left = self.clause(self.dice.between(words * 3 // 10, words * 6 // 10))
            conjunction = self.dice.pick(grammar.CONJUNCTIONS)
            return left + conjunction + self.clause(words - len(left) - len(conjunction))
        subject = self.subject(self.dice.between(1, max(1, words // 3)))
        if words >= 9 and self.dice.chance(0.25):
            first = self.predicate(subject, (words - len(subject.phrase)) // 2)
            rest = words - len(first) - 1
            again = NounPhrase(NOTHING, subject.agreement)
            return first + word("and", "et") + self.predicate(again, rest)
        return self.predicate(subject, words - len(subject.phrase))

    def dated(self, words: int) -> Phrase:
        """A clause with a date in front: on Monday 3 May 1987 , ..."""
        day = datetime.date(1850, 1, 1) + datetime.timedelta(days=self.dice.between(0, 365 * 230))
        return rule("{date} , {clause}", "{date} , {clause}", date=grammar.date(day), clause=self.clause(words - 5))

    def question(self, words: int) -> Phrase:
        """A question: with or without why, when, where."""
        subject = self.subject(self.dice.between(1, max(1, words // 3)))
        asked = self.predicate(subject, words - len(subject.phrase), question=True)
        return self.dice.pick(grammar.QUESTION_WORDS) + asked if self.dice.chance(0.4) else asked

    def predicate(self, subject: NounPhrase, words: int, *, question: bool = False) -> Phrase:
        """A subject with a verb and all that follows it, in about so many words after the subject."""
        frames = [(1, self.intransitive, 3), (2, self.transitive, 8), (2, self.copular, 3), (3, self.indirect, 2)]
        frames += [(5, self.passive, 2)]
        if not question:
            frames += [(5, self.saying, 1 + words // 4)]
        possible = [frame for least, frame, weight in frames if words >= least or least == 1 for _ in range(weight)]
        return self.dice.pick(possible)(subject, words, question)

    def intransitive(self, subject: NounPhrase, words: int, question: bool) -> Phrase:
        """The girl sings in the garden."""
        group = self.group(self.dice.pick(INTRANSITIVE), words)
        core = grammar.clause(subject, group, question=question)
        return core + self.circumstance(words - len(core) + len(subject.phrase), group.tense)

    def transitive(self, subject: NounPhrase, words: int, question: bool) -> Phrase:
        """The girl sees the garden, or sees him."""
        verb = self.dice.pick(TRANSITIVE)
        group = self.group(verb, words - 1)
        if "P" in verb.objects and self.dice.chance(0.5 if words < 4 else 0.15):
            core = grammar.clause(subject, group, pronoun=self.object_pronoun(subject), question=question)
            return core + self.circumstance(words - len(core) + len(subject.phrase), group.tense)
        room = words - len(grammar.clause(NounPhrase(NOTHING, subject.agreement), group, question=question))
        size = room if room < 5 or self.dice.chance(0.5) else self.dice.between(2, room - 2)
        what = self.noun_phrase(size, verb.objects, negated=bool(group.negation))
        return grammar.clause(subject, group, what.phrase, question=question) + self.circumstance(
            room - len(what.phrase), group.tense
        )

    def indirect(self, subject: NounPhrase, words: int, question: bool) -> Phrase:
        """The girl speaks to the gardener, or speaks to him."""
        verb = self.dice.pick(WITH_A)
        group = self.group(verb, words - 2)
        if self.dice.chance(0.3):
            core = grammar.clause(subject, group, pronoun=self.object_pronoun(subject), question=question)
        else:
            what = self.noun_phrase(min(words - 1, 6), verb.objects, listed=False, definite=True)
            core = grammar.clause(subject, group, what.phrase, question=question)
        return core + self.circumstance(words - len(core) + len(subject.phrase), group.tense)

    def copular(self, subject: NounPhrase, words: int, question: bool) -> Phrase:
        """The girl is very happy, or as happy as the gardener."""
        group = self.group(BE, words - 1, modal=False)
        kind = "P"
        quality = self.dice.pick(_ADJECTIVES_OF[kind, False])
        if words >= 5 and self.dice.chance(0.4):
            other = self.noun_phrase(words - 4, "P", listed=False)
            said = grammar.compared(quality, subject.agreement, self.dice.pick(["as", "less"]), other)
        else:
            degree = self.dice.pick(grammar.DEGREES) if words >= 3 and self.dice.chance(0.6) else NOTHING
            said = grammar.predicate(quality, subject.agreement, degree)
        core = grammar.clause(subject, group, said, question=question)
        return core + self.circumstance(words - len(core) + len(subject.phrase), group.tense)

    def passive(self, subject: NounPhrase, words: int, question: bool) -> Phrase:
        """The girl is seen by the gardener."""
        verb = self.dice.pick([verb for verb in TRANSITIVE if "P" in verb.objects])
        group = VerbGroup(verb, self.dice.pick(_TENSES), passive=True)
        by = word("by", "par") + self.noun_phrase(words - 3, _ANIMATE, listed=False).phrase
        return grammar.clause(subject, group, by, question=question)

    def saying(self, subject: NounPhrase, words: int, question: bool) -> Phrase:
        """The girl says that ..."""
        group = VerbGroup(self.dice.pick(SAYING))
        said = word("that", "que|qu'") + self.clause(words - 2)
        return grammar.clause(subject, group, said, question=question)

    def group(self, verb: Verb, words: int, *, modal: bool = True) -> VerbGroup:
        """A verb with a tense and, where words are left, a negation, an adverb or a modal verb."""
        tense = self.dice.pick(_TENSES)
        kind = self.dice.between(1, 10) if words >= 3 else 10
        if kind <= 3:
            return VerbGroup(verb, tense, negation=self.dice.pick(["not", "not", "never", "no longer"]))
        if kind == 4:
            return VerbGroup(verb, tense, adverb=self.dice.pick(grammar.ADVERBS))
        if kind == 5 and modal:
            return VerbGroup(verb, tense, modal=self.dice.pick(MODALS))
        return VerbGroup(verb, tense)

    def circumstance(self, words: int, tense: Tense) -> Phrase:
        """Where or when, in about so many words; nothing where there are too few."""
        if words < 1:
            return NOTHING
        if words < 3:
            times = [time for time in grammar.TIMES[tense] if len(time) <= words]
            return self.dice.pick(times)
        if words == 3 and self.dice.chance(0.3):
            return grammar.clock(self.dice.between(1, 12))
        if words < 5 and self.dice.chance(0.3):
            place = word(*self.dice.pick(PLACES))
            return place + self.circumstance(words - 2, tense)
        return self.prepositional(words)

    def prepositional(self, words: int) -> Phrase:
        """A preposition and its noun phrase."""
        if self.dice.chance(0.3):
            preposition = self.dice.pick([grammar.WITH, grammar.WITHOUT, grammar.FOR])
            kinds = _ANIMATE
        else:
            preposition, kinds = self.dice.pick(grammar.PREPOSITIONS_OF_PLACE), _LOCAL
        return preposition + self.noun_phrase(words - len(preposition), kinds, listed=False, definite=True).phrase

    # --- noun phrases -------------------------------------------------------------------------------------------------

    def subject(self, words: int) -> NounPhrase:
        """Who does it."""
        if words == 1:
            return self.dice.pick(grammar.SUBJECT_PRONOUNS) if self.dice.chance(0.4) else self.person(1)
        return self.noun_phrase(words, _ANIMATE)

    def person(self, words: int) -> NounPhrase:
        """A first name, or a first name and a surname."""
        feminine = self.dice.chance(0.5)
        first = self.dice.pick(FEMALE_NAMES if feminine else MALE_NAMES)
        return grammar.name(f"{first} {self.dice.pick(SURNAMES)}" if words > 1 else first, feminine=feminine)

    def object_pronoun(self, subject: NounPhrase) -> ObjectPronoun:
        """An object pronoun; none of the subject's own person but the third."""
        person = subject.agreement.person
        return self.dice.pick([p for p in grammar.OBJECT_PRONOUNS if p.agreement.person not in {person} - {3}])

    def noun_phrase(
        self, words: int, kinds: str, *, listed: bool = True, definite: bool = False, negated: bool = False
    ) -> NounPhrase:
        """A noun phrase of about so many words.

        Args:
            words: its budget.
            kinds: the kinds of noun that fit.
            listed: whether it may be a list.
            definite: not `some`, which French leaves out after `de`.
            negated: the object of a negated verb, where the French indefinite is `de`.
        """
        if words < 2 and "P" in kinds:
            return self.person(1)
        if listed and words >= 5 and self.dice.chance(0.35):
            return self.list(words, kinds, definite=definite or negated)
        if words == 2 and "P" in kinds and self.dice.chance(0.3):
            return self.person(2)
        kind = self.dice.pick(kinds)
        size = words if words < 5 else self.dice.between(2, 4)
        head = self.simple(size, kind, definite=definite, negated=negated)
        rest = words - len(head.phrase)
        return self.modified(head, rest, kind) if rest >= 3 else head

    def simple(self, words: int, kind: str, *, definite: bool, negated: bool) -> NounPhrase:
        """A determiner or number, a noun, up to two adjectives."""
        before = self.dice.pick(_ADJECTIVES_OF[kind, True]) if words >= 4 or (words == 3 and self.dice.chance(0.3)) else None
        after = self.dice.pick(_ADJECTIVES_OF[kind, False]) if words >= 3 + bool(before) else None
        noun = self.dice.pick(_NOUNS_OF[kind])
        plural = self.dice.chance(0.4)
        determiner: Determiner | int
        if plural and self.dice.chance(0.3):
            determiner = self.dice.between(2, 99) if self.dice.chance(0.7) else self.dice.between(101, 999)
        elif self.dice.chance(0.25) and not (definite and plural):
            determiner = grammar.ANY if negated else grammar.A
        else:
            determiner = self.dice.pick(_PLURAL if plural else _SINGULAR)
        return grammar.noun_phrase(determiner, noun, plural=plural, before=before, after=after)

    def list(self, words: int, kinds: str, *, definite: bool) -> NounPhrase:
        """Two to four noun phrases: a , b and c."""
        items: list[NounPhrase] = []
        count = self.dice.between(2, min(4, (words - 1) // 2))
        left = words - 1
        for missing in range(count, 0, -1):
            size = left // missing
            items.append(self.noun_phrase(size, kinds, listed=False, definite=definite))
            left -= len(items[-1].phrase)
        return grammar.listing(items)

    def modified(self, head: NounPhrase, words: int, kind: str) -> NounPhrase:
        """A noun phrase with a prepositional phrase or a relative clause of so many words behind it."""
        choice = self.dice.between(1, 5)
        if choice == 1:
            return grammar.attached(head, grammar.OF + self.noun_phrase(words - 1, "P", listed=False, definite=True).phrase)
        if choice == 2 and kind != "L":
            return grammar.attached(head, self.prepositional(words))
        if choice <= 3 and kind in _ANIMATE:
            return NounPhrase(head.phrase + self.predicate(grammar.who(head, animate=True), words - 1), head.agreement)
        subject = self.subject(max(1, words - 4))
        verb = self.dice.pick([verb for verb in TRANSITIVE if kind in verb.objects])
        if kind == "L" and choice <= 3:
            group = self.group(self.dice.pick(INTRANSITIVE), words - 1 - len(subject.phrase))
            return grammar.where(head, grammar.clause(subject, group))
        group = self.group(verb, words - 1 - len(subject.phrase), modal=False)
        return grammar.that(head, grammar.clause(subject, group, moved=head.agreement))

