"""The paired bootstrap, by hand and by what must hold of it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from nmt.evaluation.by_length import score_system
from nmt.evaluation.metrics import Integers, sentence_statistics
from nmt.evaluation.significance import Comparison, compare, compare_by_length, format_comparisons, p_value

RANDOM = np.random.default_rng(1)
REFERENCES = [" ".join(RANDOM.choice(list("abcdefgh"), size=RANDOM.integers(5, 20))) for _ in range(120)]


def spoilt(share: float, seed: int) -> list[str]:
    """The references with so many of their words replaced."""
    random = np.random.default_rng(seed)
    return [" ".join(word if random.random() > share else "z" for word in line.split()) for line in REFERENCES]


def statistics(share: float, seed: int) -> Integers:
    return sentence_statistics(spoilt(share, seed), REFERENCES, "13a")[None]


def test_the_p_value_by_hand() -> None:
    # around their mean of 2: -2, -1, 0, 1, 2; two of five lie as far as 2, four as far as 1
    resampled = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    assert p_value(2.0, resampled) == p_value(-2.0, resampled) == pytest.approx((2 + 1) / 6)
    assert p_value(1.0, resampled) == pytest.approx(5 / 6)
    assert p_value(2.5, resampled) == pytest.approx(1 / 6)


def test_a_system_does_not_differ_from_itself() -> None:
    assert compare(statistics(0.3, 1), statistics(0.3, 1), 200, 1) == (0.0, 1.0)


def test_large_differences_are_seen_and_small_ones_are_not() -> None:
    good, alike, bad = statistics(0.2, 1), statistics(0.2, 2), statistics(0.4, 3)
    difference, p = compare(good, bad, 500, 1)
    assert difference > 5 and p is not None and p < 0.01
    assert compare(bad, good, 500, 1) == (-difference, p)
    _, p = compare(good, alike, 500, 1)
    assert p is not None and p > 0.05


def test_systems_are_compared_on_the_same_resamples() -> None:
    """A small difference in every sentence is seen although the sentences differ by far more."""
    system = [line if number % 2 else "z " * len(line.split()) for number, line in enumerate(REFERENCES)]
    other = [f"{line} z" for line in system]
    one, another = (sentence_statistics(lines, REFERENCES, "13a")[None] for lines in (system, other))
    difference, p = compare(one, another, 200, 1)
    assert difference > 0 and p is not None and p < 0.01


def test_sacrebleu_agrees() -> None:
    systems: list[tuple[str, Sequence[str]]] = [("one", spoilt(0.25, 1)), ("two", spoilt(0.28, 5))]
    test = PairedTest(systems, {"BLEU": BLEU(references=[REFERENCES])}, None, test_type="bs", n_samples=2000)
    theirs: Any = test()[1]["BLEU"][1]
    _, ours = compare(statistics(0.25, 1), statistics(0.28, 5), 2000, 1)
    assert ours == pytest.approx(theirs.p_value, abs=0.04)


def test_no_difference_is_called_one_as_often_as_said() -> None:
    """Of many pairs of alike systems about a twentieth have p < 0.05."""
    found = [compare(statistics(0.3, 100 + 2 * k), statistics(0.3, 101 + 2 * k), 100, k)[1] or 0 for k in range(60)]
    assert sum(p < 0.05 for p in found) <= 9  # beyond three standard deviations


def compared(
    systems: dict[str, list[list[str]]], lengths: list[int], references: list[str], bins: tuple[int, ...]
) -> list[Comparison]:
    scored = [
        score_system(
            name, np.array(lengths), first, references, tokenizer="13a", bins=bins, resamples=50, others=others
        )
        for name, (first, *others) in systems.items()
    ]
    return compare_by_length(scored, np.array(lengths), bins=bins, resamples=50)


def test_every_two_systems_in_every_bin() -> None:
    references, same = ["a b c d e"] * 5, ["a b c d e"] * 5
    systems = {"x": [same], "y": [["a b c d f"] * 2 + same[:3]], "z": [same, same]}
    rows = compared(systems, [3, 5, 12, 15, 30], references, bins=(10, 20))
    assert [(row.system, row.other, row.low, row.high, row.n) for row in rows] == [
        (one, other, *bounds)
        for one, other in (("x", "y"), ("x", "z"), ("y", "z"))
        for bounds in ((1, 10, 2), (11, 20, 2), (21, 30, 1))
    ]
    expected = 100 - sacrebleu.corpus_bleu(["a b c d f"] * 2, [references[:2]]).score
    assert rows[0].difference == pytest.approx(expected) and rows[1].difference == 0 == rows[4].difference
    assert format_comparisons(rows[:1]) == f"x - y  1-10: {expected:+.2f} BLEU, too few for a p-value"
    assert {row.p_value for row in rows} == {None}, "two sentences prove nothing"
    [row] = compared({"x": [same * 2], "y": [same * 2]}, [1] * 10, references * 2, bins=(10,))
    assert row.p_value == 1 and format_comparisons([row]) == "x - y  1-10: +0.00 BLEU, p = 1.000"


def test_of_several_trainings_the_mean_counts() -> None:
    one, two, three = statistics(0.2, 1), statistics(0.3, 2), statistics(0.25, 3)
    both, _ = compare(np.concatenate((one, two)), three, 100, 1)
    assert both == pytest.approx((compare(one, three, 100, 1)[0] + compare(two, three, 100, 1)[0]) / 2)
    assert compare(np.concatenate((one, one)), three, 100, 1) == pytest.approx(compare(one, three, 100, 1))
