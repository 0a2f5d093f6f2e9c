"""Rules of a search against the plain statement of each, on models whose every probability is known."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.search.beam import beam_search
from nmt.search.greedy import Sampling, greedy_search, sample_search
from nmt.search.interface import Hypothesis
from nmt.search.rules import Once, Ruled
from tests.toy_model import EOS, A, B, C, RememberingModel, ToyModel, emitted, limits


@dataclass(frozen=True)
class Plainly:
    """The rules, stated plainly."""

    n: int = 0
    least: int = 0
    wanted: tuple[int, ...] | None = None
    """Which of B and C are emitted, once each, when they are due after the space A; None: any may be, and often."""
    most: int = 4

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
        if self.wanted is not None:
            left, room = {*self.wanted} - {*tokens}, self.most - len(tokens)
            permitted = {token: log_prob for token, log_prob in permitted.items() if token in {EOS, A, *left}}
            if left and permitted:
                due = max(permitted, key=permitted.__getitem__) == EOS or room <= 2 * len(left)
                space = room > len(left) and tokens[-1:] != (A,) and A in permitted
                named = {A, *left} if not due else {A} if space else left
                permitted = {token: permitted[token] for token in permitted if token in named}
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


RULES = st.builds(Plainly, st.integers(0, 3), st.integers(0, 4), st.sampled_from([None, (), (B,), (C,), (B, C)]))


def alike(each: list[Plainly], lengths: list[int]) -> list[Plainly]:
    """The rules of sentences of one batch: with the n of the first, and tokens to emit once if the first has any."""
    wanted = [None if each[0].wanted is None else one.wanted or () for one in each]
    together = zip(each, wanted, lengths, strict=True)
    return [replace(plainly, n=each[0].n, wanted=tokens, most=most) for plainly, tokens, most in together]


def ruled(model: ToyModel, lengths: list[int], each: list[Plainly]) -> Ruled:
    """A model with the n of the first sentence, and each with its own least length and tokens."""
    wanted = torch.tensor([[token in (one.wanted or ()) for token in (B, C)] for one in each])
    once = None if each[0].wanted is None else Once(torch.tensor([B, C]), wanted, A)
    return Ruled(model, limits(lengths), each[0].n, torch.tensor([plainly.least for plainly in each]), once)


@given(st.integers(0, 10_000), RULES, RULES, st.sampled_from([0.0, 1.0]))
@settings(max_examples=25)
def test_a_full_width_beam_finds_all_permitted(seed: int, first: Plainly, second: Plainly, alpha: float) -> None:
    model, lengths = RememberingModel(seed, 2, sharpness=1.0), [4, 4]
    each = alike([first, second], lengths)
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
    lengths = [3 + (seed + sentence) % 9 for sentence in range(len(each))]
    each, model = alike(each, lengths), RememberingModel(seed, len(each), sharpness=1.0)

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
