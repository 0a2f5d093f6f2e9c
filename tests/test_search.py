"""Search over toy models whose every probability is known; ``test_rules`` finds all hypotheses by brute force."""

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.errors import NmtError
from nmt.search.beam import beam_search, best
from nmt.search.greedy import greedy_search
from nmt.search.interface import AttentionBuffer, Limits, penalty
from tests.toy_model import BOS, EOS, A, B, C, ToyModel, emitted, limits


def test_finished_sentences_leave_the_batch() -> None:
    model = ToyModel(0, 3)
    model.table = torch.full_like(model.table, -20.0)
    model.table[..., A] = -0.1
    model.table[1, 0, :, EOS] = -0.01  # sentence 1 ends at once
    found = greedy_search(model, model.start(3), limits([4, 4, 2]), keep_attention=True)
    assert [hypothesis.tokens for (hypothesis,) in found] == [(A,) * 4, (), (A,) * 2]
    assert [hypothesis.ended for (hypothesis,) in found] == [False, True, False]
    looked = [hypothesis.attention[:, :2].tolist() for (hypothesis,) in found if hypothesis.attention is not None]
    assert looked == [[[0, t] for t in range(4)], [[1, 0]], [[2, t] for t in range(2)]]
    assert model.rows == [3, 2, 1, 1]
    model.rows.clear()
    beam_search(model, model.start(3), limits([4, 4, 2]), beam_size=2, length_penalty=0.0)
    assert model.rows == [3, 4, 2, 2]  # before the first step, a sentence has but one hypothesis


# --- beam -------------------------------------------------------------------------------------------------------------


Found = list[tuple[float, tuple[int, ...]]]
"""Log-probabilities or scores, and what was emitted."""


def reference_beam(model: ToyModel, sentence: int, most: int, width: int, alpha: float, n_best: int) -> Found:
    """The rule in the module's docstring, written with lists, and without the early stop that changes nothing."""
    live: Found = [(0.0, ())]
    finished: Found = []

    def scored(hypotheses: Found) -> Found:
        return [(total / penalty(len(each), alpha), each) for total, each in hypotheses]

    def ranked(hypotheses: Found) -> Found:
        return sorted(scored(hypotheses), key=lambda each: -each[0])[:n_best]

    for length in range(1, most + 1):
        step = model.table[sentence, min(length - 1, 7)]
        extended = [  # sums are rounded as in the search
            (float(torch.tensor(total) + step[(BOS, *tokens)[-1], token]), (*tokens, token))
            for total, tokens in live
            for token in (EOS, A, B, C)
        ]
        # a stable sort: of equals the better parent's comes first, then the lower id
        candidates = sorted(extended, key=lambda each: -each[0])[: 2 * width]
        finished += [each for each in candidates[:width] if each[1][-1] == EOS]
        live = [each for each in candidates if each[1][-1] != EOS][:width]
        if length == most:
            break
        best_finished = max((score for score, _ in scored(finished)), default=-math.inf)
        if len(finished) >= width and max(score for score, _ in scored(live)) <= best_finished:
            return ranked(finished)
    return ranked(finished + live)


@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([0.0, 0.7, 1.5]), st.integers(1, 12))
@example(524, 1, 0.0, 7)  # two tokens are exactly as likely
@settings(max_examples=60)
def test_beam_search_equals_its_plain_statement(seed: int, width: int, alpha: float, most: int) -> None:
    """In half of the cases later tokens are ever surer, so that the length penalty lifts long hypotheses."""
    model = ToyModel(seed, 4, sharpness=1.0)
    if seed % 2:
        model.table = (model.table * torch.linspace(1, 8, 8).view(-1, 1, 1)).log_softmax(-1)
    n_best = 1 + seed % width
    found = beam_search(model, model.start(4), limits([most] * 4), beam_size=width, length_penalty=alpha, n_best=n_best)
    for sentence, hypotheses in enumerate(found):
        wanted = reference_beam(model, sentence, most, width, alpha, n_best)
        assert [each.score for each in hypotheses] == pytest.approx([score for score, _ in wanted], abs=1e-5)
        assert [emitted(each) for each in hypotheses] == [tokens for _, tokens in wanted]


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_a_broken_model_is_an_error_and_never_a_score(value: float) -> None:
    model = ToyModel(0, 2)
    model.table[1] = value
    with pytest.raises(NmtError, match="no finite probability"):
        greedy_search(model, model.start(2), limits([3, 3]))
    with pytest.raises(NmtError, match="no finite probability"):
        beam_search(model, model.start(2), limits([3, 3]), beam_size=3, length_penalty=1.0)


def test_nan_takes_no_place_of_a_number() -> None:
    """The hypothesis A goes on to NaN alone; B ends, and one token after it is NaN."""
    model = ToyModel(0, 1)
    model.table = torch.full_like(model.table, -20.0)
    model.table[0, 0, BOS, [A, B]] = torch.tensor([-1.0, -0.5])
    model.table[0, 1:, A], model.table[0, 1:, B, C] = torch.nan, torch.nan
    model.table[0, 1:, B, EOS] = -0.1
    beams = beam_search(model, model.start(1), limits([5]), beam_size=2, length_penalty=1.0)
    assert [each[0].tokens for each in [*beams, *greedy_search(model, model.start(1), limits([5]))]] == [(B,)] * 2


# --- ranking ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(9, 700), st.sampled_from([3, 100, 1000, 10**6]))
@settings(max_examples=50)
def test_best_is_a_stable_sort_cut_off(seed: int, count: int, size: int, levels: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-levels, levels, (3, size), generator=generator) / 7
    values[torch.rand(values.shape, generator=generator) < 0.1] = -torch.inf
    found, positions = best(values, count)
    wanted = values.sort(dim=1, descending=True, stable=True)
    assert torch.equal(found, wanted.values[:, :count])
    assert torch.equal(positions, wanted.indices[:, :count])
    assert best(torch.tensor([[-0.0, 0.0, -0.0]]), 2)[1].tolist() == [[0, 1]]


def test_nothing_follows_an_end_symbol_of_id_0_in_a_vocabulary_smaller_than_the_beam() -> None:
    model = ToyModel(3, 1, size=4)
    limits = Limits(1, 0, (1,), torch.tensor([3]))
    found = beam_search(model, model.start(1), limits, beam_size=5, length_penalty=0.0, n_best=5)
    assert all(0 not in hypothesis.tokens for hypothesis in found[0])


def test_a_full_block_of_attention_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AttentionBuffer, "BLOCK", 20)
    kept, steps = AttentionBuffer(), list(torch.rand(9, 2, 4))
    copies = [copy for each in steps if (copy := kept.add(each)) is not None]
    assert torch.equal(torch.stack(copies), torch.stack(steps)) and kept.add(None) is None
