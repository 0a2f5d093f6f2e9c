"""Terms with a translation that is given: read, found, shown in training, used by nmt-translate."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from nmt.cli.translate import main as translate
from nmt.config.schema import LearnedTokenizer
from nmt.data.corpus import Pair, read_terms
from nmt.data.dataset import prepare
from nmt.data.encoded import EncodedCorpus
from nmt.data.glossary import TERM_MARKS, Glossary, inflected, marked
from nmt.data.protection import Protection
from nmt.data.tokenizer import learn
from tests.small_translator import PAIRS, save_run
from tests.test_corpus import error_of
from tests.test_dataset import config, write
from tests.test_epochs import pairs_of

MARKED = marked("fgh")
TERMS = Glossary({"fire": "feu", "fire door": "porte coupe-feu", "IT": "informatique"})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a fire door, fire", f"a {marked('porte coupe-feu')}, {marked('feu')}"),
        ("Fire! FIRE it fires backfire", f"{marked('feu')}! {marked('feu')} it fires backfire"),
        ("a FIRE\u00a0 DOOR", f"a {marked('porte coupe-feu')}"),
        (f"IT {TERM_MARKS[0]}", f"{marked('informatique')} \ufffd"),
    ],
)
def test_whole_terms_are_found_the_longest_first(text: str, found: str) -> None:
    assert TERMS.annotated(text) == found


def test_terms_inside_protected_spans_stay() -> None:
    terms = Glossary(TERMS.terms, share=1.0, protection=Protection(("url", "email", "braces")))
    spans = "http://fire.org/fire fire@x.org {fire}"
    assert terms.annotated(f"{spans} fire") == f"{spans} {marked('feu')}"
    tagged = Glossary({"bt": "x"}, protection=Protection(tags=("<bt>",)))
    assert tagged.annotated(" <bt> a bt") == f"<bt> a {marked('x')}"


@pytest.mark.parametrize(
    ("translation", "text", "found"),
    [
        ("belle porte", "deux Belles  portes.", True),
        ("cheval", "les chevaux", True),
        ("feu", "un peu", False),
        ("art", "un quart", False),
        ("port", "un porteavions", False),
        ("le 24", "leur 24", False),
        ("241", "chambre 2415", False),
        ("猫", "我有一只猫在家", True),
    ],
)
def test_a_translation_may_have_another_ending(translation: str, text: str, found: bool) -> None:
    assert inflected(translation, text) == found


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("a\tb\tc", ":1: found 'a\\tb\\tc'; must be a term, one tab and its translation"),
        ("a\t ", ":1: found 'a\\t '; must be a term, one tab and its translation"),
        ("", ": has no term; a line is a term, one tab and its translation"),
        ("\tb", ":1: found '\\tb'; must be a term, one tab and its translation"),
        ("a\tb\nc\td\na\te", ":3: 'a' is in line 1, too; leave one of them out"),
    ],
)
def test_a_wrong_line_is_named(lines: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text(lines)
    assert error_of(read_terms, str(tmp_path / "terms.tsv")) == f"{tmp_path / 'terms.tsv'}{problem}"
    (tmp_path / "terms.tsv").write_text(f"c\n{lines}")
    assert error_of(read_terms, str(tmp_path / "terms.tsv")).count("\n") == bool(lines), "all wrong lines"


def test_some_training_pairs_show_the_whole_target() -> None:
    terms, choice = Glossary(TERMS.terms, share=0.99), Random(1)
    shown = [terms.shown(Pair("fire", "feux"), choice) for _ in range(300)]
    assert 20 < shown.count(marked("feux")) < 80


def test_a_share_of_the_training_pairs_shows_terms_that_both_sides_have_in_each_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.data.glossary.COPIED", 0)
    ends = [f"{number} fire@x.fr" for number in range(300)]
    pairs = [Pair(f"fire {end}", f"{'rien' if number % 2 else 'feux'} {end}") for number, end in enumerate(ends)]
    write(tmp_path, train=pairs, validation=pairs, test=pairs)
    terms = tmp_path / "terms.tsv"
    terms.write_text("fire\tfeu")
    how = {"protect": ["email"], "glossary": {"file": str(terms), "share": 0.5}}
    prepared = prepare(config(tmp_path, {"type": "character", "shared": True}, **how))
    begin = prepared.tokenizers.source.piece_id(TERM_MARKS[0])

    def shown(corpus: EncodedCorpus) -> list[int]:
        return [source.count(begin) for source, _ in pairs_of(corpus)]

    epochs = [shown(prepared.train.in_epoch(epoch)) for epoch in (0, 1)]
    for found in epochs:
        assert not any(found[1::2])
        assert 15 < sum(found) < 60, "of 150 a half, in each all terms or none"
        assert max(found) == 1, "terms inside protected spans stay"
    assert epochs[0] != epochs[1]
    assert not any(shown(prepared.validation))
    terms.write_text("fire\trien")
    said = list[str]()
    other = prepare(config(tmp_path, {"type": "character", "shared": True}, **how), said.append)
    assert other.report["splits"]["train"]["terms"] == 150 and not any("no training pair" in line for line in said)
    terms.write_text("fire\tfroid")
    other = prepare(config(tmp_path, {"type": "character", "shared": True}, **how), said.append)
    assert f"data.glossary.file: {terms}: no training pair has a term and its translation" in said
    assert not any(shown(other.train.in_epoch(0))), "encoded again"
    assert other.corpus_sha256 != prepared.corpus_sha256, "a run does not resume with other terms"


@pytest.fixture
def run(tmp_path: Path) -> str:
    (tmp_path / "terms.tsv").write_text("abc\tfgh\n")
    tokenizers = learn(LearnedTokenizer(type="bpe", vocabulary=90, shared=True), PAIRS, TERM_MARKS)
    return str(save_run(tmp_path / "run", tokenizers=tokenizers, glossary={"file": "terms.tsv"}))


@pytest.mark.parametrize("options", [["--n-best", "2"], ["--paragraphs"], ["--scores"]])
def test_the_network_reads_the_translations_of_terms(
    options: list[str], run: str, tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    texts = {"plain": "abc def. Def abc!\n\nij\n", "annotated": f"{MARKED} def. Def {MARKED}!\n\nij\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    given = ["--model", run, "--device", "cpu", "--beam-size", "2", *options, "--input"]
    code, found, _ = command(translate, *given, str(tmp_path / "plain"), "--glossary", str(tmp_path / "terms.tsv"))
    assert (code, found) == (0, command(translate, *given, str(tmp_path / "annotated"))[1])
    assert found != command(translate, *given, str(tmp_path / "plain"))[1]
    (tmp_path / "plain").write_text("ABC DEF GHI! DEF ABC JAB.\n")
    paragraphs = "--paragraphs" in options
    (tmp_path / "annotated").write_text(f"{MARKED} def ghi! {'Def' if paragraphs else 'def'} {MARKED} jab.\n")
    config = Path(run, "config.yaml")
    config.write_text(config.read_text().replace("rough: null", "rough: {}"))
    code, found, _ = command(translate, *given, str(tmp_path / "plain"), "--glossary", str(tmp_path / "terms.tsv"))
    assert (code, found) == (0, command(translate, *given, str(tmp_path / "annotated"))[1])


def test_a_run_without_terms_is_refused(tmp_path: Path, random_run: str, refused: Callable[..., str]) -> None:
    (tmp_path / "terms.tsv").write_text("a\tb")
    said = refused(translate, "--model", random_run, "--glossary", tmp_path / "terms.tsv")
    assert f"--glossary: {random_run} was not trained with terms; train a run with data.glossary" in said
