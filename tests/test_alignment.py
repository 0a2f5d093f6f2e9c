"""Attention to word links, the Pharaoh format, gold links and their scores."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.corpus import Pair
from nmt.data.links import NO_WORD, Link, piece_words
from nmt.errors import DataError
from nmt.evaluation.alignment import (
    AlignmentScore,
    Gold,
    GoldPairs,
    alignment_report,
    diagonal,
    format_error_rates,
    format_pharaoh,
    labelled_weights,
    likeliest_links,
    parse_gold,
    read_gold,
    score_alignments,
    symmetrized,
    word_weights,
)


def test_word_weights_by_hand() -> None:
    source = ["▁the", "▁pre", "sident", ".", "</s>"]
    target = ["▁le", "▁pré", "sident", ".", "</s>"]
    attention = np.array(
        [
            [0.5, 0.1, 0.2, 0.0, 0.2],
            [0.4, 0.3, 0.2, 0.1, 0.0],
            [0.1, 0.2, 0.2, 0.0, 0.5],
            [0.0, 0.0, 0.0, 0.1, 0.9],
            [1.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
    weights = word_weights(attention, source, target, "the president.", "le président.")
    # summed over pre, sident and the full stop; averaged over pré, sident and the full stop
    np.testing.assert_allclose(weights, [[0.5, 0.3], [0.5 / 3, (0.6 + 0.4 + 0.1) / 3]])
    assert likeliest_links(weights) == [(0, 0), (1, 1)]
    unfinished = likeliest_links(word_weights(attention[:2], source, target[:2], "the president.", "le pré"))
    assert unfinished == [(0, 0), (1, 1)]


def test_labelled_weights_keep_the_end_symbol() -> None:
    source, target = ["▁the", "▁pre", "sident", "</s>"], ["▁le", "▁pré", "sident", "</s>"]
    attention = np.array([[0.7, 0.1, 0.2, 0.0], [0.2, 0.4, 0.3, 0.1], [0.0, 0.1, 0.6, 0.3], [0.0, 0.0, 0.2, 0.8]])
    text = "the president", "le président"
    joined = labelled_weights(attention, source, target, *text)
    assert joined.source == ["the", "president", "</s>"] and joined.target == ["le", "président", "</s>"]
    np.testing.assert_allclose(joined.weights, [[0.7, 0.3, 0.0], [0.1, 0.7, 0.2], [0.0, 0.2, 0.8]])
    np.testing.assert_allclose(joined.weights[:2, :2], word_weights(attention, source, target, *text))
    plain = labelled_weights(attention, source, target, *text, words=(False, False))
    assert (plain.source, plain.target) == (source, target)
    np.testing.assert_array_equal(plain.weights, attention)
    half = labelled_weights(attention, source, target, *text, words=(False, True))
    assert (half.source, half.target) == (source, joined.target)
    np.testing.assert_allclose(half.weights[1], attention[1:3].mean(0))


def test_only_words_get_links() -> None:
    attention = np.array([[0.0, 0.1, 0.9], [0.0, 0.0, 1.0]])
    assert likeliest_links(word_weights(attention, ["▁a", "▁b", "</s>"], ["▁x", "</s>"], "a b", "x")) == [(1, 0)]
    assert likeliest_links(np.array([[0.0, 1.0], [0.0, 0.0]])) == [(1, 0)]  # the second word reads only the end symbol
    assert likeliest_links(word_weights(np.ones((1, 1)), ["</s>"], ["</s>"], "", "")) == []
    assert likeliest_links(word_weights(np.ones((1, 2)), ["▁a", "</s>"], ["</s>"], "a", "")) == []
    assert likeliest_links(word_weights(np.ones((2, 2)), ["▁a", "</s>"], ["▁", "</s>"], "a", "")) == []


@pytest.mark.parametrize(
    ("pieces", "text", "words"),
    [
        (["▁a", "b", "▁c"], "ab c", [0, 0, 1]),
        (["▁", "a", "b", "▁", "▁c"], "ab  c", [0, 0, 0, 1, 1]),  # a mark alone is part of what follows
        (["▁a", "▁"], "a", [0, 0]),
        (["▁a", "▁b", "▁x", "▁c"], "a b c", [0, 1, 1, 2]),  # the line lacks x: part of the word before it
        (["▁a▁b", "c", "▁d"], "a bc d", [0, 1, 2]),  # a piece of two words counts for the first
        (["a", "▁b"], "a b", [0, 1]),  # no mark at the start
        (["▁a", "<unk>", "c", "▁d"], "a☃c d", [0, 0, 0, 1]),  # read: the raw word holds the unknown character
        (["▁a", "<unk>", "c", "▁d"], "a ⁇ c d", [0, 1, 2, 3]),  # written: it is decoded as a word of its own
        (["▁", "<unk>", "▁d"], "☃ d", [0, 0, 1]),
        (["▁don", "▁́", "t", "▁x", "y"], "don´t xy", [0, 0, 0, 1, 1]),  # normalization parted a word
        (["▁ab", "▁c", "▁d"], "a\x1fb c d", [0, 2, 3]),  # normalization joined two
        (["▁a", "▁b"], "a b c d e f g", [0, 1]),  # the line was cut off
        (["▁x"], "", [0]),
        (["<2fr>", "▁a", "▁b"], "a b", [NO_WORD, 0, 1]),  # a tag of decoding.to
        (["<2fr>", "▁a"], " <2fr> a", [0, 1]),  # a tag of the line
        (["<unk>", "▁b"], "? b", [0, 1]),
    ],
)
def test_pieces_belong_to_raw_words(pieces: list[str], text: str, words: list[int]) -> None:
    assert piece_words(pieces, text) == words


def test_a_tag_that_is_not_part_of_the_line_is_no_word() -> None:
    weights = np.array([[0.5, 0.1, 0.4], [0.0, 0.3, 0.7]])
    pieces = ["<2fr>", "▁a", "▁b"], ["▁x", "▁y"]
    assert word_weights(weights, *pieces, "a b", "x y").tolist() == [[0.1, 0.4], [0.3, 0.7]]
    assert word_weights(weights, *pieces, "<2fr> a b", "x y").tolist() == weights.tolist()
    labelled = labelled_weights(weights, *pieces, "a b", "x y")
    assert labelled.source == ["<2fr>", "a", "b"] and labelled.weights.tolist() == weights.tolist()


def test_words_that_were_not_read_take_no_memory() -> None:
    """A raw line of a million words, of which the model has read two."""
    source, target = "a b " * 500_000, "x y " * 500_000
    tracemalloc.start()
    weights = word_weights(np.eye(2), ["▁a", "▁b"], ["▁x", "▁y"], source, target)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert weights.tolist() == [[1, 0], [0, 1]]
    assert peak < 2.5 * len(source), "no more than a copy of each line's rest"


# --- gold links -------------------------------------------------------------------------------------------------------


def test_gold_by_hand() -> None:
    gold = parse_gold("1-1 2p3 10-4", "gold:1", first=1)
    assert gold == Gold(frozenset({(0, 0), (9, 3)}), frozenset({(0, 0), (1, 2), (9, 3)}))
    assert parse_gold("", "gold:1") == Gold(frozenset(), frozenset())
    assert parse_gold("0-0", "gold:1").sure == {(0, 0)}


@pytest.mark.parametrize("text", ["0-1", "1:1", "1-1x", "1" * 5000])
def test_what_is_no_link_is_named(text: str) -> None:
    with pytest.raises(DataError, match=f"gold:7: '{text[:40]}.* is not a link of words counted from 1"):
        parse_gold(f"1-1 {text}", "gold:7", first=1)


def test_scores_by_hand() -> None:
    gold = [parse_gold("0-0 1-1 2p1", "x"), parse_gold("0-0", "x")]
    proposed: list[set[Link]] = [{(0, 0), (2, 1), (3, 3)}, set()]
    # three proposed, two of them possible, one of three sure ones found; AER = 1 - (1 + 2) / (3 + 3)
    assert score_alignments(gold, proposed) == AlignmentScore(0.5, 2 / 3, 1 / 3, 3)
    assert score_alignments(gold, [gold[0].sure, gold[1].sure]) == AlignmentScore(0.0, 1.0, 1.0, 3)
    assert score_alignments([], []) == AlignmentScore(0.0, 1.0, 1.0, 0)
    # A has 4 links, S 3; A and S share 1, A and P 3: 1 - (1 + 3) / (4 + 3)
    gold = [parse_gold("0-0 1-1 1p2", "x"), parse_gold("0-0 0p1", "x")]
    assert score_alignments(gold, [{(0, 0), (1, 2), (2, 2)}, {(0, 1)}]).error_rate == pytest.approx(3 / 7)
    assert score_alignments(gold, [set(), set()]).error_rate == 1
    with pytest.raises(ValueError):
        score_alignments(gold, [set()])


def test_gold_is_read_line_by_line(tmp_path: Path) -> None:
    files = {"source": "a b\nc\n", "target": "A\nB C\n", "links": "1-1 2p1\n1-2\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = [tmp_path / name for name in files]
    gold = read_gold(*paths, first=1)
    assert gold.pairs == [Pair("a b", "A"), Pair("c", "B C")]
    assert gold.links == [parse_gold("0-0 1p0", "x"), parse_gold("0-1", "x")]
    assert read_gold(*paths, first=1, limit=1) == GoldPairs(gold.pairs[:1], gold.links[:1])
    with pytest.raises(DataError, match=r"links:1: 1-1 links a missing word: the pair has 2 and 1 words, cou"):
        read_gold(*paths)
    (tmp_path / "links").write_text("1-1\n")
    with pytest.raises(DataError, match=r"source 2, .*target 2, .*links 1 lines: each file must have as many"):
        read_gold(*paths, first=1)
    with pytest.raises(DataError, match="no such file"):
        read_gold(paths[0], paths[1], tmp_path / "none")


def test_a_report_by_hand() -> None:
    gold = GoldPairs([Pair("a b", "A B")], [parse_gold("0-0 1-1", "x")])
    weights = [np.array([[0.9, 0.1], [0.6, 0.4]])]  # both target words look at the first source word
    report = alignment_report(gold, weights)
    assert (report["likeliest"]["error_rate"], report["diagonal"]["error_rate"]) == (pytest.approx(0.5), 0)
    assert [line.split()[1] for line in format_error_rates(report).splitlines()] == ["0.500", "0.000"]
    assert report["gold"] == {"pairs": 1, "sure": 2, "possible": 2}


def test_the_diagonal() -> None:
    assert diagonal(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert diagonal(2, 4) == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert diagonal(4, 2) == {(1, 0), (3, 1)}
    assert diagonal(0, 2) == diagonal(2, 0) == frozenset()


@given(st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_pharaoh_is_read_as_it_is_written(links: frozenset[tuple[int, int]]) -> None:
    assert parse_gold(format_pharaoh(sorted(links)), "f:1").sure == links


def test_links_of_two_directions_are_joined() -> None:
    """By hand: of the links beside 1-1 and its neighbors only 2-2 has no free word; of those apart, 4-5 after 0-5."""
    ahead = frozenset({(1, 1), (1, 2), (2, 3), (0, 5)})
    back = frozenset({(1, 1), (2, 1), (2, 2), (4, 5)})
    assert symmetrized(ahead, back) == {(1, 1), (1, 2), (2, 1), (2, 3), (0, 5)}
    # the direct neighbors of 1-1 come before 0-0, which then has no free word
    ahead, back = frozenset({(0, 0), (0, 1), (1, 1)}), frozenset({(1, 0), (1, 1)})
    assert symmetrized(ahead, back) == {(0, 1), (1, 0), (1, 1)}
    column = frozenset({(0, 2), (1, 2), (2, 2)})  # 0-2 is beside a link only when 1-2 is added
    assert symmetrized(column, frozenset({(2, 2)})) == column
