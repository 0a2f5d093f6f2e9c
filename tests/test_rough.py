"""Rough text: what each change makes of a text, and what training reads of it."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nmt.config.schema import Rough
from nmt.data.dataset import prepare
from nmt.data.glossary import marked
from nmt.data.protection import Protection, restored
from nmt.data.rough import CHANGES, mistyped, readable, roughened
from tests.test_epochs import BPE, DROPOUT, configuration, pairs_of

NEVER = dict.fromkeys(Rough.model_fields, 0.0)


def test_each_change() -> None:
    assert CHANGES["title"]("the dog's big-eared 2nd", Random(1)) == "The Dog's Big-Eared 2nd"
    assert CHANGES["accents"]("Él naïve ộ 각 นี้", Random(1)) == "El naive o 각 นี้"
    for text, changed in (("A. dog.", "A. dog"), ("犬。", "犬"), ("a dog?", "a dog?")):
        assert CHANGES["stop"](text, Random(1)) == changed


def test_capitals_are_read_as_a_sentence(tmp_path: Path) -> None:
    assert readable("«DEUX ÉTÉS, 2 \ue000.") == "«Deux étés, 2 \ue000."
    assert readable(f"A {marked('OTAN')} DOG") == f"A {marked('OTAN')} dog"
    others = ("USA.", "TWO dogs", "犬 USA", "", "1 2", "UTF-8", "5 GB", "U.S.A. X-RAY OF CO2", "WI-FI")
    assert [text for text in others if readable(text) != text] == []
    for rough, read, spans in (({}, "Oak elm", "<bt> Open {A} at WWW.B.COM"), (None, "OAK ELM", None)):
        tokenizers = prepare(configuration(tmp_path, data={"rough": rough})).tokenizers
        assert [*tokenizers.hide("OAK ELM", "ELM OAK").texts] == [read, "ELM OAK"]
        protecting = replace(tokenizers, protection=Protection(("braces", "url"), ("<bt>",)))
        hidden = protecting.hide(text := "<bt> OPEN {A} AT WWW.B.COM")
        assert restored(hidden.texts[0], hidden.spans) == (spans or text)


@pytest.mark.parametrize(("letter", "keys"), [("g", "ftyhvb"), ("É", "WRSD"), ("ж", "ж")])
def test_another_key_is_a_neighbour(letter: str, keys: str) -> None:
    found = {mistyped(letter, Random(seed), 1.0) for seed in range(500)}
    assert found == {"", letter, *keys, *(key + letter for key in keys)}


def test_as_many_letters_are_mistyped_as_asked_within_their_words() -> None:
    assert {mistyped("ab", Random(seed), 1.0) for seed in range(500)} > {"ba"}, "letters are exchanged, too"
    *found, last = mistyped("y " * 10_000 + "5.\ue000", Random(1), 0.2).split(" ")
    assert (len(found), last) == (10_000, "5.\ue000")
    assert sum(word != "y" for word in found) == pytest.approx(0.75 * 0.2 * 10_000, rel=0.1)


def test_marked_terms_and_texts_of_which_nothing_would_be_left_stay() -> None:
    term, title = marked("déjà vu"), Rough(**NEVER | {"title": 0.999, "accents": 0.999})
    assert roughened(f"é {term} é", title, Random(1)) == f"E {term} E"
    upper = Rough(**NEVER | {"upper": 0.999})
    assert roughened(f"«A Naïve {term} Dog's \ue000.", upper, Random(1)) == f"«A naïve {term} dog's \ue000."
    assert roughened(".", Rough(**NEVER | {"stop": 0.999}), Random(1)) == "."
    assert {roughened("é. b", Rough(**NEVER), Random(seed)) for seed in range(50)} == {"é. b"}


@pytest.mark.parametrize("tokenizer", [BPE, DROPOUT])
def test_each_epoch_changes_other_sources(tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHANGES, "title", lambda text, _: text[::-1])
    chosen = configuration(tmp_path, tokenizer, data={"rough": NEVER | {"title": 0.4}})
    prepared = prepare(chosen)
    (source, target), best = (side.decode for _, side in prepared.tokenizers.sides()), pairs_of(prepared.train)
    epochs = [pairs_of(prepared.train.in_epoch(epoch)) for epoch in (0, 1)]
    for pairs in epochs:
        assert [target(pair[1]) for pair in pairs] == [target(pair[1]) for pair in best]
        texts = [(source(pair[0]), source(clean[0])) for pair, clean in zip(pairs, best, strict=True)]
        assert all(text in (clean, clean[::-1]) for text, clean in texts)
        assert sum(text != clean for text, clean in texts) == pytest.approx(0.4 * len(texts), rel=0.25)
    assert epochs[0] != epochs[1] == pairs_of(prepare(chosen).train.in_epoch(1))
