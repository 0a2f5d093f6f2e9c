"""Rules of a search against the plain statement of each, on models whose every probability is known."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.search import Hypothesis, Ruled, Sampling, beam_search, greedy_search, sample_search
from tests.toy_model import EOS, A, B, C, RememberingModel, ToyModel, emitted, limits


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
            if not repeats and not (token == EOS and len(tokens) < self.least):
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


def ruled(model: ToyModel, lengths: list[int], each: list[Plainly]) -> Ruled:
    """A model with the n of the first sentence, and each with its own least length."""
    return Ruled(model, limits(lengths), each[0].n, torch.tensor([plainly.least for plainly in each]))


@given(st.integers(0, 10_000), RULES, RULES, st.sampled_from([0.0, 1.0]))
@settings(max_examples=25)
def test_a_full_width_beam_finds_all_permitted(seed: int, first: Plainly, second: Plainly, alpha: float) -> None:
    model, lengths = RememberingModel(seed, 2, sharpness=1.0), [4, 4]
    each = [first, Plainly(first.n, second.least)]
    wanted = [{*plainly.hypotheses(model, sentence, 4)} for sentence, plainly in enumerate(each)]
    width, obeying = max(map(len, wanted)), ruled(model, lengths, each)
    start, most = obeying.start(2), limits(lengths)
    found = beam_search(obeying, start, most, beam_size=width, length_penalty=alpha, n_best=width)
    for sentence, hypotheses in enumerate(found):
        assert {emitted(hypothesis) for hypothesis in hypotheses} == wanted[sentence]
        for hypothesis in hypotheses:
            score = each[sentence].score(model, sentence, emitted(hypothesis))
            assert hypothesis.log_probability == pytest.approx(score, abs=1e-4)


@given(st.integers(0, 10_000), st.lists(RULES, min_size=2, max_size=4))
@settings(max_examples=25)
def test_every_search_obeys_and_no_sentence_minds_its_neighbors(seed: int, each: list[Plainly]) -> None:
    each = [Plainly(each[0].n, plainly.least) for plainly in each]
    lengths = [3 + (seed + sentence) % 9 for sentence in range(len(each))]
    model = RememberingModel(seed, len(each), sharpness=1.0)

    def searched(only: list[int]) -> tuple[list[list[Hypothesis]], list[list[Hypothesis]]]:
        some = RememberingModel(seed, len(each), sharpness=1.0)
        some.table = some.table[only]
        obeying = ruled(some, [lengths[one] for one in only], [each[one] for one in only])
        where = limits([lengths[one] for one in only])
        greedy = greedy_search(obeying, obeying.start(len(only)), where)
        return greedy, sample_search(obeying, obeying.start(len(only)), where, Sampling(seed=seed), only)

    together = searched([*range(len(each))])
    for sentence, plainly in enumerate(each):
        for all_of_them, (alone,) in zip(together, searched([sentence]), strict=True):
            (hypothesis,) = all_of_them[sentence]
            assert hypothesis == alone[0]
            score = plainly.score(model, sentence, emitted(hypothesis))
            assert hypothesis.log_probability == pytest.approx(score, abs=1e-4)
        tokens: tuple[int, ...] = ()
        while len(tokens) < lengths[sentence] and EOS not in tokens:
            following = plainly.following(model, sentence, tokens)
            tokens += (max(following, key=following.__getitem__),)
        assert emitted(together[0][sentence][0]) == tokens
