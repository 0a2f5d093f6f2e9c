"""Attention: hand-worked weights, and the properties that every score has."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nmt.model import Memory
from nmt.model.attention import (
    AdditiveAttention,
    Attention,
    CosineAttention,
    DotAttention,
    GeneralAttention,
    InitialStateOnly,
    LocationAttention,
    LowRankAttention,
    MultiHeadAttention,
    NoAttention,
    ScaledDotAttention,
    ScoredAttention,
    WeightedMean,
)
from nmt.model.coverage import CoverageAttention, CoveredMemory, CoveredState
from tests.models import small_model


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
    "additive without bias": lambda: AdditiveAttention(4, 4, 3, bias=False),
    "dot": DotAttention,
    "scaled dot": ScaledDotAttention,
    "general": lambda: GeneralAttention(4, 4),
    "low rank": lambda: LowRankAttention(4, 4, 2),
    "cosine": lambda: CosineAttention(4, 4),
    "location": lambda: LocationAttention(4, 9),
}


COMPARING = [name for name in SCORES if name != "location"]
"""The weights of the location score belong to the positions, not to the annotations."""


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


def test_initial_state_only_gives_contexts_without_units() -> None:
    remembered = Memory(torch.randn(2, 3, 4), torch.randn(2, 4), torch.ones(2, 3, dtype=torch.bool))
    context, weights = read(InitialStateOnly(), torch.randn(2, 5, 6), remembered)
    assert weights is None
    assert context.shape == (2, 5, 0)


# --- each score against NumPy -----------------------------------------------------------------------------------------


def energies_by_numpy(attention: ScoredAttention, s: Tensor, h: Tensor) -> float:
    """The energy of one query (H,) and one annotation (C,), from the weights."""
    w = {name: parameter.detach().numpy() for name, parameter in attention.named_parameters()}
    query, annotation = s.numpy(), h.numpy()
    match attention:
        case AdditiveAttention():
            hidden = w["query.weight"] @ query + w["key.weight"] @ annotation + w.get("key.bias", 0)
            return float(w["energy.weight"][0] @ np.tanh(hidden))
        case CosineAttention():
            key = w["key.weight"] @ annotation
            cosine = query @ key / np.linalg.norm(query) / np.linalg.norm(key)
            return float(np.exp(w["log_scale"]) * cosine)
        case LowRankAttention():
            return float(query @ w["query.weight"].T @ w["key.weight"] @ annotation)
        case GeneralAttention():
            return float(query @ w["key.weight"] @ annotation)
        case ScaledDotAttention():
            return float(query @ annotation / 2)  # sqrt(4)
    return float(query @ annotation)


@pytest.mark.parametrize("attention", COMPARING, indirect=True)
def test_energies_against_numpy(attention: ScoredAttention) -> None:
    annotations, queries = torch.randn(2, 5, 4, dtype=torch.double), torch.randn(2, 3, 4, dtype=torch.double)
    _, alpha = weigh(attention, queries, memory(annotations, [5, 3], attention))
    for b, length in enumerate((5, 3)):
        for q in range(3):
            energies = [energies_by_numpy(attention, queries[b, q], annotations[b, j]) for j in range(length)]
            expected = np.exp(energies) / np.exp(energies).sum()
            assert np.allclose(alpha[b, q, :length].detach().numpy(), expected)


def test_location_by_hand() -> None:
    """Energies are the first rows of W s; words beyond the positions that the score knows get nothing."""
    attention = LocationAttention(1, 3)
    attention.position.weight.data = torch.tensor([[0.0], [math.log(2)], [math.log(5)]])
    query = torch.ones(1, 1, 1)
    for length, expected in (
        (1, [1.0]),
        (2, [1 / 3, 2 / 3]),
        (3, [1 / 8, 2 / 8, 5 / 8]),
        (5, [1 / 8, 2 / 8, 5 / 8, 0, 0]),
    ):
        _, alpha = weigh(attention, query, memory(torch.randn(1, length, 2), [length], attention))
        assert alpha[0, 0].tolist() == pytest.approx(expected)


def test_gradients_of_location_are_finite_beyond_its_positions() -> None:
    attention = LocationAttention(4, 3)
    query = torch.randn(1, 2, 4, requires_grad=True)
    context, _ = weigh(attention, query, memory(torch.randn(1, 6, 4), [6], attention))
    context.sum().backward()
    assert query.grad is not None
    assert query.grad.isfinite().all()


# --- several heads ----------------------------------------------------------------------------------------------------


def heads_of(count: int, score: Callable[[int], WeightedMean], width: int = 8) -> MultiHeadAttention:
    torch.manual_seed(4)
    return MultiHeadAttention([score(width // count) for _ in range(count)], width, width).double()


@pytest.mark.parametrize("count", [2])
def test_heads_of_the_scaled_dot_are_pytorchs(count: int) -> None:
    attention = heads_of(count, lambda _: ScaledDotAttention())
    expected = nn.MultiheadAttention(8, count, bias=False, batch_first=True).double()
    assert isinstance(attention.key, nn.Linear)
    expected.in_proj_weight.data = torch.cat(
        [layer.weight for layer in (attention.query, attention.key, attention.value)]
    )
    expected.out_proj.weight.data = attention.output.weight.data
    annotations, queries = torch.randn(2, 5, 8, dtype=torch.double), torch.randn(2, 3, 8, dtype=torch.double)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    remembered = attention.prepare(Memory(annotations, annotations.sum(1), mask))
    context, weights = attention(queries, torch.arange(3), remembered)
    contexts, means = expected(queries, annotations, annotations, key_padding_mask=~mask)
    assert torch.allclose(context, contexts)
    assert torch.allclose(weights, means)


SCORES_OF_HEADS: dict[str, Callable[[int], ScoredAttention]] = {
    "additive": lambda width: AdditiveAttention(width, width, 3),
    "general": lambda width: GeneralAttention(width, width),
    "low rank": lambda width: LowRankAttention(width, width, 2),
    "cosine": lambda width: CosineAttention(width, width),
    "location": lambda width: LocationAttention(width, 9),
}


@pytest.mark.parametrize("score", SCORES_OF_HEADS)
def test_each_head_reads_its_own_part(score: str) -> None:
    """Head by head, from the projections' rows and columns."""
    attention = heads_of(2, SCORES_OF_HEADS[score])
    annotations, queries = torch.randn(1, 5, 8, dtype=torch.double), torch.randn(1, 3, 8, dtype=torch.double)
    whole = Memory(annotations, annotations.sum(1), torch.ones(1, 5, dtype=torch.bool))
    context, weights = attention(queries, torch.arange(3), attention.prepare(whole))
    expected, means = torch.zeros_like(context), torch.zeros_like(weights)
    for k, head in enumerate(attention.each):
        part = slice(4 * k, 4 * k + 4)
        keyed = attention.key(annotations)[..., part]
        alone = head.prepare(replace(whole, annotations=keyed))
        values = annotations @ attention.value.weight[part].T
        read_by_head, alpha = head(attention.query(queries)[..., part], torch.arange(3), replace(alone, values=values))
        expected = expected + read_by_head @ attention.output.weight[:, part].T
        means = means + alpha / 2
    assert torch.allclose(context, expected)
    assert torch.allclose(weights, means)
    assert torch.allclose(weights.sum(-1), torch.ones(1, 3).double())


# --- coverage ---------------------------------------------------------------------------------------------------------


def test_coverage_by_hand() -> None:
    """One unit: e_j = tanh(s + h_j - covered_j / (2 sigmoid(h_j))), with h = (0, ln 3): fertilities 1 and 3/2."""
    attention = CoverageAttention(1, 1, 1).double()
    for layer, value in (
        (attention.query, 1.0),
        (attention.key, 1.0),
        (attention.energy, 1.0),
        (attention.fertility, 1.0),
        (attention.coverage, -1.0),
    ):
        layer.weight.data.fill_(value)
    assert attention.key.bias is not None
    attention.key.bias.data.zero_()
    annotations = torch.tensor([[[0.0], [math.log(3)]]]).double()
    plain = Memory(annotations, annotations.sum(1), torch.ones(1, 2, dtype=torch.bool))
    covered = CoveredMemory(**vars(attention.prepare(plain)), covered=torch.tensor([[[0.5, 0.75]]]).double())
    energies = attention.energies(torch.full((1, 1, 1), 0.25).double(), covered)
    expected = [math.tanh(0.25 - 0.5), math.tanh(0.25 + math.log(3) - 0.75 / 1.5)]
    assert energies[0, 0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("variant", ["coverage", "coverage after"])
def test_what_is_covered_is_the_sum_of_the_weights(variant: str) -> None:
    model = small_model(variant)
    source, tokens = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[2, 9, 4], [3, 3, 1]])
    memory = model.encode(source, torch.tensor([3, 2]))
    _, weights = model.unroll(tokens, memory)
    assert weights is not None
    state = model.start(memory)
    for t in range(3):
        assert isinstance(state, CoveredState)
        assert torch.allclose(state.covered, weights[:, :t].sum(1))
        _, state, _ = model.step(tokens[:, t], state)
