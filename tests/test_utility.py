"""Utilities of pairs of sentences: those of sacreBLEU, and a choice that can be worked by hand."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.evaluation import utility
from nmt.evaluation.metrics import Floats
from nmt.evaluation.utility import SentenceBleu, clipped_matches, expected_utility, sentence_chrf

TEXTS = [
    "the old cat sleeps .",
    "the old cat sleeps .",
    "The old cat, it sleeps!",
    "the the the the",
    "a dog",
    "x",
    "",
    "   ",
    "the old cat sleeps . the old cat sleeps .",
    "日本語の文 です。",
]
words = st.lists(st.sampled_from(["a", "b", "ab", "the", "cat", ",", "日", "."]), max_size=9).map(" ".join)


def scores(metric: BLEU | CHRF, texts: list[str]) -> Floats:
    """Every pair by sacreBLEU."""
    return np.array([[metric.sentence_score(one, [other]).score for other in texts] for one in texts])


@given(st.lists(words, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_chrf_is_that_of_sacrebleu(texts: list[str]) -> None:
    np.testing.assert_allclose(sentence_chrf(texts), scores(CHRF(), texts), atol=1e-9)


@given(st.lists(words, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_bleu_is_that_of_sacrebleu(texts: list[str]) -> None:
    metric = BLEU(effective_order=True)
    np.testing.assert_allclose(SentenceBleu()(texts), scores(metric, texts), atol=1e-9)


def test_both_on_sentences() -> None:
    np.testing.assert_allclose(sentence_chrf(TEXTS), scores(CHRF(), TEXTS), atol=1e-9)
    for tokenizer in ("13a", "zh", "char", "none"):
        metric = BLEU(tokenize=tokenizer, effective_order=True)
        np.testing.assert_allclose(SentenceBleu(tokenizer)(TEXTS), scores(metric, TEXTS), atol=1e-9)


def test_the_memory_of_many_ngrams_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = sentence_chrf(TEXTS)
    monkeypatch.setattr(utility, "BLOCK", 7)
    np.testing.assert_array_equal(sentence_chrf(TEXTS), expected)


def test_matches_are_clipped() -> None:
    """aab and abb share one a and one b."""
    assert clipped_matches(["aab", "abb", "", "cc"]).tolist() == [
        [3, 2, 0, 0],
        [2, 3, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 2],
    ]


def by_hand(texts: Sequence[str]) -> Floats:
    """A utility for texts a, b, c: u(a, b) = 0.5, u(b, a) = 0.25, and 1 of a text and itself; else 0."""
    table = {("a", "b"): 0.5, ("b", "a"): 0.25}
    return np.array([[1.0 if one == other else table.get((one, other), 0.0) for other in texts] for one in texts])


def test_expected_utility_by_hand() -> None:
    assert expected_utility(["a", "b", "c"], by_hand).tolist() == [0.25, 0.125, 0.0]  # each against two others
    # Twice b: a has (0.5 + 0.5) / 2, each b has (0.25 + 1) / 2.
    assert expected_utility(["b", "a", "b"], by_hand).tolist() == [0.625, 0.5, 0.625]
    # Twice c: a has 0.5 / 3, b has 0.25 / 3, each c has 1 / 3.
    assert expected_utility(["a", "b", "c", "c"], by_hand).argmax() == 2
    assert expected_utility(["a"], by_hand).tolist() == [0.0]


@given(st.lists(st.sampled_from(TEXTS), min_size=2, max_size=8))
@settings(max_examples=40, deadline=None)
def test_equal_samples_are_compared_once_and_count_as_often_as_they_come(samples: list[str]) -> None:
    calls: list[list[str]] = []

    def counted(texts: Sequence[str]) -> Floats:
        calls.append(list(texts))
        return sentence_chrf(texts)

    found = expected_utility(samples, counted)
    assert calls == [list(Counter(samples))]
    every = sentence_chrf(samples)
    np.fill_diagonal(every, 0.0)
    np.testing.assert_allclose(found, every.sum(1) / (len(samples) - 1), atol=1e-6)
    for text in set(samples):
        assert len({value for sample, value in zip(samples, found, strict=True) if sample == text}) == 1


def test_rounding_does_not_decide_between_equal_ones() -> None:
    """Every row has the same three values in another order, and so another sum in floating point."""
    rows = [[0.0, 0.1, 0.2, 0.3], [0.3, 0.0, 0.2, 0.1], [0.2, 0.3, 0.0, 0.1], [0.1, 0.3, 0.2, 0.0]]
    assert len({sum(row) for row in rows}) > 1
    assert len(set(expected_utility(list("abcd"), lambda texts: np.array(rows)).tolist())) == 1
