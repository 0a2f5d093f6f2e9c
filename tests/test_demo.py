"""The demo language: its rules against hand-written translations, its corpus against what is promised of it."""

import datetime
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from demo_language import clauses, lexicon, nominal, write_corpus
from demo_language.clauses import BE, VerbGroup, clause
from demo_language.corpus import BINS, LONGEST, SHORTEST, pharaoh
from demo_language.generator import Generator
from demo_language.morphology import Adjective, Noun, Verb
from demo_language.nominal import ANY, THE, A
from demo_language.phrase import Phrase, Sentence, rule, word
from nmt.errors import DataError
from tests.comparison import snapshot

ROOT = Path(__file__).parents[1]
FIRST, HE, SHE, WE, YOU, THEY = nominal.SUBJECT_PRONOUNS
_, HIM, HER, _, _, THEM = nominal.OBJECT_PRONOUNS


def noun(english: str) -> Noun:
    return next(entry for entry in lexicon.NOUNS if entry.english[0] == english)


def adjective(english: str) -> Adjective:
    return next(entry for entry in lexicon.ADJECTIVES if entry.english == english)


def verb(english: str, table: list[Verb] = lexicon.TRANSITIVE) -> Verb:
    return next(entry for entry in table if f"{entry.english.base} {entry.english.particle}".strip() == english)


def cases() -> list[tuple[Phrase, str, str, str]]:
    """Derivations and what a person writes for them: English, French, links."""
    old_trees = nominal.noun_phrase(A, noun("tree"), plural=True, before=adjective("old"))
    pears = nominal.noun_phrase(THE, noun("pear"), plural=True)
    ate = clause(HE, VerbGroup(verb("eat"), "past"), moved=pears.agreement)
    owls = nominal.noun_phrase(81, noun("spider"), after=adjective("black"))
    return [
        (  # des becomes de in front of an adjective
            clause(WE, VerbGroup(verb("admire"), "future"), old_trees.phrase),
            "We will admire some old trees.",
            "Nous admirerons de vieux arbres.",
            "0-0 1-1 2-1 3-2 4-3 5-4",
        ),
        (  # negation in two parts, elided, with the article it asks for
            clause(FIRST, VerbGroup(verb("love"), negation="not"), nominal.noun_phrase(ANY, noun("orange")).phrase),
            "I do not love an orange.",
            "Je n'aime pas d'orange.",
            "0-0 1-1 2-1 2-2 3-1 4-3 5-3",
        ),
        (  # negation of a compound tense, pronoun in front, participle that agrees with it
            clause(nominal.name("Paul", feminine=False), VerbGroup(verb("see"), "past", negation="never"), pronoun=HER),
            "Paul never saw her.",
            "Paul ne l'a jamais vue.",
            "0-0 1-1 1-3 2-2 2-4 3-2",
        ),
        (  # relative clauses: qui; qu', participle that agrees with what was moved
            clause(clauses.that(pears, ate), VerbGroup(BE, "past"), word("good", "bonnes")),
            "The pears that he ate were good.",
            "Les poires qu'il a mangées étaient bonnes.",
            "0-0 1-1 2-2 3-2 4-3 4-4 5-5 6-6",
        ),
        (  # the verb behind its complements
            clause(WE, VerbGroup(verb("admire"), "past", negation="never", final=True), old_trees.phrase),
            "We never admired some old trees.",
            "Nous de vieux arbres n'avons jamais admiré.",
            "0-0 1-4 1-5 2-4 2-6 3-1 4-2 5-3",
        ),
        (  # a date in front, a number that agrees
            rule(
                "{date} , {clause}",
                "{date} , {clause}",
                date=nominal.date(datetime.date(1871, 5, 1)),
                clause=clause(owls, VerbGroup(verb("fall", lexicon.INTRANSITIVE), "past")),
            ),
            "On Monday 1 May 1871, eighty-one black spiders fell.",
            "Le lundi 1er mai 1871, quatre-vingt-une araignées noires sont tombées.",
            "0-0 1-1 2-2 3-3 4-4 5-5 6-7 7-6 8-8 8-9",
        ),
    ]


@pytest.mark.parametrize(("phrase", "english", "french", "links"), cases())
def test_rules_against_translations_by_hand(phrase: Phrase, english: str, french: str, links: str) -> None:
    pair = clauses.sentence(phrase)
    assert (pair.english, pair.french) == (english, french)
    assert pharaoh(pair) == links


@pytest.fixture(scope="module", params=[False, True], ids=["French", "verb at the end"])
def pairs(request: pytest.FixtureRequest) -> list[Sentence]:
    generator = Generator(seed=3, verb_final=request.param)
    return [generator.sentence(words) for _ in range(25) for words in range(SHORTEST, LONGEST + 1)]


def test_every_word_is_linked_and_no_link_leaves_the_sentence(pairs: list[Sentence]) -> None:
    for pair in pairs:
        assert {i for i, _ in pair.alignment} == set(range(len(pair.english.split()))), pair
        assert {j for _, j in pair.alignment} == set(range(len(pair.french.split()))), pair


def test_french_spelling(pairs: list[Sentence]) -> None:
    """Nothing that French elides or contracts is left; the exceptions are h aspiré and onze."""
    text = "\n".join(pair.french for pair in pairs)
    vowel = "[aeiouéèêàâîôœ]"
    assert set(re.findall(rf"\b(?:l[ea]|de|que|ne|[jms]e|ce|ma|sa) {vowel}\w*", text, re.I)) <= {"de onze", "que onze"}
    assert not re.findall(r"\b(?:l[ea]|de|que|ne|[jms]e|ce|ma|sa) h(?:omme|istoire|ôpital|ôtel|orloge|irondelle)", text)
    assert re.findall(r"\b(?:le|la) (?:héros|hibou|hérisson|haricot|hache)\b", text)
    assert not re.findall(r"\b[ld]'h(?:éros|ibou|érisson|aricot|ache)", text)
    assert not re.findall(r"\b(?:de|à) les?\b|\bsi ils?\b|' |[|*/{}]| [,.]|\S\?|  ", text)
    assert all(re.fullmatch(r"[A-ZÉÎ0-9].*(?:\.| \?)", line) for line in text.split("\n"))


def test_corpus(tmp_path: Path) -> None:
    write_corpus(tmp_path, train=300, validation=30, test_per_bin=4, seed=2)
    files = snapshot(tmp_path)
    terms = dict(line.split("\t") for line in files.pop("terms.tsv").decode().splitlines())
    assert (terms["angry"], terms["bicycle"]) == ("furieux", "vélo")
    assert not {"the", "dog"} & terms.keys(), "a frequent word, and one held out for tests"
    assert sorted(files) == sorted(f"{split}.{end}" for split in SIZES for end in ("en", "fr", "align"))
    lines = {name: content.decode().removesuffix("\n").split("\n") for name, content in files.items()}
    sizes = {name: SIZES[name.split(".")[0]] for name in files}
    assert {name: len(content) for name, content in lines.items()} == sizes
    english = [line for split in SIZES for line in lines[f"{split}.en"]]
    assert len(set(english)) == len(english)
    assert all(SHORTEST <= len(line.split()) <= LONGEST for line in english)
    counts = [sum(low <= len(line.split()) <= high for line in lines["test.en"]) for low, high in BINS]
    assert counts == [4] * len(BINS)
    assert sum(len(line.split()) >= 40 for line in lines["train.en"]) >= 0.12 * 300
    assert all(re.fullmatch(r"\d+-\d+( \d+-\d+)*", line) for line in lines["train.align"])


SIZES = {"train": 300, "validation": 30, "test": 24}


def test_same_bytes_in_every_process(tmp_path: Path) -> None:
    """Whatever the order of hashes; the digest also holds other machines and Python versions to it."""
    for seed in ("1", "2"):
        program = f"from demo_language import write_corpus; write_corpus({str(tmp_path / seed)!r}, 400, 5, 2, 7)"
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT / "scripts", env=environment)
    files = snapshot(tmp_path / "1")
    assert files == snapshot(tmp_path / "2")
    del files["terms.tsv"]
    digest = hashlib.sha256(b"".join(files[name] for name in sorted(files))).hexdigest()
    assert digest == "ae05ebbd8ca9aa91b0467b3f5fe45e8185a23744e473a4b135da7cc35bcfa53a"


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("")
    with pytest.raises(DataError, match="/demo: cannot be written: File exists"):
        write_corpus(tmp_path / "demo", 1, 1, 1, 1)
