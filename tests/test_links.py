"""Gold alignments, their scores, and two directions made one, by hand."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.corpus import Pair
from nmt.data.links import Link
from nmt.errors import DataError
from nmt.evaluation.links import (
    AlignmentScore,
    Gold,
    GoldPairs,
    alignment_report,
    best_threshold,
    diagonal,
    format_alignment,
    grow_diag_final_and,
    links_from,
    parse_gold,
    read_gold,
    score_alignments,
)


def test_gold_by_hand() -> None:
    gold = parse_gold("1-1 2p3 10-4", "gold:1", first=1)
    assert gold == Gold(frozenset({(0, 0), (9, 3)}), frozenset({(0, 0), (1, 2), (9, 3)}))
    assert parse_gold("", "gold:1") == Gold(frozenset(), frozenset())
    assert parse_gold("0-0", "gold:1").sure == {(0, 0)}


@pytest.mark.parametrize("text", ["0-1", "1-0", "1:1", "-1-1", "1-1x", "1pp1", "a-b"])
def test_what_is_no_link_is_named(text: str) -> None:
    with pytest.raises(DataError, match=f"gold:7: '{text}' is not a link of words counted from 1"):
        parse_gold(f"1-1 {text}", "gold:7", first=1)


def test_a_number_of_very_many_digits_is_no_link() -> None:
    with pytest.raises(DataError) as caught:
        parse_gold(f"0-{'1' * 5000}", "gold:7")
    assert str(caught.value) == f"gold:7: '0-{'1' * 38}...' is not a link of words counted from 0, such as 1-1 or 2p3"


def test_scores_by_hand() -> None:
    gold = [parse_gold("0-0 1-1 2p1", "x"), parse_gold("0-0", "x")]
    proposed: list[set[Link]] = [{(0, 0), (2, 1), (3, 3)}, set()]
    # three proposed, two of them possible, one of three sure ones found; AER = 1 - (1 + 2) / (3 + 3)
    assert score_alignments(gold, proposed) == AlignmentScore(0.5, 2 / 3, 1 / 3, 3)
    assert score_alignments(gold, [gold[0].sure, gold[1].sure]) == AlignmentScore(0.0, 1.0, 1.0, 3)
    assert score_alignments([], []) == AlignmentScore(0.0, 1.0, 1.0, 0)


def test_error_rate_by_hand() -> None:
    gold = [parse_gold("0-0 1-1 1p2", "x"), parse_gold("0-0 0p1", "x")]
    proposed: list[set[Link]] = [{(0, 0), (1, 2), (2, 2)}, {(0, 1)}]
    # A has 4 links, S 3; A and S share 1, A and P 3: 1 - (1 + 3) / (4 + 3)
    assert score_alignments(gold, proposed).error_rate == pytest.approx(3 / 7)
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
    with pytest.raises(DataError, match=r"source 2, .*target 2, .*links 1 lines: line n of each file must belong to"):
        read_gold(*paths, first=1)
    with pytest.raises(DataError, match="no such file"):
        read_gold(paths[0], paths[1], tmp_path / "none")


def test_a_report_by_hand() -> None:
    gold = GoldPairs([Pair("a b", "A B")], [parse_gold("0-0 1-1", "x")])
    weights = [np.array([[0.9, 0.1], [0.6, 0.4]])]  # both target words look at the first source word
    reverse = [np.array([[0.8, 0.2], [0.1, 0.9]])]  # of two source words, each at its own
    report = alignment_report(gold, weights, reverse)
    rates = {name: each["error_rate"] for name, each in report.items() if name not in ("thresholds", "gold")}
    assert rates == {
        "likeliest": pytest.approx(0.5),
        "reverse": 0,
        "intersection": pytest.approx(1 / 3),
        "grow_diag_final_and": pytest.approx(0.2),  # (0, 1) and (1, 1) each bring a free word
        "diagonal": 0,
    }
    assert best_threshold(report)["threshold"] == 0.15  # from there on (1, 0) is gone
    assert best_threshold(report)["links"] == 3
    assert [line.split()[1] for line in format_alignment(report).splitlines()] == [
        *("0.500", "0.000", "0.333", "0.200"),
        *("0.200", "0.000"),
    ]
    assert set(alignment_report(gold, weights)) == {"likeliest", "diagonal", "thresholds", "gold"}


def test_links_of_the_other_direction_are_turned_round() -> None:
    """Links that are not symmetric: each source word belongs to the next target word, the last to the first."""
    gold = GoldPairs([Pair("a b c", "C A B")], [parse_gold("0-1 1-2 2-0", "x")])
    forward = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # the source words of each target word
    report = alignment_report(gold, [forward], [forward.T])
    for name in ("likeliest", "reverse", "intersection", "grow_diag_final_and"):
        assert report[name]["error_rate"] == 0


def test_links_of_weights_by_hand() -> None:
    weights = np.array([[0.7, 0.3, 0.0], [0.1, 0.4, 0.5]])  # two target, three source words
    assert links_from(weights, 0.4) == {(0, 0), (1, 1), (2, 1)}
    assert links_from(weights, 0.6) == {(0, 0)}
    assert len(links_from(weights, 0.0)) == 6


def test_the_diagonal() -> None:
    assert diagonal(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert diagonal(2, 4) == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert diagonal(4, 2) == {(1, 0), (3, 1)}
    assert diagonal(0, 2) == diagonal(2, 0) == frozenset()


def test_growing_by_hand() -> None:
    forward = {(0, 0), (1, 1), (2, 1), (4, 4)}
    backward = {(0, 0), (1, 1), (1, 2), (4, 3)}
    # (2, 1) and (1, 2) each touch (1, 1) and bring a free word; (4, 4) has two free words; then (4, 3) has but one
    assert grow_diag_final_and(forward, backward) == {(0, 0), (1, 1), (2, 1), (1, 2), (4, 4)}
    assert grow_diag_final_and(forward, set()) == {(0, 0), (1, 1), (4, 4)}  # nothing to grow from: free words alone


links = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@given(links, links)
def test_what_is_grown_lies_between_intersection_and_union(forward: frozenset[Link], backward: frozenset[Link]) -> None:
    grown = grow_diag_final_and(forward, backward)
    assert forward & backward <= grown <= forward | backward
    assert grow_diag_final_and(forward, forward) == forward
    linked = {i for i, _ in grown}, {j for _, j in grown}
    assert all(i in linked[0] or j in linked[1] for i, j in forward | backward)


@given(links, links, links)
def test_scores_lie_where_they_must(sure: frozenset[Link], possible: frozenset[Link], found: frozenset[Link]) -> None:
    score = score_alignments([Gold(sure, sure | possible)], [found])
    assert 0 <= score.precision <= 1 and 0 <= score.recall <= 1 and 0 <= score.error_rate <= 1
    hits = score.recall * len(sure) + score.precision * len(found)
    assert score.error_rate == pytest.approx(1 - hits / (len(sure) + len(found)) if sure or found else 0.0)
