"""Spans that are not translated: found, hidden from the network, emitted once each, put back."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmt.cli.export import main as export
from nmt.config.schema import LearnedTokenizer, Span
from nmt.data.corpus import Pair
from nmt.data.dataset import prepare
from nmt.data.protection import PLACEHOLDERS, STRAY, Protection
from nmt.data.tokenizer import MARK, learn
from nmt.errors import ConfigError, DataError, FileError, NmtWarning
from nmt.pages.serving.batches import Request, translating
from nmt.search.greedy import Sampling
from nmt.translation.forced import force
from nmt.translation.translator import Translator, never_stop
from tests.small_translator import ATTENTIONS, LINES, PAIRS, TOKENIZERS, network, save_run, translator_of
from tests.test_dataset import config, write
from tests.test_epochs import pairs_of
from tests.test_report import report

EVERY = Protection(get_args(Span), ("<bt>",))
LEARNED = learn(LearnedTokenizer(type="bpe", vocabulary=101), PAIRS, ["<bt>"], PLACEHOLDERS)
HIDING = replace(LEARNED, protection=EVERY)
FIVE: dict[str, Any] = {"beam_size": 5, "n_best": 5}
WORDS = ["https://a.b/c?d=1", "me@x.org", "{a}", "<b>", "3,5", "word", "<2fr>", "<bt>"]
PARTS = st.lists(st.sampled_from([*WORDS, '<a href="x">', " ", PLACEHOLDERS[1]]), max_size=14)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("(see HTTPS://a.b/c?d=1, www.x.y.)", ["HTTPS://a.b/c?d=1", "www.x.y"]),
        ("Mail a.b-c@x.org. {name} {{x}}! {a b}", ["a.b-c@x.org", "{name}", "{{x}}"]),
        ('a <b>c</b> <br/> <i id="1>2">d < e > f <2fr> <bt>', ["</b>", "<b>", "<br/>", '<i id="1>2">']),
        ("<a b=it's c = '>'>l'eau</a>", ["</a>", "<a b=it's c = '>'>"]),
        ("B2B 3,5 21/3 1. 3kg 3.5kg v1.2.3 2026-11-29", ["1", "2026-11-29", "21/3", "3,5"]),
        ("访问https://a.b/c看看。_www.x.y/ 联系a@b.org。我有5个", ["5", "a@b.org", "https://a.b/c", "www.x.y/"]),
        *((f"{each * 100_000}1a", []) for each in ("a", "{", "1.", "a@", "<a ", '<a ="')),
        ("<a " + "=\"='" * 100_000, []),  # in linear time
    ],
)
def test_spans_are_found(text: str, spans: list[str]) -> None:
    assert sorted(EVERY.hide(text).spans.values()) == spans


def test_a_number_within_a_word_is_not_the_span() -> None:
    hidden = EVERY.hide("v1.2 2 files", "2 fichiers v1.2")
    [placeholder] = hidden.spans
    assert hidden.texts == [f"v1.2 {placeholder} files", f"{placeholder} fichiers v1.2"]


@given(PARTS, PARTS, st.booleans())
def test_a_pair_has_the_placeholders_of_its_translation_or_none(one: list[str], other: list[str], alike: bool) -> None:
    pair = "".join(one), "".join(one[::-1] if alike else other)
    alone = EVERY.hide(pair[0])
    for share in (0.0, 1.0):
        hidden = EVERY.hide(*pair, share=share)
        for text, raw in zip(hidden.texts, pair, strict=True):
            assert [text.count(each) for each in PLACEHOLDERS] == [each in hidden.spans for each in PLACEHOLDERS]
            assert "".join(hidden.spans.get(each, each) for each in text) == raw.translate(STRAY)
        assert not hidden.spans if hidden.differ else hidden.spans.items() >= alone.spans.items()
    assert Protection().hide(*pair).texts == pair


@pytest.mark.parametrize("how", [{"beam_size": 1}, FIVE, FIVE | {"max_length_factor": 0.0}, {"sampling": Sampling()}])
def test_a_translation_has_each_span_of_its_line_once(how: dict[str, Any]) -> None:
    """And so has the answer of a server, which shows candidates for each piece."""
    translator, lines = translator_of(network(tokenizers=HIDING), HIDING), [f"{LINES[0]} <x>", "{a} 12, 12 www.x.y"]
    lines += [LINES[1], "<b> " * 12, f"a@b.c {LINES[5]} 7", '<a href="x">']
    answer = translating(translator, {"beam_size": 1} | how)(lines, Request(text=(), attention=True), never_stop)
    for line, (found, _, candidates) in zip(lines, answer, strict=True):
        assert all(piece in dict(each) for piece, each in zip(found.pieces, candidates or (), strict=True))
        for hypothesis in found.hypotheses:
            assert "".join(hypothesis.pieces).removesuffix("</s>").replace(MARK, " ").strip() == hypothesis.text
            assert not {*hypothesis.text} & {*PLACEHOLDERS}
            for span in EVERY.hide(line).spans.values():
                assert hypothesis.text.count(span) == min(line.count(span), len(PLACEHOLDERS))


def test_a_span_that_is_due_is_a_word_of_its_own() -> None:
    model = network(tokenizers=HIDING)
    with torch.no_grad():
        model.output.bias[HIDING.target.eos_id] += 1000
    assert sorted(translator_of(model, HIDING).translate("{a} b <x> 5").text.split()) == ["5", "<x>", "{a}"]


def test_a_tag_that_was_not_trained_is_named() -> None:
    lines, said = ["<bt> a", "<b>a", "<2es>a"], r"line 3: begins with <2es>, which was not trained; the tags are: <bt>"
    with pytest.warns(NmtWarning, match=said) as warned:
        translator = translator_of(model := network(tokenizers=HIDING), HIDING)
        translator.translate(lines)
    assert len(warned) == 1
    found: list[tuple[str, int, str]] = []
    list(force(model, HIDING, [Pair(each, "a") for each in lines], translator.device, warn=lambda *a: found.append(a)))
    assert [("source", 3, said.removeprefix("line 3: "))] == found


@pytest.mark.parametrize("pair", [Pair("{a} b <x>", "<x> c {a}"), Pair("{a} b", "c")])
def test_forced_decoding_reads_placeholders(pair: Pair) -> None:
    model, cpu, hidden = network(tokenizers=HIDING), torch.device("cpu"), EVERY.hide(*pair)
    [(_, found)], [(_, plain)] = force(model, HIDING, [pair], cpu), force(model, LEARNED, [Pair(*hidden.texts)], cpu)
    assert found.log_probabilities.tolist() == plain.log_probabilities.tolist()
    assert found.target_pieces == [hidden.spans.get(piece, piece) for piece in plain.target_pieces]


def test_training_reads_placeholders_and_the_other_splits_keep_their_text(tmp_path: Path) -> None:
    pairs = [Pair(f"a b 12 c {{x}} {number}", f"{{x}} X 12 {number}") for number in range(9)]
    write(tmp_path, train=[*pairs, Pair("1 a", "a 2")], validation=pairs, test=pairs)
    prepared = prepare(config(tmp_path, {"type": "character"}, protect=["number", "braces"]))
    assert prepared.validation_pairs == prepared.test_pairs == pairs
    assert [split["spans_differ"] for split in prepared.report["splits"].values()] == [1, 0, 0]
    ids = [[side.piece_id(each) for each in PLACEHOLDERS] for _, side in prepared.tokenizers.sides()]
    for source, target in [*pairs_of(prepared.train)[:9], *pairs_of(prepared.validation)]:
        assert [each in source for each in ids[0]] == [each in target for each in ids[1]]
        assert len({*source} & {*ids[0]}) == 3
    other = prepare(config(tmp_path, {"type": "character"}, protect=["braces"]))
    assert {len({*source} & {*ids[0]}) for source, _ in pairs_of(other.train)[:9]} == {1}, "encoded again"
    dropped = {"type": "bpe", "vocabulary": 42, "dropout": 0.5}
    sampled = prepare(config(tmp_path, dropped, protect=["number", "braces"]))
    ids = [[side.piece_id(each) for each in PLACEHOLDERS] for _, side in sampled.tokenizers.sides()]
    for sides in pairs_of(sampled.train.in_epoch(0))[:9]:
        assert [len({*side} & {*known}) for side, known in zip(sides, ids, strict=True)] == [3, 3]
    [refused] = config(tmp_path, {"type": "word"}, protect=["number"]).contradictions()
    assert str(refused) == "data.protect: needs pieces within words; leave it out, or use another tokenizer.type"
    TOKENIZERS.save(tmp_path)
    files = {side: str(tmp_path / f"{side}.model") for side in ("source", "target")}
    with pytest.raises(
        DataError, match=r"^data.protect: the source tokenizer has no pieces U.E000 to U.E009; learn one"
    ):
        prepare(config(tmp_path, {"type": "given", **files}, protect=["number"]))


def test_words_of_a_tenth_of_the_training_pairs_become_placeholders(tmp_path: Path) -> None:
    pairs = [Pair(f"word{number} said", f"said word{number}") for number in range(300)]
    write(tmp_path, train=pairs, validation=pairs, test=pairs)
    prepared = prepare(config(tmp_path, {"type": "character"}, protect=["url"]))
    ids = {prepared.tokenizers.source.piece_id(each) for each in PLACEHOLDERS}
    train, validation = (pairs_of(split) for split in (prepared.train, prepared.validation))
    assert 10 < sum(bool(ids & {*source}) for source, _ in train) < 60
    assert not any(ids & {*source} for source, _ in validation)


def test_a_report_reads_placeholders_and_has_no_engine(tmp_path: Path) -> None:
    write(tmp_path, test=[Pair("{a} b <x> c <x>", "<x> {a} d <x>"), Pair("b", "c")])
    files = {"source": str(tmp_path / "test.low"), "target": str(tmp_path / "test.up")}
    run = save_run(tmp_path / "run", tokenizers=LEARNED, test=files, protect=("braces", "tag"))
    _, data = report(tmp_path, str(run))
    assert data["engines"] == {"run": "data.protect: the engine does not hide spans; train a run without it"}
    for each in data["sentences"]:
        [found] = Translator.load(run, "cpu").translate(each["source"]).hypotheses
        reading = each["systems"]["run"]
        assert [piece for word in reading["target_words"] for piece in word] == found.pieces
        assert reading["log_probability"] == pytest.approx(found.log_probability, abs=1e-2)


def test_a_run_is_loaded_with_its_pieces_only_and_not_exported(tmp_path: Path, refused: Callable[..., str]) -> None:
    runs = [save_run(tmp_path / each["type"], each, LEARNED, protect=("url", "tag")) for each in ATTENTIONS]
    assert Translator.load(runs[0], "cpu").tokenizers.protection.kinds == ("tag", "url")
    rough = save_run(tmp_path / "rough", tokenizers=LEARNED, protect=("url", "tag"), rough={})
    assert Translator.load([runs[0], rough], "cpu").tokenizers.rough
    other = save_run(tmp_path / "other", tokenizers=LEARNED, protect=("url",))
    with pytest.raises(ConfigError, match=r"other: data.protect is .* that of .*bahdanau"):
        Translator.load([runs[0], other], "cpu")
    for kind, run in (("web", runs[0]), ("onnx", runs[0]), ("ctranslate2", runs[-1])):
        said = refused(export, f"--{kind}", run, tmp_path / "model")
        assert "data.protect: " in said and "does not hide spans; train a run without it" in said
    TOKENIZERS.save(runs[0] / "tokenizer")
    with pytest.raises(FileError, match=r"^data.protect: the source tokenizer has no pieces"):
        Translator.load(runs[0], "cpu")
