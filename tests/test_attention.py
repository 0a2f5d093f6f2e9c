"""Attention: hand-worked weights, and the properties that every score has."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from nmt.model import Memory
from nmt.model.attention import (
    AdditiveAttention,
    Attention,
    DotAttention,
    GeneralAttention,
    NoAttention,
    ScoredAttention,
)


def memory(annotations: Tensor, lengths: list[int], attention: ScoredAttention) -> Memory:
    mask = torch.arange(annotations.size(1)) < torch.tensor(lengths).unsqueeze(1)
    return Memory(annotations, annotations.sum(1), mask, attention.keys(annotations))


def read(attention: Attention, queries: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
    contexts, weights = attention(queries, torch.arange(queries.size(1)), memory)
    return contexts, weights


def weigh(attention: ScoredAttention, queries: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    contexts, weights = read(attention, queries, memory)
    assert weights is not None
    return contexts, weights


SCORES: dict[str, Callable[[], ScoredAttention]] = {
    "additive": lambda: AdditiveAttention(4, 4, 3),
    "dot": DotAttention,
    "general": lambda: GeneralAttention(4, 4),
}


@pytest.fixture(params=SCORES)
def attention(request: pytest.FixtureRequest) -> ScoredAttention:
    torch.manual_seed(3)
    made: ScoredAttention = SCORES[request.param]().double()
    return made


@pytest.mark.parametrize(
    ("energies", "weights"),
    [
        ((0.0, 2.0, 1.0), (0.0900, 0.6652, 0.2447)),
        ((0.5, 2.0, -1.0), (0.1753, 0.7856, 0.0391)),
        ((0.2, 1.7, 0.4, -0.3), (0.1368, 0.6131, 0.1671, 0.0830)),
    ],
)
def test_dot_score_gives_the_textbook_weights(energies: tuple[float, ...], weights: tuple[float, ...]) -> None:
    """With the query (1, 0) the energies are the first components of the annotations."""
    annotations = torch.tensor([[[energy, float(j)] for j, energy in enumerate(energies)]])
    attention = DotAttention()
    context, alpha = weigh(attention, torch.tensor([[[1.0, 0.0]]]), memory(annotations, [len(energies)], attention))
    assert alpha[0, 0].tolist() == pytest.approx(weights, abs=5e-5)
    expected_position = sum(j * weight for j, weight in enumerate(weights))
    assert context[0, 0, 1].item() == pytest.approx(expected_position, abs=5e-4)


def test_general_score_by_hand() -> None:
    """s = (1, 2), W = [[1, 0], [0, 3]]: s·W h = h_1 + 6 h_2, so energies 0 and 6 * ln(2) / 6 = ln 2."""
    attention = GeneralAttention(2, 2)
    attention.key.weight.data = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
    annotations = torch.tensor([[[0.0, 0.0], [0.0, torch.log(torch.tensor(2.0)).item() / 6]]])
    _, alpha = weigh(attention, torch.tensor([[[1.0, 2.0]]]), memory(annotations, [2], attention))
    assert alpha[0, 0].tolist() == pytest.approx([1 / 3, 2 / 3])


def test_additive_score_by_hand() -> None:
    """One hidden unit: e_j = v tanh(w s + u h_j + b), here 2 tanh(0.5 + h_j)."""
    attention = AdditiveAttention(1, 1, 1)
    for parameter, value in (
        (attention.query.weight, 0.5),
        (attention.key.weight, 1.0),
        (attention.energy.weight, 2.0),
    ):
        parameter.data.fill_(value)
    attention.key.bias.data.zero_()
    annotations = torch.tensor([[[0.0], [1.0]]])
    _, alpha = weigh(attention, torch.tensor([[[1.0]]]), memory(annotations, [2], attention))
    energies = [2 * torch.tanh(torch.tensor(x)).item() for x in (0.5, 1.5)]
    odds = torch.exp(torch.tensor(energies[1] - energies[0])).item()
    assert alpha[0, 0, 1].item() == pytest.approx(odds / (1 + odds))


def test_weights_sum_to_one_and_padding_gets_exactly_none(attention: ScoredAttention) -> None:
    annotations = torch.randn(3, 5, 4, dtype=torch.double)
    _, alpha = weigh(attention, torch.randn(3, 2, 4, dtype=torch.double), memory(annotations, [5, 1, 3], attention))
    assert torch.allclose(alpha.sum(-1), torch.ones(3, 2, dtype=torch.double))
    assert (alpha[1, :, 1:] == 0).all()
    assert (alpha[2, :, 3:] == 0).all()
    assert (alpha[0] > 0).all()


def test_the_softmax_of_bf16_energies_is_taken_in_fp32() -> None:
    """Under autocast energies are bf16 and annotations fp32; weights rounded to bf16 would not sum to one."""
    annotations = torch.randn(2, 50, 4, generator=torch.Generator().manual_seed(1))
    whole = memory(annotations, [50, 50], DotAttention())
    assert whole.keys is not None
    query = torch.ones(2, 1, 4, dtype=torch.bfloat16)
    _, alpha = weigh(DotAttention(), query, replace(whole, keys=whole.keys.bfloat16()))
    assert alpha.sum(-1).flatten().tolist() == pytest.approx([1.0, 1.0], abs=1e-6)


def test_context_depends_on_real_annotations_alone(attention: ScoredAttention) -> None:
    annotations, query = torch.randn(1, 3, 4, dtype=torch.double), torch.randn(1, 1, 4, dtype=torch.double)
    context, _ = weigh(attention, query, memory(annotations, [3], attention))
    longer = torch.cat((annotations, 100 * torch.ones(1, 4, 4, dtype=torch.double)), 1)
    padded, _ = weigh(attention, query, memory(longer, [3], attention))
    assert torch.allclose(context, padded, atol=1e-12)
    altered = annotations.clone()
    altered[0, 1] += 1
    assert not torch.allclose(context, read(attention, query, memory(altered, [3], attention))[0])


def test_permuting_the_source_permutes_the_weights(attention: ScoredAttention) -> None:
    annotations, query = torch.randn(1, 4, 4, dtype=torch.double), torch.randn(1, 1, 4, dtype=torch.double)
    order = torch.tensor([2, 0, 3, 1])
    context, alpha = weigh(attention, query, memory(annotations, [4], attention))
    context_permuted, alpha_permuted = weigh(attention, query, memory(annotations[:, order], [4], attention))
    assert torch.allclose(alpha[..., order], alpha_permuted)
    assert torch.allclose(context, context_permuted)


def test_queries_are_independent(attention: ScoredAttention) -> None:
    """Q queries at once (a beam, or all target positions) are Q single ones."""
    annotations, queries = torch.randn(2, 4, 4, dtype=torch.double), torch.randn(2, 3, 4, dtype=torch.double)
    whole = memory(annotations, [4, 2], attention)
    together, _ = weigh(attention, queries, whole)
    for q in range(3):
        assert torch.allclose(together[:, q : q + 1], read(attention, queries[:, q : q + 1], whole)[0])


def test_no_attention_gives_the_summary_to_every_query() -> None:
    remembered = Memory(torch.randn(2, 3, 4), torch.randn(2, 4), torch.ones(2, 3, dtype=torch.bool))
    context, weights = read(NoAttention(), torch.randn(2, 5, 6), remembered)
    assert weights is None
    assert torch.equal(context, remembered.summary.unsqueeze(1).repeat(1, 5, 1))
