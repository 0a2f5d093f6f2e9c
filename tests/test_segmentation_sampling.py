"""BPE-dropout: its distribution, and that a segmentation is a function of the text and the seed."""

import math
from collections import Counter
from typing import Any, cast

import pytest

from nmt.config.schema import LearnedTokenizer
from nmt.data.corpus import Pair
from nmt.data.learning import learn
from nmt.data.tokenizer import BpeDropout, Tokenizer
from tests.small_translator import LINES

SAMPLES = 2000
UNUSUAL = ["", " ", "o☃k", "é  ﬁg☃☃ elm", "fir" * 40]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn(LearnedTokenizer(type="bpe", vocabulary=60), [Pair(line, line) for line in LINES]).source


def test_a_sample_is_a_segmentation_of_the_text_and_without_dropout_the_best(tokenizer: Tokenizer) -> None:
    texts = LINES + UNUSUAL
    best = tokenizer.encode(texts)
    assert [BpeDropout(tokenizer, 0.0).sample(text, 1) for text in texts] == best
    samples = [BpeDropout(tokenizer, 0.2).sample(text, seed) for seed, text in enumerate(texts)]
    assert samples != best
    assert list(map(tokenizer.decode, samples)) == list(map(tokenizer.decode, best))


def test_a_sample_is_a_function_of_the_seed_whatever_was_sampled_before(tokenizer: Tokenizer) -> None:
    text = " ".join(LINES[:3])
    segmentation, other = (BpeDropout(tokenizer, 0.2) for _ in range(2))
    found = [segmentation.sample(text, seed) for seed in range(20)]
    assert len(set(map(tuple, found))) > 5
    assert [other.sample(text, seed) for seed in range(19, -1, -1)] == found[::-1]


def frequent(found: Counter[Any], expected: dict[Any, float]) -> None:
    """Require frequencies within four standard deviations of their probabilities."""
    samples = found.total()
    assert found.keys() <= expected.keys()
    for each, probability in expected.items():
        deviation = math.sqrt(probability * (1 - probability) / samples)
        assert found[each] / samples == pytest.approx(probability, abs=4 * deviation)


def test_bpe_dropout_by_hand() -> None:
    """The text "ab" has two merges, one after the other. The first is left out with probability p = 0.3, and then the
    second cannot be made; the second only with (1 - p) p (Provilkov et al. 2020, algorithm 1)."""
    tokenizer = learn(LearnedTokenizer(type="bpe", vocabulary=9), [Pair("ab ab ab", "ab")] * 20).source
    segmentation = BpeDropout(tokenizer, 0.3)
    found = Counter(len(segmentation.sample("ab", seed)) for seed in range(SAMPLES))
    frequent(found, {3: 0.3, 2: 0.7 * 0.3, 1: 0.7 * 0.7})
    characters = BpeDropout(tokenizer, 1.0)
    assert {len(characters.sample("ab", seed)) for seed in range(50)} == {3}


def test_a_merge_that_was_left_out_may_be_made_in_the_next_round() -> None:
    """Of the merges of "▁abc", ▁a comes first: it is made in the first round with probability 1 - p, and if it was left
    out and bc was made, in the second."""

    class Pieces:
        unk_id = 9
        normalized = staticmethod("▁{}".format)
        piece_id = staticmethod(["▁a", "bc", "▁", "a", "b", "c"].index)

        def scores(self) -> dict[str, float]:
            return {"▁a": -1.0, "bc": -2.0, "▁": -9.0, "a": -9.0, "b": -9.0, "c": -9.0}

    p = 0.3
    segmentation = BpeDropout(cast(Tokenizer, Pieces()), p)
    found = Counter(segmentation.sample("abc", seed)[0] == 0 for seed in range(SAMPLES))
    made = (1 - p) + p * (1 - p) * (1 - p)
    frequent(found, {True: made, False: 1 - made})
