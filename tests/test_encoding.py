"""Encoding of a split: progress, threads, memory; the filters for noisy corpora."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config.schema import FileCorpus, Filter
from nmt.data.corpus import Pair
from nmt.data.dataset import prepare
from nmt.data.encoded import Recipe, encode, encode_split, reason
from nmt.data.links import Link, piece_links
from nmt.data.report import REASONS
from nmt.messages import shown_on
from tests.recorded_steps import Recorder
from tests.small_run import write_corpus
from tests.small_translator import TOKENIZERS
from tests.test_dataset import config, write


def test_steps_count_every_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.data.encoded.UNIT", 100)
    display = Recorder()
    with shown_on(display):
        prepare(config(tmp_path))
    ended = {step.what for step in display.steps if step.ended}
    assert {"learning the tokenizer of the source side", "encoding validation"} < ended
    encoding = display.named("encoding train")
    assert (encoding.counts, encoding.unit) == ([100, 200, 300], "pairs")
    assert display.named("reading text for the tokenizer").done == 300


def test_threads_change_no_byte_and_memory_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.data.encoded.UNIT", 200)
    peaks = []
    for threads, size in ((1, 400), (2, 400), (2, 4000)):
        corpus = FileCorpus.model_validate(write_corpus(tmp_path, train=size)["train"])
        path = tmp_path / f"{threads}-{size}.arrow"
        tracemalloc.start()
        encode_split(path, {"train": corpus}, ("en", "fr"), Recipe(TOKENIZERS, Filter()), threads)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (tmp_path / "1-400.arrow").read_bytes() == (tmp_path / "2-400.arrow").read_bytes()
    assert peaks[2] < 1.3 * peaks[1]


# --- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "pieces", "expected"),
    [
        ((5, 5), (10, 10), "kept"),
        ((0, 5), (0, 10), "empty"),
        ((5, 5), (10, 0), "empty"),
        ((6, 5), (10, 10), "too_long_words"),
        ((5, 6), (11, 10), "too_long_words"),
        ((5, 5), (10, 11), "too_long_pieces"),
        ((2, 5), (1, 1), "kept"),
        ((5, 1), (1, 1), "ratio"),
        ((1, 5), (1, 1), "ratio"),
    ],
)
def test_the_bounds_of_the_filter_are_included(words: tuple[int, int], pieces: tuple[int, int], expected: str) -> None:
    pair = Pair("a", "b")
    rule = Filter(max_words=5, max_pieces=10, max_ratio=2.5)
    assert reason(pair, words, pieces, repeats=True, rule=rule) == expected
    assert reason(pair, words, pieces, repeats=True, rule=None) == ("empty" if expected == "empty" else "kept")


def test_noise_is_dropped_and_counted_by_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.data.encoded.UNIT", 2)
    noisy = [
        Pair("oak elm", "ELM OAK"),
        Pair("ash fir", "Ash  Fir"),  # a copy
        Pair("oak elm", "ELM OAK"),  # a duplicate
        Pair("oak elm", "ELM"),
        Pair("oak elm", "ELM"),  # a duplicate
        Pair("", ""),
    ]
    write_corpus(tmp_path)
    write(tmp_path, train=noisy)
    nothing = dict.fromkeys(REASONS[1:], 0)
    for rule, dropped in (
        ({}, {}),
        ({"copies": True}, {"copy": 1}),
        ({"duplicates": True}, {"duplicate": 2}),
        # of the reasons that apply, the first counts: one pair is left to repeat another
        ({"copies": True, "duplicates": True, "max_ratio": 1.5}, {"copy": 1, "ratio": 2, "duplicate": 1}),
    ):
        report = prepare(config(tmp_path, filter=rule)).report["splits"]["train"]
        expected = nothing | {"empty": 1} | dropped
        assert report["dropped"] == expected
        assert report["kept"] == report["read"] - sum(expected.values())
        assert (report["repeated_pairs"] == 0) == ("duplicates" in rule)


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=9), max_size=9))
def test_repeated_pairs_against_a_plain_list(units: list[list[int]]) -> None:
    recipe, seen, pairs = Recipe(TOKENIZERS, Filter(duplicates=True)), set[int](), list[Pair]()
    for numbers in units:
        new = [Pair(f"{number}", f"{number % 2}") for number in numbers]
        _, facts = encode(new, recipe, seen)
        expected = [pair in [*pairs, *new[:place]] for place, pair in enumerate(new)]
        assert [REASONS[each] == "duplicate" for each in facts["reason"].to_pylist()] == expected
        pairs += new


def test_links_lead_from_every_piece_of_a_word_to_every_piece() -> None:
    """A tag has none; a pair that is dropped takes its links with it."""
    assert piece_links({(0, 0), (2, 1)}, [0, 0, 2], [0, 1, 1, 2]) == [0, 0, 1, 0, 2, 1, 2, 2]
    pairs, links = [Pair("", "a"), Pair("b a", "a")], [set[Link](), {(1, 0)}]
    for tag, first in ((None, 1), ("▁a", 2)):
        table, _ = encode(pairs, Recipe(TOKENIZERS, links=True, tag=tag), set(), links=links)
        assert table["links"].to_pylist() == [[first, 0]]


def test_a_tag_does_not_fill_an_empty_source() -> None:
    table, facts = encode([Pair("\u200b", "a"), Pair("a", "a")], Recipe(TOKENIZERS, tag="▁a"), set())
    assert [REASONS[each] for each in facts["reason"].to_pylist()] == ["empty", "kept"]
    assert [TOKENIZERS.source.pieces(row) for row in table["source"].to_pylist()] == [["▁a", "▁a"]]
