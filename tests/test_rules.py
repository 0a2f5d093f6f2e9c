"""Rules of a search against the plain statement of each, on models whose every probability is known."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.search import (
    Hypothesis,
    LeastLength,
    NoRepeatedNgram,
    Rule,
    Sampling,
    beam_search,
    greedy_search,
    length_penalty,
    obeying,
    sample_search,
)
from tests.toy_model import BOS, EOS, A, B, C, RememberingModel, ToyModel, emitted, limits


@dataclass(frozen=True)
class Plainly:
    """The rules, stated plainly."""

    n: int = 0
    least: int = 0

    def following(self, model: ToyModel, sentence: int, tokens: tuple[int, ...]) -> dict[int, float]:
        """The tokens that may follow, and their log-probabilities."""
        before = model.score(sentence, tokens) if tokens else 0.0
        own = {token: model.score(sentence, (*tokens, token)) - before for token in (EOS, A, B, C)}
        permitted = {}
        for token, log_prob in own.items():
            longer = (*tokens, token)
            ngrams = [longer[end - self.n : end] for end in range(self.n, len(longer) + 1)]
            repeats = self.n > 0 and len(longer) >= self.n and longer[len(longer) - self.n :] in ngrams[:-1]
            short = token == EOS and len(tokens) < self.least
            if not repeats and not short:
                permitted[token] = log_prob
        return permitted or {EOS: own[EOS]}

    def score(self, model: ToyModel, sentence: int, tokens: tuple[int, ...]) -> float:
        """The sum of the log-probabilities of tokens, each of which must be permitted."""
        return sum(self.following(model, sentence, tokens[:at])[token] for at, token in enumerate(tokens))

    def hypotheses(self, model: ToyModel, sentence: int, most: int) -> Iterator[tuple[int, ...]]:
        """All that may be emitted."""
        going: list[tuple[int, ...]] = [()]
        while going:
            longer = [(*each, token) for each in going for token in self.following(model, sentence, each)]
            yield from (each for each in longer if each[-1] == EOS or len(each) == most)
            going = [each for each in longer if each[-1] != EOS and len(each) < most]


RULES = st.builds(Plainly, st.integers(0, 3), st.integers(0, 4))


def rules_of(each: list[Plainly]) -> list[Rule]:
    """The rules of a batch: of its first sentence, but each with its own least length."""
    least = torch.tensor([plainly.least for plainly in each])
    rules: list[Rule] = [NoRepeatedNgram(each[0].n)] if each[0].n else []
    return [*rules, LeastLength(least, EOS)]


def ruled(model: ToyModel, lengths: list[int], each: list[Plainly]) -> tuple[Any, Any]:
    return obeying(model, model.start(len(lengths)), limits(lengths), rules_of(each))


def one_rule(rule: Rule, log_probs: list[float], history: list[int]) -> list[float]:
    found: Tensor = rule(torch.tensor([log_probs]), torch.tensor([history]), torch.tensor([0]))
    return found[0].tolist()


# --- each by hand -----------------------------------------------------------------------------------------------------


def test_rules_by_hand() -> None:
    inf = math.inf
    rule = NoRepeatedNgram(2)
    assert one_rule(rule, [-1.0] * 6, [BOS, A, B, A]) == [-1, -1, -1, -1, -inf, -1]
    assert one_rule(rule, [-1.0] * 6, [BOS, A, A]) == [-1, -1, -1, -inf, -1, -1]  # n-grams may overlap
    assert one_rule(rule, [-1.0] * 6, [BOS, A, B, A, C, A]) == [-1, -1, -1, -1, -inf, -inf]
    assert one_rule(rule, [-1.0] * 6, [BOS]) == [-1] * 6
    assert one_rule(NoRepeatedNgram(1), [-1.0] * 6, [BOS, A]) == [-1, -inf, -1, -inf, -1, -1]
    assert one_rule(NoRepeatedNgram(3), [-1.0] * 6, [BOS, A, B, C, A, B]) == [-1, -1, -1, -1, -1, -inf]
    least = LeastLength(torch.tensor([2]), EOS)
    assert one_rule(least, [-1.0] * 4, [BOS, A])[EOS] == -inf
    assert one_rule(least, [-1.0] * 4, [BOS, A, B]) == [-1.0] * 4


# --- together, by brute force -----------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), RULES, RULES, st.sampled_from([0.0, 1.0]))
@settings(max_examples=25, deadline=None)
def test_a_full_width_beam_finds_all_that_the_rules_permit(
    seed: int, first: Plainly, second: Plainly, alpha: float
) -> None:
    model, lengths = RememberingModel(seed, 2, sharpness=1.0), [4, 4]
    each = [first, Plainly(first.n, second.least)]
    wanted = [{*plainly.hypotheses(model, sentence, 4)} for sentence, plainly in enumerate(each)]
    width = max(map(len, wanted))
    found = beam_search(
        *ruled(model, lengths, each), limits(lengths), beam_size=width, length_penalty=alpha, n_best=width
    )
    for sentence, hypotheses in enumerate(found):
        assert {emitted(hypothesis) for hypothesis in hypotheses} == wanted[sentence]
        for hypothesis in hypotheses:
            score = each[sentence].score(model, sentence, emitted(hypothesis))
            assert hypothesis.log_probability == pytest.approx(score, abs=1e-4)
            assert hypothesis.score == pytest.approx(score / length_penalty(len(emitted(hypothesis)), alpha), abs=1e-4)


@given(st.integers(0, 10_000), st.lists(RULES, min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_greedy_search_and_sampling_obey_the_same_rules(seed: int, each: list[Plainly]) -> None:
    each = [Plainly(each[0].n, plainly.least) for plainly in each]
    lengths = [3 + (seed + sentence) % 9 for sentence in range(len(each))]
    model = RememberingModel(seed, len(each), sharpness=1.0)
    greedy = greedy_search(*ruled(model, lengths, each), limits(lengths), keep_attention=True)
    sampled = sample_search(*ruled(model, lengths, each), limits(lengths), Sampling(seed=seed), range(len(each)))
    beam = beam_search(*ruled(model, lengths, each), limits(lengths), beam_size=1, length_penalty=0.0)
    assert [hypothesis.tokens for (hypothesis,) in beam] == [hypothesis.tokens for (hypothesis,) in greedy]
    for sentence, plainly in enumerate(each):
        tokens: tuple[int, ...] = ()
        while len(tokens) < lengths[sentence] and EOS not in tokens:
            following = plainly.following(model, sentence, tokens)
            tokens += (max(following, key=following.__getitem__),)
        assert emitted(greedy[sentence][0]) == tokens
        attention = greedy[sentence][0].attention
        assert attention is not None and attention[:, 0].tolist() == [sentence] * len(tokens)
        for (hypothesis,) in (greedy[sentence], sampled[sentence]):
            score = plainly.score(model, sentence, emitted(hypothesis))
            assert hypothesis.log_probability == pytest.approx(score, abs=1e-4)


@given(st.integers(0, 10_000), st.lists(RULES, min_size=2, max_size=4), st.integers(1, 4))
@settings(max_examples=15, deadline=None)
def test_rules_of_one_sentence_are_no_matter_of_another(seed: int, each: list[Plainly], width: int) -> None:
    each = [Plainly(each[0].n, plainly.least) for plainly in each]
    lengths = [4 + (seed + 3 * sentence) % 7 for sentence in range(len(each))]
    model = RememberingModel(seed, len(each), sharpness=1.0)

    def search(places: list[int]) -> list[list[Hypothesis]]:
        some, state = [lengths[place] for place in places], model.start(len(each)).select(torch.tensor(places))
        started = obeying(model, state, limits(some), rules_of([each[place] for place in places]))
        return beam_search(*started, limits(some), beam_size=width, length_penalty=1.0, n_best=width)

    assert search([*range(len(each))]) == [hypotheses for place in range(len(each)) for hypotheses in search([place])]


def test_without_rules_the_model_is_searched_itself() -> None:
    model = ToyModel(1, 2)
    state = model.start(2)
    found, start = obeying(model, state, limits([3, 3]), [])
    assert found is model and start is state
