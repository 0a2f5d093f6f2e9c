"""Sampled segmentations: their distribution, and that each is a function of the text and the seed."""

import io
import math
import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sentencepiece

from nmt.config.schema import LearnedTokenizer
from nmt.data.corpus import Pair
from nmt.data.learning import learn
from nmt.data.segmentation import MergeDropout, SubwordRegularization, sampled_segmentation
from nmt.data.tokenizer import Tokenizer
from tests.small_translator import LINES, WORDS

SAMPLES = 2000


MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bytes": {"byte_fallback": True, "vocab_size": 60 + 256},
    "pieces of several words": {"split_by_whitespace": False},
    "marks after words": {"treat_whitespace_as_suffix": True},
    "symbols": {"user_defined_symbols": ["<x>", "oak"]},
}
UNUSUAL = ["", " ", "o☃k", "é  ﬁg☃☃ elm", "ash<x>oakoak <x> elm", "fir" * 40]


def model(kind: str, **chosen: Any) -> Tokenizer:
    written = io.BytesIO()
    special = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=written,
        model_type=kind,
        **({"vocab_size": 60, "minloglevel": 2} | special | chosen),
    )
    return Tokenizer(written.getvalue())


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return model(request.param)


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_sample_is_a_segmentation_of_the_text_and_in_the_limit_the_best(kind: str, options: dict[str, Any]) -> None:
    tokenizer = model(kind, **options)
    texts = LINES + UNUSUAL
    best = tokenizer.encode(texts)
    limit = MergeDropout(tokenizer, 0.0) if kind == "bpe" else SubwordRegularization(tokenizer, 1e4)
    assert [limit.sample(text, 1) for text in texts] == best
    segmentation = sampled_segmentation(tokenizer, 0.2)
    samples = [segmentation.sample(text, seed) for seed, text in enumerate(texts)]
    assert samples != best
    assert list(map(tokenizer.decode, samples)) == list(map(tokenizer.decode, best))


def test_a_sample_is_a_function_of_the_seed_whatever_was_sampled_before(tokenizer: Tokenizer) -> None:
    text = " ".join(LINES[:3])
    segmentation, other = (sampled_segmentation(tokenizer, 0.2) for _ in range(2))
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
    segmentation = MergeDropout(tokenizer, 0.3)
    found = Counter(len(segmentation.sample("ab", seed)) for seed in range(SAMPLES))
    frequent(found, {3: 0.3, 2: 0.7 * 0.3, 1: 0.7 * 0.7})
    characters = MergeDropout(tokenizer, 1.0)
    assert {len(characters.sample("ab", seed)) for seed in range(50)} == {3}


def test_merges_come_back_beside_a_new_neighbor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a plain queue of merges: the score of a gap is forgotten when its merge is left out."""
    monkeypatch.setattr("nmt.data.segmentation.MERGES", 3)
    segmentation, word = MergeDropout(model("bpe"), 0.4), "badge" * 2
    generator = random.Random(1)

    def plain() -> int:
        symbols, out = list(f"▁{word}"), [False] * len(word)
        while True:
            scores = [segmentation.scores.get(a + b, -math.inf) for a, b in pairwise(symbols)]
            score, place = max(((s, -i) for i, s in enumerate(scores) if not out[i]), default=(-math.inf, 0))
            if score == -math.inf:
                return len(symbols)
            place = -place
            if generator.random() < 0.4:
                out[place] = True
                continue
            symbols[place : place + 2] = ["".join(symbols[place : place + 2])]
            del out[place]
            out[max(0, place - 1) : place + 1] = [False] * len(out[max(0, place - 1) : place + 1])

    expected = np.array([plain() for _ in range(SAMPLES)])
    found = np.array([len(segmentation.sample(word, seed)) for seed in range(SAMPLES)])
    spread = math.sqrt((expected.var() + found.var()) / SAMPLES)
    assert found.mean() == pytest.approx(expected.mean(), abs=4 * spread)
    assert found.std() == pytest.approx(expected.std(), rel=0.1)


def segmentations(text: str, scores: dict[str, float]) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every way to cut a text into pieces, with the logarithm of its probability."""
    if not text:
        yield (), 0.0
    for end in range(1, len(text) + 1):
        if (piece := text[:end]) in scores:
            for rest, score in segmentations(text[end:], scores):
                yield (piece, *rest), scores[piece] + score


@pytest.mark.parametrize("alpha", [0.2, 0.7])
def test_subword_regularization_against_every_segmentation(alpha: float) -> None:
    """P(x) is proportional to p(x)^alpha (Kudo 2018, section 3.2)."""
    tokenizer = model("unigram")
    scores = {piece.piece: piece.score for piece in tokenizer.proto.pieces[4:]}
    word = next(word for word in WORDS if len(list(segmentations(f"▁{word}", scores))) > 5)
    every = list(segmentations(f"▁{word}", scores))
    weights = np.array([math.exp(alpha * score) for _, score in every])
    segmentation = sampled_segmentation(tokenizer, alpha)
    found = Counter(tuple(tokenizer.pieces(segmentation.sample(word, seed))) for seed in range(SAMPLES))
    frequent(found, dict(zip((pieces for pieces, _ in every), weights / weights.sum(), strict=True)))
