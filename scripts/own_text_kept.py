"""What comes through the translation of sentences of the demo language: spans, tags, and terms of a glossary; for
scripts/own_text.py."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from random import Random
from typing import Any

from demo_language.corpus import LENGTHS, draw, forms
from demo_language.generator import Generator
from demo_language.lexicon import NOUNS
from demo_language.morphology import Noun
from demo_language.phrase import Sentence
from nmt.data.glossary import Glossary
from nmt.evaluation.metrics import Evidence, bleu
from nmt.translation.markup import translate_marked, without_tags
from nmt.translation.results import Translation
from nmt.translation.translator import Translator

SPANS = (
    "https://example.org/a{}?b=c",
    "www.example.org/{}",
    "first.last{}@example.org",
    "{{name{}}}",
    "<x{}>",
    '<a href="page {}">',
    "{}.5",
)
"""Spans of every kind, with a number in each."""
SHORT = [each for each in LENGTHS if each[1] <= 20]
"""Ranges of the lengths of sentences with terms."""
MOST_WORDS = 4
"""English words between tags."""
RENAMED = 4
"""One noun in this many is a term."""
LINES = 1000
"""Sentences of each measurement."""
SEED = 7
"""Seed of the sentences; the corpus has another."""

# --- spans ------------------------------------------------------------------------------------------------------------


def spans(translator: Translator) -> dict[str, Any]:
    """Translate sentences in which names and numbers have become spans, one to three in each.

    A span is in its place if a longest sequence of words and punctuation that translation and reference have in common
    holds it.
    """
    generator, random = Generator(SEED), Random(SEED)
    seen, sources, references, hidden = set[str](), list[str](), list[str](), list[list[str]]()
    while len(sources) < LINES:
        (pair,) = draw(generator, 1, LENGTHS, seen)
        if places := same_words(pair):
            chosen = random.sample(places, min(len(places), random.randint(1, 3)))
            texts = [random.choice(SPANS).format(random.randrange(1000)) for _ in chosen]
            span_of = dict(zip(chosen, texts, strict=True))
            for side, text in ((sources, pair.english), (references, pair.french)):
                side.append("".join(span_of.get(word, word) for word in re.findall(r"\w+|\W", text)))
            hidden.append(texts)
    found = Counter({"lines": LINES})
    for translation, reference, texts in zip(translator.translate(sources), references, hidden, strict=True):
        words, others = (tokens(text, texts) for text in (translation.text, reference))
        without = ([each for each in side if each not in texts] for side in (words, others))
        found["spans"] += len(texts)
        found["come through once"] += sum(translation.text.count(each) == 1 for each in texts)
        found["in their place"] += common(words, others) - common(*without)
    return dict(found)


def same_words(pair: Sentence) -> list[str]:
    """The names and numbers of a pair: words that both sides have once, with a capital within the sentence."""
    english, french = (re.findall(r"\w+", text) for text in pair[:2])
    same = (word for word in english if english.count(word) == french.count(word) == 1)
    return [word for word in same if re.fullmatch(r"\d+|[^\W\d_a-z]\w{2,}", word)]


def tokens(text: str, spans: Sequence[str]) -> list[str]:
    """The words and punctuation marks of a text, a span among them whole."""
    return re.findall("|".join([*map(re.escape, spans), r"\w+|[^\w\s]"]), text)


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of a longest common subsequence."""
    lengths = [0] * (len(other) + 1)
    for word in one:
        before = 0
        for place, each in enumerate(other, 1):
            before, lengths[place] = lengths[place], before + 1 if word == each else max(lengths[place - 1 : place + 1])
    return lengths[-1]


# --- markup -----------------------------------------------------------------------------------------------------------


def markup(translator: Translator) -> dict[str, Any]:
    """Translate sentences in which tags stand around one to four words whose gold links lead to a run of words.

    Words are counted in the translations that are the reference: there are no gold links of others.
    """
    generator, random, seen = Generator(SEED), Random(SEED), set[str]()
    tests = list[tuple[Sentence, str, set[int]]]()
    while len(tests) < LINES:
        (pair,) = draw(generator, 1, LENGTHS, seen)
        if phrases := list(linked_phrases(pair)):
            first, last, linked = random.choice(phrases)
            words = pair.english.split()
            words[first] = f"<b>{words[first]}"
            words[last] += "</b>"
            tests.append((pair, " ".join(words), linked))

    def translate(texts: Iterator[str]) -> Iterator[Translation]:
        return iter(translator.translate(list(texts)))

    found = Counter({"lines": LINES})
    marked = translate_marked(translate, (line for _, line, _ in tests), "test")
    for translation, (pair, _, linked) in zip(marked, tests, strict=True):
        text, elements = without_tags(translation.text)
        found["balanced lines"] += [each.closing for each in elements] == ["</b>"]
        if text == pair.french:
            begin, end = (len(text[:place].split()) for place in (elements[0].begin, elements[0].end))
            tagged = set(range(begin, end))
            found["lines that are the reference"] += 1
            found["words to be tagged, or tagged"] += len(tagged | linked)
            found["of these right"] += len(tagged & linked)
    return dict(found)


def linked_phrases(pair: Sentence) -> Iterator[tuple[int, int, set[int]]]:
    """Find first and last word of each phrase of up to four English words, and the French words of its links, if they
    are a run and have no links to other words."""
    for first, last in combinations_with_replacement(range(len(pair.english.split())), 2):
        inside = set(range(first, last + 1))
        linked = {j for i, j in pair.alignment if i in inside}
        back = {i for i, j in pair.alignment if j in linked}
        if last - first < MOST_WORDS and linked and back == inside and max(linked) - min(linked) < len(linked):
            yield first, last, linked


# --- terms ------------------------------------------------------------------------------------------------------------


def glossary_by_seed(folder: Path) -> dict[str, Any]:
    """Translate sentences in which some nouns have the names of others, with a glossary that says so; half of the terms
    are not in the glossary of training. BLEU without terms is of the original sentences, and has the same references;
    that of terms without data.glossary is of the changed ones, by a system that knows no terms.

    A term counts as used as often as translation and reference both have its translation. A list has a number for each
    training.
    """
    names, generator, seen = renamed(), Generator(SEED), set[str]()
    tests = list[tuple[str, str, str]]()
    while len(tests) < LINES:
        (pair,) = draw(generator, 1, SHORT, seen)
        if english := with_names(pair, names):
            tests.append((pair.english, english, pair.french))
    plain, others, references = zip(*tests, strict=True)
    annotated = [*map(Glossary(dict(names.values())).annotated, others)]
    kinds = {
        kind: {french for noun in NOUNS[first::2] for name, french in forms(noun) if name in names}
        for kind, first in (("in the training glossary", 0), ("not in it", 1))
    }

    def words(texts: Iterable[str]) -> list[Counter[str]]:
        return [Counter(re.findall(r"[\w-]+", text)) for text in texts]

    def count(texts: Iterable[Counter[str]], wanted: set[str]) -> int:
        return sum(text[word] for text in texts for word in wanted)

    expected = words(references)
    counts = {f"terms {kind}": count(expected, wanted) for kind, wanted in kinds.items()}
    lists = defaultdict[str, list[float]](list)
    for run in sorted(folder.glob("terms/seed-*")):
        taught, untaught = Translator.load(run), Translator.load(folder / "without" / run.name)
        for name, system, texts in (
            ("with terms", taught, annotated),
            ("without terms", taught, plain),
            ("without data.glossary", untaught, plain),
            ("of terms without data.glossary", untaught, others),
        ):
            hypotheses = [each.text for each in system.translate(texts)]
            lists[f"BLEU {name}"].append(round(bleu(Evidence(hypotheses, references, "13a")).value, 2))
            if texts is annotated:
                used = [one & other for one, other in zip(words(hypotheses), expected, strict=True)]
                for kind, wanted in kinds.items():
                    lists[f"of these used, {kind}"].append(count(used, wanted))
    return {"lines": LINES} | counts | lists


def renamed() -> dict[str, tuple[str, str]]:
    """For one noun in RENAMED and each of its forms, the name of another noun, and the French form, which stays; both
    nouns have the same gender, half of the lexicon and article a or an."""
    groups = defaultdict[tuple[bool, int, bool], list[Noun]](list)
    for place, noun in enumerate(NOUNS):
        groups[noun.feminine, place % 2, noun.english[0][0] in "aeiou"].append(noun)
    random, names = Random(SEED), dict[str, tuple[str, str]]()
    for nouns in groups.values():
        chosen = random.sample(nouns, len(nouns) // RENAMED)
        for noun, other in zip(chosen, chosen[1:] + chosen[:1], strict=True):
            names |= {own: (name, french) for (own, french), name in zip(forms(noun), other.english, strict=True)}
    return names


def with_names(pair: Sentence, names: Mapping[str, tuple[str, str]]) -> str | None:
    """The English side with other names; None if it has none of these nouns, or one of their names as another word."""
    english, french = (text.split() for text in pair[:2])
    nouns = [re.sub(r"\W+", "", word) for word in english]
    places = {i for i, noun in enumerate(nouns) if noun in names}
    for i, j in pair.alignment:
        if i in places and (name := names[nouns[i]])[1] in re.findall(r"[\w-]+", french[j]):
            english[i] = english[i].replace(nouns[i], name[0])
            places.remove(i)
    return None if places or english == pair.english.split() else " ".join(english)
