"""Bins of source length, and the table of scores by length."""

from collections.abc import Sequence

import numpy as np
import pytest
import sacrebleu

from nmt.evaluation.by_length import SystemScores, bins_by_length, format_rows, format_scores
from nmt.evaluation.metrics import bootstrap_bleu, sentence_statistics
from nmt.evaluation.significance import compare_by_length
from tests.figures import COLUMNS, boxes, draw, inside, scoring_of


def test_bins_by_hand() -> None:
    found = np.array([1, 5, 6, 10, 11, 40, 25])
    bins = bins_by_length(found, (5, 10, 20, 30, 35))
    assert [(number, each.low, each.high, each.members.tolist()) for number, each in bins.items()] == [
        (0, 1, 5, [0, 1]),
        (1, 6, 10, [2, 3]),
        (2, 11, 20, [4]),
        (3, 21, 30, [6]),
        (5, 36, 40, [5]),  # the open bin ends at the longest; 31 to 35 is empty and left out
    ]
    assert bins_by_length(np.array([0, 3]), (5,))[0][:2] == (0, 5)


REFERENCES = ["u v w x", "u v w x y", "u v w x y z.", "k l m n o p", "u"]
HYPOTHESES = ["u v w x", "u v w", "u v w x z y.", "k l m n", "u"]


def scored(*seeds: list[str], edges: Sequence[int] = (3, 5), resamples: int = 50) -> SystemScores:
    """On the references; the last source is blank."""
    return scoring_of(REFERENCES, [2, 3, 6, 7, 0], edges, resamples).score("me", *seeds)


def test_a_row_is_the_score_of_its_sentences() -> None:
    short, long = scored(HYPOTHESES, resamples=200).rows
    assert (short.system, short.low, short.high, short.n) == ("me", 0, 3, 3)
    assert (long.low, long.high, long.n) == (6, 7, 2)
    inside = sacrebleu.corpus_bleu(HYPOTHESES[2:4], [REFERENCES[2:4]])
    assert long.bleu == pytest.approx(inside.score)
    assert long.length_ratio == (7 + 4) / (7 + 6) == inside.sys_len / inside.ref_len  # the full stop is a word
    assert long.bleu_low < long.bleu < long.bleu_high


def test_one_sentence_has_no_spread_and_blank_references_no_ratio() -> None:
    [row] = scoring_of(["u v w x z"], [1], (3,)).score("me", ["u v w x y"]).rows
    assert row.bleu_low == row.bleu == row.bleu_high > 0
    [row] = scoring_of([""], [1], (3,)).score("me", ["u"]).rows
    assert row.length_ratio == 0


def test_where_no_reference_has_four_tokens_there_is_no_bleu() -> None:
    """Nor of a translation that has four; where one has, a translation that has not gets 0."""
    scoring = scoring_of(["a b c", "d", "a b c d", "e"], [3, 1, 9, 9], (5,))
    one, other = (scoring.score(name, each, each) for name, each in (("one", ["a b c d"] * 4), ("other", ["x"] * 4)))
    numbers = other.as_dict()
    assert [[row[key] for key in COLUMNS[4:7]] for row in numbers["by_length"]] == [[None] * 3, [0.0] * 3]
    assert numbers["bleu_by_seed"] == ((None, 0.0), (None, 0.0))
    assert format_rows(one.rows, "words").split("\n")[1].split() == ["one", "1-5", "2", "–", "–", "2.000"]
    assert [each.lengths for each in compare_by_length([one, other], scoring)] == [(6, 9)]
    figure = draw([one, other])
    inside(figure)
    assert any("No point: no reference has four tokens" in text for text, _ in boxes(figure))
    inside(draw([scoring_of(["a b"], [2], (5,)).score("short", ["a b"])]))  # nowhere


def test_the_interval_leaves_out_a_fortieth_of_the_resamples_at_either_end() -> None:
    generator = np.random.default_rng(6)
    references = [" ".join(generator.choice(list("abcdefgh"), 12)) for _ in range(60)]
    hypotheses = [" ".join(w if generator.random() < 0.8 else "x" for w in line.split()) for line in references]
    [row] = scoring_of(references, [12] * 60, (20,), 2000).score("me", hypotheses).rows
    others = bootstrap_bleu(sentence_statistics(hypotheses, references, "13a"), 2000, seed=7)
    assert np.mean(others < row.bleu_low) == pytest.approx(0.025, abs=0.01)
    assert np.mean(others > row.bleu_high) == pytest.approx(0.025, abs=0.01)


def test_scores_as_numbers_and_as_text() -> None:
    system = scored(HYPOTHESES, edges=(5,))
    numbers = system.as_dict()
    assert numbers["bleu"]["score"] == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert "tok:13a" in numbers["bleu"]["signature"]
    assert numbers["chrf"]["score"] == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert [tuple(row) for row in numbers["by_length"]] == [COLUMNS, COLUMNS]
    heading, first, _ = format_rows(system.rows, "words").split("\n")
    assert heading.split("  ")[0] == "system" and "source words" in heading and "95% interval" in heading
    assert first.split()[:3] == ["me", "0-5", "3"]
    assert format_scores(system).split("\n")[0].startswith(f"BLEU {system.bleu.value:.2f}  nrefs:1|case:mixed")


def test_of_several_trainings_the_means_are_reported_and_each_is_kept() -> None:
    worse = ["u v", "u v w", "u v w x z y.", "k l", "u"]
    one, other, both = (scored(*seeds) for seeds in ([HYPOTHESES], [worse], [HYPOTHESES, worse]))
    for mean, *each in zip(both.rows, one.rows, other.rows, strict=True):
        assert mean.bleu == pytest.approx((each[0].bleu + each[1].bleu) / 2)
        assert mean.length_ratio == pytest.approx((each[0].length_ratio + each[1].length_ratio) / 2)
    for name in ("bleu", "chrf"):
        assert both.scores[name].value == pytest.approx((one.scores[name].value + other.scores[name].value) / 2)
    assert both.seeds == (tuple(row.bleu for row in one.rows), tuple(row.bleu for row in other.rows))
    assert both.as_dict()["bleu_by_seed"] == both.seeds and "bleu_by_seed" not in one.as_dict()
    assert scored(worse, worse).rows == other.rows
    # of two trainings of which one is perfect in every resample, the interval lies halfway between the other's and 100
    _, long = scored(HYPOTHESES, REFERENCES).rows
    assert long.bleu_low == pytest.approx((one.rows[1].bleu_low + 100) / 2) and one.rows[1].bleu_low < long.bleu_low
    assert long.bleu_high == pytest.approx((one.rows[1].bleu_high + 100) / 2)
