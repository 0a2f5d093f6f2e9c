"""Attention: hand-worked weights, each score against its formula, several heads, coverage, local attention."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt.config import schema
from nmt.model import Memory
from nmt.model.attention import (
    InitialStateOnly,
    MonotonicLocalAttention,
    NoAttention,
    PredictiveLocalAttention,
    ScoredAttention,
)
from nmt.model.coverage import CoveredMemory
from nmt.model.multi_head import MultiHeadAttention
from tests.models import score, small_model

Weights = Mapping[str, Tensor]
SCORES: dict[str, dict[str, Any]] = {
    "additive": {"hidden": 3},
    "concat": {"hidden": 3},
    "dot": {},
    "scaled_dot": {},
    "general": {},
    "cosine": {},
    "location": {"positions": 9},
}


def additive(w: Weights, s: Tensor, h: Tensor) -> Tensor:
    return w["energy.weight"][0] @ torch.tanh(w["query.weight"] @ s + w["key.weight"] @ h + w["key.bias"])


ENERGIES: dict[str, Callable[[Weights, Tensor, Tensor], Tensor]] = {
    "additive": additive,
    "concat": additive,
    "dot": lambda w, s, h: s @ h,
    "scaled_dot": lambda w, s, h: s @ h / math.sqrt(4),
    "general": lambda w, s, h: s @ w["key.weight"] @ h,
    "cosine": lambda w, s, h: w["log_scale"].exp() * (s @ (k := w["key.weight"] @ h)) / (s @ s * (k @ k)).sqrt(),
}
"""Of one query s (4,) and one annotation h (4,), from the parameters by name; location has none."""


def test_every_score_of_the_package_is_checked_here_by_its_formula() -> None:
    own = {name for name, kind in schema.SCORES.options.items() if kind.__module__ == schema.Score.__module__}
    assert own == {*SCORES, "coverage"} == {*ENERGIES, "location", "coverage"}  # the last two in tests of their own


def randoms(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.double)


def memory(annotations: Tensor, lengths: list[int]) -> Memory:
    mask = torch.arange(annotations.size(1)) < torch.tensor(lengths).unsqueeze(1)
    return Memory(annotations, annotations.sum(1), mask)


def weigh(attention: ScoredAttention, queries: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    contexts, weights = attention(queries, torch.arange(queries.size(1)), attention.prepare(memory))
    return contexts, weights


def test_the_softmax_of_bf16_energies_is_taken_in_fp32() -> None:
    """Under autocast energies are bf16 and annotations fp32; weights rounded to bf16 would not sum to one."""
    annotations, dot = torch.randn(2, 50, 4, generator=torch.Generator().manual_seed(1)), score("dot")
    prepared = replace(memory(annotations, [50, 50]), keys=annotations.bfloat16())
    _, alpha = dot(torch.ones(2, 1, 4, dtype=torch.bfloat16), torch.zeros(1), prepared)
    assert alpha.sum(-1).flatten().tolist() == pytest.approx([1.0, 1.0], abs=1e-6)


def test_no_attention_gives_the_summary_to_every_query_or_nothing() -> None:
    remembered, queries = memory(randoms(2, 3, 4), [3, 3]), randoms(2, 5, 6)
    context, weights = NoAttention()(queries, torch.arange(5), remembered)
    assert weights is None and torch.equal(context, remembered.summary.unsqueeze(1).repeat(1, 5, 1))
    context, weights = InitialStateOnly()(queries, torch.arange(5), remembered)
    assert weights is None and context.shape == (2, 5, 0)


# --- each score -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ENERGIES)
def test_energies_by_the_papers_formulas(kind: str) -> None:
    attention = score(kind, **SCORES[kind])
    annotations, queries = randoms(2, 5, 4), randoms(2, 3, 4)
    _, alpha = weigh(attention, queries, memory(annotations, [5, 3]))
    w = dict(attention.named_parameters())
    assert {tensor.size(0) for name, tensor in w.items() if "query" in name} <= {3}, "units of the hidden layer"
    for b, length in enumerate((5, 3)):
        for q in range(3):
            energies = torch.stack([ENERGIES[kind](w, queries[b, q], annotations[b, j]) for j in range(length)])
            assert torch.allclose(alpha[b, q, :length], energies.softmax(0)) and not alpha[b, q, length:].any()


def test_location_by_hand() -> None:
    """Energies are the first rows of W s; words beyond the positions that the score knows get nothing."""
    attention: Any = score("location", 1, 2, positions=3)
    attention.position.weight.data = torch.tensor([[0.0], [math.log(2)], [math.log(5)]]).double()
    three = [1 / 8, 2 / 8, 5 / 8]
    for length, expected in ((1, [1.0]), (2, [1 / 3, 2 / 3]), (3, three), (5, [*three, 0, 0])):
        query = torch.ones(1, 1, 1).double().requires_grad_()
        context, alpha = weigh(attention, query, memory(randoms(1, length, 2), [length]))
        assert alpha[0, 0].tolist() == pytest.approx(expected)
        (gradient,) = torch.autograd.grad(context.sum(), query)
        assert gradient.isfinite().all()


# --- several heads, coverage ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["additive", "scaled_dot", "location"])
def test_each_head_reads_its_own_part(kind: str) -> None:
    """Head by head, from the projections' rows and columns."""
    torch.manual_seed(4)
    attention = MultiHeadAttention([score(kind, **SCORES[kind]) for _ in range(2)], 8, 8).double()
    annotations, queries = randoms(1, 5, 8), randoms(1, 3, 8)
    whole = memory(annotations, [5])
    context, weights = attention(queries, torch.arange(3), attention.prepare(whole))
    expected, means = torch.zeros_like(context), torch.zeros_like(weights)
    for k, head in enumerate(attention.each):
        part = slice(4 * k, 4 * k + 4)
        alone = head.prepare(replace(whole, annotations=attention.key(annotations)[..., part]))
        values = annotations @ attention.value.weight[part].T
        read_by_head, alpha = head(attention.query(queries)[..., part], torch.arange(3), replace(alone, values=values))
        expected = expected + read_by_head @ attention.output.weight[:, part].T
        means = means + alpha / 2
    assert torch.allclose(context, expected) and torch.allclose(weights, means)


def test_coverage_by_hand() -> None:
    """One unit: e_j = tanh(s + h_j - covered_j / (2 sigmoid(h_j))), with h = (0, ln 3): fertilities 1 and 3/2."""
    attention: Any = score("coverage", 1, 1)
    for parameter in attention.parameters():
        parameter.data.fill_(1.0)
    attention.coverage.weight.data.fill_(-1.0)
    attention.key.bias.data.zero_()
    plain = memory(torch.tensor([[[0.0], [math.log(3)]]]).double(), [2])
    covered = CoveredMemory(**vars(attention.prepare(plain)), covered=torch.tensor([[[0.5, 0.75]]]).double())
    energies = attention.energies(torch.full((1, 1, 1), 0.25).double(), covered)
    expected = [math.tanh(0.25 - 0.5), math.tanh(0.25 + math.log(3) - 0.75 / 1.5)]
    assert energies[0, 0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("variant", ["coverage", "coverage after"])
def test_what_is_covered_is_the_sum_of_the_weights(variant: str) -> None:
    model = small_model(variant)
    source, tokens = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[2, 9, 4], [3, 3, 1]])
    memory = model.encode(source, torch.tensor([3, 2]))
    weights: Any = model.unroll(tokens, memory)[1]
    state: Any = model.start(memory)
    for t in range(3):
        assert torch.allclose(state.covered, weights[:, :t].sum(1))
        _, state, _ = model.step(tokens[:, t], state)


# --- local attention (Luong et al. 2015, section 3.2) -----------------------------------------------------------------


def predictive(window: int, *, normalize: bool = True) -> PredictiveLocalAttention:
    torch.manual_seed(3)
    scope = schema.PredictiveScope(type="local_p", window=window, hidden=5, normalize=normalize)
    return PredictiveLocalAttention(score("dot"), scope, 4).double()


def test_local_m_by_hand() -> None:
    """Equal energies: at the left end two of three positions, in the middle three, behind the end the last two."""
    attention = MonotonicLocalAttention(score("dot"), 1)
    prepared = attention.prepare(memory(torch.zeros(1, 4, 2), [4]))
    alpha = attention.weights(torch.ones(1, 7, 2), torch.arange(7), prepared)[0]
    third, end = [1 / 3] * 3, [0, 0, 0.5, 0.5]
    for t, expected in enumerate(([0.5, 0.5, 0, 0], [*third, 0], [0, *third], end, end, end, end)):
        assert alpha[t].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("normalize", [True, False])
def test_local_p_by_the_papers_formula(normalize: bool) -> None:
    """Eq. 9 and 10, position by position."""
    attention, annotations, queries = predictive(2, normalize=normalize), randoms(3, 7, 4), randoms(3, 4, 4)
    prepared = attention.prepare(memory(annotations, [7, 3, 1]))
    alpha = attention.weights(queries, torch.arange(4), prepared)
    for b, length in enumerate((7, 3, 1)):
        h, places = annotations[b, :length], torch.arange(length)
        for t, s in enumerate(queries[b]):
            p = length * torch.sigmoid(attention.center.weight[0] @ torch.tanh(attention.hidden.weight @ s))
            energies = (h @ s).exp() * ((places - p).abs() <= 2)
            expected = energies / energies.sum() * torch.exp(-((places - p) ** 2) / (2 * 1.0**2))  # sigma = D / 2 = 1
            expected = expected / expected.sum() if normalize else expected
            assert torch.allclose(alpha[b, t, :length], expected)
            assert (alpha[b, t, length:] == 0).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_center_at_the_very_end_leaves_something_to_read(sign: int) -> None:
    """The sigmoid is 0 or 1 to the last digit, so that the center is the first position, or one behind the last."""
    attention = predictive(1)
    attention.hidden.weight.data.fill_(sign * 1e3)
    attention.center.weight.data.fill_(1e3)
    query = randoms(3, 2, 4).abs().requires_grad_()
    alpha = attention.weights(query, torch.arange(2), attention.prepare(memory(randoms(3, 7, 4), [7, 3, 1])))
    assert (alpha.sum(-1) > 0).all() and alpha.isfinite().all()
    (gradient,) = torch.autograd.grad(alpha[..., 0].sum(), query)
    assert gradient.isfinite().all()
