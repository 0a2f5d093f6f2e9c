"""Spans that are not translated: found, hidden from the network, emitted once each, put back."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config.schema import LearnedTokenizer, Span
from nmt.data.corpus import Pair
from nmt.data.dataset import prepare
from nmt.data.protection import PLACEHOLDERS, Protection
from nmt.data.tokenizer import learn
from tests.small_translator import LINES, PAIRS, network, translator_of
from tests.test_corpus import error_of
from tests.test_dataset import config, write
from tests.test_epochs import pairs_of

EVERY = Protection(get_args(Span))
PARTS = st.sampled_from(
    ["https://a.b/c?d=1", "me@x.org", "{a}", "<b>", "3,5", "word", ", ", " ", ".", *PLACEHOLDERS[:2]]
)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("(see https://a.b/c?d=1, www.x.y.)", ["https://a.b/c?d=1", "www.x.y"]),
        ("Mail a.b-c@x.org. {name} {{x}}!", ["a.b-c@x.org", "{name}", "{{x}}"]),
        ("a <b>c</b> d < e > f", ["<b>", "</b>"]),
        ("B2B 3,5 21/3 1.", ["3,5", "21/3", "1"]),
        (f"a {PLACEHOLDERS[1]} b", [PLACEHOLDERS[1]]),
        ("nothing", []),
    ],
)
def test_spans_are_found(text: str, spans: list[str]) -> None:
    hidden, found = EVERY.hide(text)
    assert [*found.values()] == spans and [*found] == [*PLACEHOLDERS[: len(spans)]]
    assert "".join(found.get(each, each) for each in hidden) == text and not set(hidden) & set("@{}<3") - set(text[-9:])
    assert Protection().hide(text) == (text, {})


@given(st.lists(PARTS, max_size=14), st.lists(PARTS, max_size=14))
def test_both_sides_of_a_pair_have_the_same_placeholders_once_each(source: list[str], target: list[str]) -> None:
    pair = "".join(source), "".join(target)
    for share in (0.0, 1.0):
        hidden = EVERY.hide_pair(*pair, share)
        assert hidden == EVERY.hide_pair(*pair, share)
        assert all(hidden[0].count(piece) == hidden[1].count(piece) <= 1 for piece in PLACEHOLDERS[2:])
        assert [len(side.split()) for side in hidden] == [len(side.split()) for side in pair]
    assert Protection().hide_pair(*pair, 1.0) == pair


def test_a_translation_has_each_span_of_its_line_once() -> None:
    learned = learn(LearnedTokenizer(type="bpe", vocabulary=100), PAIRS, both=PLACEHOLDERS)
    tokenizers = replace(learned, protection=EVERY)
    translator = translator_of(network(tokenizers=tokenizers), tokenizers)
    lines = [f"{LINES[0]} <x>", *LINES[1:4], "{a} 12, 12 www.x.y", "<b> " * 12, f"a@b.c {LINES[5]} 7"]
    for options in ({"beam_size": 1}, {"beam_size": 3, "n_best": 3}, {"max_length_factor": 0.0}):
        for line, translation in zip(lines, translator.translate(lines, **options), strict=True):
            for hypothesis in translation.hypotheses:
                joined = "".join(hypothesis.pieces).replace("▁", " ").removesuffix("</s>").strip()
                assert hypothesis.text == joined and not set(joined) & set(PLACEHOLDERS)
                for span in EVERY.hide(line)[1].values():
                    assert joined.count(span) == min(line.count(span), len(PLACEHOLDERS))


def test_training_reads_placeholders_and_the_other_splits_keep_their_text(tmp_path: Path) -> None:
    pairs = [Pair(f"a b 12 c {{x}} {number}", f"{{x}} X 12 {number}") for number in range(9)]
    write(tmp_path, train=pairs, validation=pairs, test=pairs)
    options: dict[str, Any] = {"type": "character", "vocabulary": 40}
    prepared = prepare(config(tmp_path, options, protect=["braces", "number"]))
    assert prepared.validation_pairs == prepared.test_pairs == pairs
    ids = prepared.tokenizers.placeholders()
    for corpus in (prepared.train, prepared.validation):
        for source, target in pairs_of(corpus):
            assert [here in source for here, _ in ids] == [there in target for _, there in ids]
            assert sum(here in source for here, _ in ids) == 3
    files = {side: str(next((tmp_path / "cache").glob(f"tokenizer-*/{side}.model"))) for side in ("source", "target")}
    assert prepare(config(tmp_path, {"type": "given", **files}, protect=["number"])).tokenizers.placeholders() == ids
    prepare(config(tmp_path, options, cache=str(tmp_path / "without")))
    files = {side: str(next((tmp_path / "without").glob(f"*/{side}.model"))) for side in files}
    problem = error_of(prepare, config(tmp_path, {"type": "given", **files}, protect=["number"]))
    assert problem.startswith("data.protect: tokenizer was learned without data.protect (no pieces U+E000 to U+E009); ")
    refused = config(tmp_path, {"type": "word"}, protect=["number"]).contradictions()
    assert "data.protect: needs pieces within words; leave it out, or use another tokenizer.type" in map(str, refused)
