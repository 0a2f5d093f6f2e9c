"""Drawing tokens: every draw can be worked by hand, because the random numbers are arguments."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.errors import ConfigError
from nmt.search.greedy import Sampling, greedy_search, line_uniforms, sample_search, sample_step
from tests.test_corpus import problems_of
from tests.toy_model import BOS, EOS, PAD, ToyModel, emitted, limits

HALVES = torch.tensor([[0.0, 0.0, 0.125, 0.5, 0.25, 0.125]]).log()  # of ids 2 ... 5; most likely first: 3, 4, 2, 5


def draw(uniforms: list[float], sampling: Sampling) -> list[int]:
    log_probs = HALVES.expand(len(uniforms), -1)
    return sample_step(log_probs, torch.tensor(uniforms, dtype=torch.double), sampling, ()).tolist()


def test_top_p_by_hand() -> None:
    assert draw([0.999], Sampling(top_p=0.5)) == [3]
    assert draw([0.66, 0.67, 0.999], Sampling(top_p=0.51)) == [3, 4, 4]
    assert draw([0.999], Sampling(top_p=0.8)) == [2]  # of the two equal ones the lower id
    assert draw([0.999], Sampling(top_k=2, top_p=0.7)) == [4]  # 2/3 is too little
    assert draw([0.999], Sampling(top_p=1.0)) == [5]


@given(st.integers(0, 10_000), st.floats(0.2, 3.0), st.integers(1, 12), st.floats(0.01, 1.0))
@settings(max_examples=50)
def test_a_grid_of_uniforms_gives_the_probabilities(seed: int, temperature: float, top_k: int, top_p: float) -> None:
    logits = torch.randn(10, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    grid = (torch.arange(1000, dtype=torch.double) + 0.5) / 1000
    tokens = sample_step(logits.log_softmax(0).expand(1000, -1), grid, Sampling(temperature, top_k, top_p), (PAD, BOS))
    probabilities = {token: math.exp(logits[token] / temperature) for token in range(2, 10)}
    order = sorted(probabilities, key=probabilities.__getitem__, reverse=True)[:top_k]
    total = sum(probabilities[token] for token in order)
    kept: list[int] = []
    for token in order:
        if sum(probabilities[each] for each in kept) < top_p * total:
            kept.append(token)
    share = sum(probabilities[token] for token in kept)
    counts = torch.bincount(tokens, minlength=10).tolist()
    for token in range(10):
        expected = 1000 * probabilities[token] / share if token in kept else 0
        assert counts[token] == pytest.approx(expected, abs=1.01 if token in kept else 0)


def test_uniforms_depend_on_the_seed_and_the_line_alone() -> None:
    assert torch.equal(line_uniforms(1, 7, 5), line_uniforms(1, 7, 9)[:5])
    first = {line_uniforms(seed, line, 1).item() for seed in range(30) for line in range(1, 30)}
    assert len(first) == 30 * 29
    assert min(first) >= 0 and max(first) < 1


@given(st.integers(0, 1000))
@settings(max_examples=20)
def test_a_sample_does_not_depend_on_its_neighbors(seed: int) -> None:
    model, lengths, sampling = ToyModel(seed, 4, sharpness=0.5), [3, 9, 1, 6], Sampling(1.2, seed=seed)
    together = sample_search(model, model.start(4), limits(lengths), sampling, [11, 12, 13, 14], keep_attention=False)
    for sentence, length in enumerate(lengths):
        alone = model.start(4).select(torch.tensor([sentence]))
        assert sample_search(model, alone, limits([length]), sampling, [11 + sentence]) == [together[sentence]]
        (hypothesis,) = together[sentence]
        assert hypothesis.log_probability == pytest.approx(model.score(sentence, emitted(hypothesis)), abs=1e-5)
        uniforms, previous = line_uniforms(seed, 11 + sentence, length), BOS
        for t, token in enumerate(emitted(hypothesis)):
            log_probs = model.table[sentence, min(t, 7), previous].unsqueeze(0)
            assert sample_step(log_probs, uniforms[t : t + 1], sampling, (PAD, BOS)).item() == token
            previous = token
        assert not {PAD, BOS, EOS} & set(hypothesis.tokens)


@pytest.mark.parametrize("sampling", [Sampling(top_k=1), Sampling(1e-9), Sampling(1e-320)])
def test_the_likeliest_token_alone_is_greedy(sampling: Sampling) -> None:
    model = ToyModel(5, 6)
    greedy = greedy_search(model, model.start(6), limits([7] * 6), length_penalty=1.0)
    assert sample_search(model, model.start(6), limits([7] * 6), sampling, range(6), length_penalty=1.0) == greedy


def test_values_out_of_range_are_reported_together() -> None:
    assert problems_of(ConfigError, Sampling, 0.0, 0, 1.5, -1) == [
        "sampling temperature: 0.0 must be above 0",
        "top-k: 0 must be at least 1",
        "top-p: 1.5 must be above 0 and at most 1",
        "seed: -1 must be at least 0",
    ]
    with pytest.raises(ConfigError, match="temperature: nan"):
        Sampling(float("nan"))
