"""Each measure by hand."""

import numpy as np
import pytest

from nmt.evaluation import diagnosis
from nmt.evaluation.by_length import bins_by_length


def test_entropy_by_hand() -> None:
    assert diagnosis.entropy(np.array([[0.0, 1.0, 0.0]])) == 0
    assert diagnosis.entropy(np.full((2, 4), 0.25)) == pytest.approx(2)
    assert diagnosis.entropy(np.array([[0.5, 0.5], [1.0, 0.0]])) == pytest.approx(0.5)


def test_distance_from_the_diagonal_by_hand() -> None:
    assert diagnosis.distance_from_diagonal(np.eye(4)) == pytest.approx(0)
    # twice as many pieces
    assert diagnosis.distance_from_diagonal(np.repeat(np.eye(3), 2, axis=0)) == pytest.approx(1 / 12)
    # backwards: at 1/4 it looks at 3/4, at 3/4 at 1/4
    assert diagnosis.distance_from_diagonal(np.eye(2)[::-1]) == pytest.approx(0.5)
    assert diagnosis.distance_from_diagonal(np.full((2, 2), 0.5)) == pytest.approx(0.25)


def test_thirds_by_hand() -> None:
    assert diagnosis.by_third([1, 2, 3, 4, 5, 6]).tolist() == [1.5, 3.5, 5.5]
    assert diagnosis.by_third([1, 2, 3, 4]).tolist() == [1, 2.5, 4]  # 1/8 | 3/8 5/8 | 7/8
    np.testing.assert_equal(diagnosis.by_third([7]), [np.nan, 7, np.nan])
    np.testing.assert_equal(diagnosis.by_third([]), [np.nan] * 3)


def test_recall_by_hand() -> None:
    reference = "The cat saw a dog and the dog saw birds."  # ten words: 3, 4 and 3
    function_words = frozenset({"the", "a", "and"})
    hypothesis = "a Cat, saw the dog"
    # cat saw | dog | dog saw birds: of the reference's two dogs one is found, of the two "saw" too, half of each
    np.testing.assert_allclose(diagnosis.recall_by_third(hypothesis, reference, function_words), [0.75, 0.5, 1 / 3])
    np.testing.assert_allclose(diagnosis.recall_by_third("birds dog dog", reference, function_words), [0, 1, 2 / 3])
    np.testing.assert_equal(diagnosis.recall_by_third("x", "the a and", function_words), [np.nan] * 3)
    np.testing.assert_equal(diagnosis.recall_by_third("", "one two three"), [0, 0, 0])


def test_the_commonest_words_are_the_function_words() -> None:
    assert diagnosis.most_frequent(["the cat", "The dog.", "the end, a dog"], 2) == {"the", "dog"}
    assert diagnosis.most_frequent(["« l'un — l’autre ? »", "? - !"]) == {"l", "un", "autre"}


def test_failures_by_hand() -> None:
    reference = "a b c d e f g h"
    assert diagnosis.failure(reference, reference) == diagnosis.Failure(False, False, False)
    assert diagnosis.failure("a b c", reference) == diagnosis.Failure(True, False, False)
    assert diagnosis.failure("a b c d", reference) == diagnosis.Failure(False, False, False)
    assert diagnosis.failure(" ".join("abcdefghijklm"), reference) == diagnosis.Failure(False, True, False)
    assert diagnosis.failure("x y z w " * 3, reference) == diagnosis.Failure(False, False, True)
    assert diagnosis.failure("x y z w " * 3, "x y z w " * 3) == diagnosis.Failure(False, False, False)
    assert diagnosis.failure("", "a") == diagnosis.Failure(True, False, False)
    assert diagnosis.failure("", "") == diagnosis.failure("a b", "") == diagnosis.Failure(False, False, False)


def test_means_pass_over_what_is_not_there_and_count_a_sentence_as_often_as_it_is_drawn() -> None:
    values = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan]])
    weights = [np.array(each) for each in ((1, 1), (3, 1), (2, 0))]
    found = diagnosis.weighted_means(values, weights)
    np.testing.assert_equal(found, [[2, 5, np.nan], [1.5, 5, np.nan], [1, np.nan, np.nan]])


def test_a_sentence_has_every_measure_in_its_place() -> None:
    measured = diagnosis.sentence_measures(np.array([-1.0, -2.0, -3.0]), np.eye(3), "a b x", "a b c", frozenset())
    expected = {
        "recall_early": 1,
        "recall_middle": 1,
        "recall_late": 0,
        "log_probability_early": -1,
        "log_probability_middle": -2,
        "log_probability_late": -3,
        "entropy": 0,
        "distance_from_diagonal": 0,
        "stops_early": 0,
        "runs_on": 0,
        "repeats": 0,
    }
    assert dict(zip(diagnosis.MEASURES, measured.tolist(), strict=True)) == expected
    without = diagnosis.sentence_measures(np.array([-1.0]), None, "a", "a", frozenset())
    assert {name for name, value in zip(diagnosis.MEASURES, without, strict=True) if np.isnan(value)} == {
        *("recall_early", "recall_late", "log_probability_early", "log_probability_late"),  # one word has one third
        *("entropy", "distance_from_diagonal"),
    }


def test_a_diagnosis_is_the_mean_of_each_bin_and_of_the_trainings() -> None:
    bins = bins_by_length(np.array([1, 2, 3, 5, 6, 7]), [4])
    count = len(diagnosis.MEASURES)
    one = np.arange(6 * count, dtype=np.float64).reshape(6, -1)
    one[:, diagnosis.MEASURES.index("entropy")] = np.nan
    found = diagnosis.diagnose("a", bins, [one, one + 2], 50)
    assert [(row["low"], row["high"], row["n"]) for row in found.rows()] == [(1, 4, 3), (5, 7, 3)]
    assert [row["recall_early"] for row in found.rows()] == [count + 1, count * 4 + 1]
    assert [row["entropy"] for row in found.rows()] == [None, None]
    inside = ~np.isnan(found.means)
    assert (found.lows[inside] < found.means[inside]).all()
    assert (found.means[inside] < found.highs[inside]).all()
    lines = diagnosis.format_diagnoses([found], "words").splitlines()
    assert lines[0].split()[:4] == ["system", "source", "words", "sentences"]
    assert lines[2].split()[:4] == ["a", "5-7", "3", "45.000/46.000/47.000"]


def test_an_interval_of_few_values_is_one() -> None:
    values = np.full((2, len(diagnosis.MEASURES)), np.nan)
    values[0] = 1.0  # the other sentence has none: every fourth resample has no value at all
    values[:, diagnosis.MEASURES.index("entropy")] = np.nan
    found = diagnosis.diagnose("a", bins_by_length(np.array([1, 2]), [4]), [values], 100)
    for ends in (found.lows, found.highs):
        assert [name for name, end in zip(diagnosis.MEASURES, ends[0], strict=True) if end != 1] == ["entropy"]
