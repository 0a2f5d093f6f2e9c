"""The paired bootstrap and the share retained: by hand, calibrated, against sacreBLEU."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import sacrebleu

from nmt.errors import ConfigError
from nmt.evaluation.by_length import SystemScores, mean_bleu
from nmt.evaluation.metrics import Integers, bleu_of_statistics, draws, sentence_statistics
from nmt.evaluation.significance import (
    compare_by_length,
    compare_overall,
    format_comparisons,
    format_retention,
    p_value,
    ranges,
    retention,
)
from tests.figures import scoring_of

RANDOM = np.random.default_rng(1)
REFERENCES = [" ".join(RANDOM.choice(list("abcdefgh"), size=RANDOM.integers(5, 20))) for _ in range(120)]
LENGTHS = np.array([len(line.split()) for line in REFERENCES])
SCORING = scoring_of(REFERENCES, LENGTHS, (10, 15), 200)


def spoilt(share: float, seed: int) -> list[str]:
    """The references with a share of their words replaced."""
    random = np.random.default_rng(seed)
    return [" ".join(word if random.random() > share else "z" for word in line.split()) for line in REFERENCES]


def statistics(share: float, seed: int) -> Integers:
    return sentence_statistics(spoilt(share, seed), REFERENCES, "13a")[None]


def scored(name: str, *shares: float) -> SystemScores:
    """A system whose seeds have these shares of their words spoilt."""
    return SCORING.score(name, *(spoilt(share, 10 * k + sum(map(ord, name))) for k, share in enumerate(shares)))


def compare(one: Integers, other: Integers, resamples: int, seed: int) -> tuple[float, float]:
    """The difference of two systems with these statistics, and its p-value."""
    (first, second), resampled = mean_bleu((one, other), resamples, seed)
    return first - second, p_value(first - second, resampled[0] - resampled[1])


def test_the_p_value_by_hand() -> None:
    # around their mean of 2: -2, -1, 0, 1, 2; two of five lie as far as 2, four as far as 1
    resampled = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    assert p_value(2.0, resampled) == p_value(-2.0, resampled) == pytest.approx((2 + 1) / 6)
    assert p_value(1.0, resampled) == pytest.approx(5 / 6)
    assert p_value(2.5, resampled) == pytest.approx(1 / 6)


def test_the_bootstrap_is_what_a_plain_computation_gives() -> None:
    """Resampled sentence by sentence, scored by sacreBLEU, and counted: with the draws of the toolkit the same p."""
    one, other = spoilt(0.25, 1), spoilt(0.28, 5)
    differences = []
    for times in draws(len(REFERENCES), 40, 1):
        chosen = [k for k, n in enumerate(times) for _ in range(n)]
        references = [[REFERENCES[k] for k in chosen]]
        scores = [sacrebleu.corpus_bleu([lines[k] for k in chosen], references).score for lines in (one, other)]
        differences.append(scores[0] - scores[1])
    real = sacrebleu.corpus_bleu(one, [REFERENCES]).score - sacrebleu.corpus_bleu(other, [REFERENCES]).score
    mean = sum(differences) / len(differences)
    expected = (sum(abs(each - mean) >= abs(real) for each in differences) + 1) / (len(differences) + 1)
    found = compare(statistics(0.25, 1), statistics(0.28, 5), 40, 1)
    assert found[0] == pytest.approx(real) and found[1] == pytest.approx(expected)


# --- every two systems ------------------------------------------------------------------------------------------------


def test_every_two_systems_on_the_whole_test_set() -> None:
    systems = scored("good", 0.2), scored("like", 0.2), scored("worse!", 0.35)
    rows = compare_overall(systems, resamples=300)
    for row, (one, other) in zip(rows, combinations(systems, 2), strict=True):
        assert (row.system, row.other, row.n) == (one.name, other.name, 120)
        assert row.difference == pytest.approx(one.bleu.value - other.bleu.value)
        assert row.low < row.difference < row.high
        assert row.p_value == compare(one.statistics, other.statistics, 300, 1)[1]
    assert rows[1].low > 0 and rows[1].p_value == pytest.approx(1 / 301)
    assert rows[0].p_value is not None and rows[0].p_value > 0.05
    text = format_comparisons(rows[1:2])
    assert text.startswith(f"good - worse!: {rows[1].difference:+.2f} BLEU [+") and text.endswith("], p = 0.003")
    assert compare_overall([], resamples=50) == compare_overall(systems[:1], resamples=50) == []


def test_every_two_systems_in_every_bin() -> None:
    references, same = ["a b c d e"] * 5, ["a b c d e"] * 5
    scoring = scoring_of(references, [3, 5, 12, 15, 30], (10, 20))
    seeds = {"x": [same], "y": [["a b c d f"] * 2 + same[:3]], "z": [same, same]}
    rows = compare_by_length([scoring.score(name, *each) for name, each in seeds.items()], scoring)
    bins, pairs = [((1, 10), 2), ((11, 20), 2), ((21, 30), 1)], [("x", "y"), ("x", "z"), ("y", "z")]
    found = [(row.system, row.other, row.lengths, row.n) for row in rows]
    assert found == [(*pair, *bin_) for pair in pairs for bin_ in bins]
    expected = 100 - sacrebleu.corpus_bleu(["a b c d f"] * 2, [references[:2]]).score
    assert rows[0].difference == pytest.approx(expected) and rows[1].difference == 0 == rows[4].difference
    text = format_comparisons(rows[:1])
    assert text.startswith(f"x - y  1-10: {expected:+.2f} BLEU [") and text.endswith("too few sentences for a p-value")
    assert {row.p_value for row in rows} == {None}, "two sentences prove nothing"
    scoring = scoring_of(references * 2, [1] * 10)
    [row] = compare_by_length([scoring.score(name, same * 2) for name in "xy"], scoring)
    assert row.p_value == 1


# --- the share retained -----------------------------------------------------------------------------------------------


def test_the_share_retained_by_hand() -> None:
    systems = [scored("one", 0.2, 0.25), scored("other", 0.3)]
    found: Any = retention(systems, SCORING, (5, 8), (16, 19))
    sides = [np.flatnonzero((low <= LENGTHS) & (high >= LENGTHS)) for low, high in ((5, 8), (16, 19))]
    assert (found.n_short, found.n_long) == tuple(map(len, sides))
    for each in systems:
        short, long = (bleu_of_statistics(each.statistics[:, side].sum(axis=1)).mean() for side in sides)
        share = found.shares[each.name]
        assert share.share == pytest.approx(long / short) and share.low < long / short < share.high
    one, other = found.shares.values()
    [row] = found.comparisons
    assert row.difference == pytest.approx(one.share - other.share) and row.low < row.difference < row.high
    assert row.p_value is not None and row.p_value > 0.01
    text = format_retention(found, "words").splitlines()
    assert text[0].startswith("retained BLEU: BLEU at 16-19 source words (")
    assert text[1].startswith(f"one: {one.share:.1%} [") and text[-1].endswith(f"], p = {row.p_value:.3f}")
    bad, nothing = scored("bad", 0.9), SCORING.score("nothing", [""] * 120)
    assert retention([bad, nothing, *systems], SCORING, (5, 8), (16, 19)) == found, "a share of almost nothing"
    assert retention([bad], SCORING, (5, 8), (16, 19)) is None is retention([nothing], SCORING, (5, 8), (16, 19))


def test_short_and_long_sentences_are_resampled_separately() -> None:
    """Both ranges have the same scores, so that the same draws for both would leave every share at 1."""
    scoring = scoring_of(REFERENCES * 2, np.repeat([5, 15], len(REFERENCES)), (8,))
    found: Any = retention([scoring.score("one", spoilt(0.3, 1) * 2)], scoring, (5, 8), (9, 19))
    share = found.shares["one"]
    assert share.share == pytest.approx(1) and share.low < 0.99 and share.high > 1.01
    scoring = scoring_of(["a b c d e"] * 4, [5, 5, 15, 15], (8,))  # some resamples have no short BLEU
    found = retention([scoring.score("one", ["a b c d e", "x", *["a b c d e"] * 2])], scoring, (5, 8), (9, 19))
    assert np.isfinite(found.shares["one"].high)


def test_the_lengths_that_are_compared() -> None:
    lengths = np.repeat([5, 15, 25, 35], [3, 40, 30, 2])
    three, two, few = (
        scoring_of(["a b c d"] * len(each), each, edges)
        for each, edges in ((lengths, (10, 20, 30)), (lengths, (10, 30)), (lengths[:3], (10,)))
    )
    assert ranges(three) == ((11, 20), (21, 30)), "30 sentences and more"
    assert ranges(two) is None and ranges(few) is None and ranges(few, short=(1, 5)) is None
    assert ranges(scoring_of(["a"] * 43 + ["a b c d"] * 32, lengths, (10, 20, 30))) is None, "one bin has a BLEU"
    assert ranges(two, (1, 5), (31, 60)) == ((1, 5), (31, 60))
    assert ranges(three, short=(1, 5)) == ((1, 5), (21, 30))
    with pytest.raises(ConfigError, match="short 1-11 and long 11-20"):
        ranges(three, (1, 11), (11, 20))
