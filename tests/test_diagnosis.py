"""Each measure by hand."""

import math

import numpy as np
import pytest

from nmt.evaluation.diagnosis import (
    Failure,
    by_third,
    distance_from_diagonal,
    entropy,
    failure,
    mean_by,
    most_frequent,
    recall_by_third,
)


def test_entropy_by_hand() -> None:
    assert entropy(np.array([[0.0, 1.0, 0.0]])) == 0
    assert entropy(np.full((2, 4), 0.25)) == pytest.approx(math.log(4))
    assert entropy(np.array([[0.5, 0.5], [1.0, 0.0]])) == pytest.approx(math.log(2) / 2)


def test_distance_from_the_diagonal_by_hand() -> None:
    assert distance_from_diagonal(np.eye(4)) == pytest.approx(0)
    assert distance_from_diagonal(np.repeat(np.eye(3), 2, axis=0)) == pytest.approx(1 / 12)  # twice as many pieces
    # backwards: at 1/4 it looks at 3/4, at 3/4 at 1/4
    assert distance_from_diagonal(np.eye(2)[::-1]) == pytest.approx(0.5)
    assert distance_from_diagonal(np.full((2, 2), 0.5)) == pytest.approx(0.25)


def test_thirds_by_hand() -> None:
    assert by_third([1, 2, 3, 4, 5, 6]).tolist() == [1.5, 3.5, 5.5]
    assert by_third([1, 2, 3, 4]).tolist() == [1, 2.5, 4]  # 1/8 | 3/8 5/8 | 7/8
    np.testing.assert_equal(by_third([7]), [np.nan, 7, np.nan])
    np.testing.assert_equal(by_third([]), [np.nan] * 3)


def test_recall_by_hand() -> None:
    reference = "The cat saw a dog and the dog saw birds."  # ten words: 3, 4 and 3
    function_words = frozenset({"the", "a", "and"})
    hypothesis = "a Cat, saw the dog"
    # cat and saw | dog (found) and dog of the ninth place... of which there is only one | saw, birds
    np.testing.assert_equal(recall_by_third(hypothesis, reference, function_words), [1, 1, 0])
    np.testing.assert_equal(recall_by_third("birds dog dog", reference, function_words), [0, 1, 2 / 3])
    np.testing.assert_equal(recall_by_third("x", "the a and", function_words), [np.nan] * 3)
    np.testing.assert_equal(recall_by_third("", "one two three"), [0, 0, 0])


def test_the_commonest_words_are_the_function_words() -> None:
    assert most_frequent(["the cat", "The dog.", "the end, a dog"], 2) == {"the", "dog"}


def test_failures_by_hand() -> None:
    reference = "a b c d e f g h"
    assert failure(reference, reference) == Failure(False, False, False)
    assert failure("a b c", reference) == Failure(True, False, False)
    assert failure("a b c d", reference) == Failure(False, False, False)
    assert failure(" ".join("abcdefghijklm"), reference) == Failure(False, True, False)
    assert failure("x y z w " * 3, reference) == Failure(False, False, True)
    assert failure("x y z w " * 3, "x y z w " * 3) == Failure(False, False, False)
    assert failure("", "") == Failure(True, False, False)


def test_means_of_groups_pass_over_what_is_not_there() -> None:
    values = np.array([[1.0, np.nan], [3.0, 5.0], [np.nan, np.nan]])
    groups = [np.array([0, 1]), np.array([2]), np.array([0])]
    np.testing.assert_equal(mean_by(groups, values), [[2, 5], [np.nan, np.nan], [1, np.nan]])
    np.testing.assert_equal(mean_by(groups, values[:, 0]), [2, np.nan, 1])
