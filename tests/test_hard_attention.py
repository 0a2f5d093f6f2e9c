"""Hard attention against exact gradients: every sequence of positions of a toy is enumerated in double precision."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from nmt.data.batching import Batch
from nmt.model import Memory, Seq2Seq
from nmt.model.hard import GumbelAttention, HardAttention, NoisyMemory
from nmt.training.gradients import POSITIONS, filled_up
from nmt.training.objective import Reinforce, teacher_forcing, with_noise
from tests.models import AFTER, SPECIALS, model_config, score, small_model

REINFORCE: dict[str, Any] = {"type": "reinforce", "entropy": 0.0}
TINY: dict[str, Any] = {"embeddings": {"size": 3}, "encoder": {"hidden": 2}, "decoder": {"hidden": 3, "readout": 2}}
SYSTEMS: dict[str, dict[str, Any]] = {
    "states depend on no position": AFTER,
    "fed": AFTER | {"input_feeding": True},
    "before the update": {"type": "bahdanau", "score": {"hidden": 2}},
}


def pairs(count: int = 1) -> Batch:
    """A sentence of three words with a translation of two, ``count`` times."""
    source = torch.tensor([[1, 4, 2]]).expand(count, -1)
    target = torch.tensor([[2, 5, 3]]).expand(count, -1)
    mask = torch.ones(count, 2, dtype=torch.bool)
    return Batch(source, torch.full((count,), 3), target[:, :2], target[:, 1:], mask, 2 * count)


def toy(section: dict[str, Any]) -> Seq2Seq:
    """A tiny network whose weights are large, so that it matters which position is read."""
    model = small_model(section, **TINY)
    for parameter in model.parameters():
        parameter.data *= 5
    return model


def attention(model: Any) -> Any:
    return model.decoder.attention


def noise_of(places: Tensor) -> Tensor:
    """Noise that makes hard attention read these positions: (B, T) -> (B, T, 3)."""
    return 1e4 * functional.one_hot(places, 3).double()


def gumbel(*shape: int) -> Tensor:
    """Noise that is drawn, the same each time."""
    return -torch.empty(shape).exponential_(generator=torch.Generator().manual_seed(2)).log().double()


def log_likelihoods(model: Seq2Seq) -> tuple[Tensor, Tensor, Tensor]:
    """Of all nine pairs of positions, each (9, 2): log p of each word, log p of each position, the entropies."""
    places = torch.tensor(list(itertools.product(range(3), repeat=2)))
    batch = pairs(9)
    memory = NoisyMemory(**vars(model.encode(batch.source, batch.source_lengths)), noise=noise_of(places))
    readouts, alpha = model.unroll(batch.target_input, memory)
    assert alpha is not None
    words = model.output(readouts).log_softmax(-1).gather(-1, batch.target_output.unsqueeze(-1)).squeeze(-1)
    chosen = alpha.log().gather(-1, places.unsqueeze(-1)).squeeze(-1)
    return words, chosen, -(alpha * alpha.log()).sum(-1)


def gradients(model: Seq2Seq, value: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(value, parameters, allow_unused=True)
    return {n: torch.zeros_like(p) if g is None else g for n, p, g in zip(names, parameters, found, strict=True)}


def expected_log_likelihood(words: Tensor, chosen: Tensor, entropies: Tensor) -> Tensor:
    """E[log p(y | positions)], the value that REINFORCE follows."""
    return (chosen.sum(1).exp() * words.sum(1)).sum()


# --- REINFORCE --------------------------------------------------------------------------------------------------------


def fix_noise(monkeypatch: pytest.MonkeyPatch, noise: Tensor) -> None:
    """Let objectives draw this noise: (B, T, S) or more."""

    def with_noise(memory: Memory, batch: Batch) -> NoisyMemory:
        used = noise[:, : batch.target_input.size(1), : memory.source_mask.size(1)]
        return NoisyMemory(**vars(memory), noise=used)

    monkeypatch.setattr("nmt.training.objective.with_noise", with_noise)


def all_draws(model: Seq2Seq, objective: Reinforce, monkeypatch: pytest.MonkeyPatch) -> tuple[Tensor, Tensor]:
    """The objective at each of the nine pairs of positions, and their probabilities."""
    values = []
    for places in itertools.product(range(3), repeat=2):
        fix_noise(monkeypatch, noise_of(torch.tensor([places])))
        attention(model).average_reward.fill_(-1.5)
        values.append(objective(model, pairs()).objective)
    _, chosen, _ = log_likelihoods(model)
    return torch.stack(values), chosen.sum(1).exp().detach()


def reinforce(section: dict[str, Any], **options: Any) -> tuple[Seq2Seq, Reinforce]:
    """A toy whose baseline is far from zero, and its objective."""
    chosen = section | {"hard": REINFORCE | options}
    model = toy(chosen)
    attention(model).average_reward.fill_(-1.5)
    objective = teacher_forcing(model_config(chosen, **TINY).attention, model, 0.0)
    assert isinstance(objective, Reinforce)
    return model, objective


@pytest.mark.parametrize("system", SYSTEMS)
def test_reinforce_follows_the_expected_log_likelihood(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mean over all positions, each with its probability, is exact: no baseline moves it."""
    model, objective = reinforce(SYSTEMS[system])
    assert objective.to_go == (system != "states depend on no position")
    objectives, probabilities = all_draws(model, objective, monkeypatch)
    found = gradients(model, -(probabilities * objectives).sum())
    expected = gradients(model, expected_log_likelihood(*log_likelihoods(model)))
    assert any(gradient.abs().max() > 1e-3 for name, gradient in expected.items() if ".soft." in name)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-10)


def test_noise_is_gumbels() -> None:
    """The mean is Euler's constant, the variance pi^2 / 6; of 120,000 draws, within four standard errors."""
    torch.manual_seed(5)
    batch = pairs(20_000)
    noise = with_noise(Memory(torch.zeros(1, 3, 1), torch.zeros(1, 1), torch.ones(1, 3).bool()), batch).noise
    assert noise.shape == (20_000, 2, 3)
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.015)
    assert noise.var().item() == pytest.approx(math.pi**2 / 6, abs=0.05)


def test_the_weight_and_the_entropy_bonus_are_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The score's parameters get 3 times the gradient of E[log p] and 0.7 times that of the entropies."""
    model, objective = reinforce(AFTER, entropy=0.7, weight=3.0)
    objectives, probabilities = all_draws(model, objective, monkeypatch)
    found = gradients(model, (probabilities * objectives).sum())
    reward = gradients(model, expected_log_likelihood(*log_likelihoods(model)))
    entropy = gradients(model, log_likelihoods(model)[2][0].sum())
    score, output = "decoder.attention.soft.key.weight", "output.weight"
    assert torch.allclose(found[score], -3 * reward[score] - 0.7 * entropy[score], atol=1e-10)
    assert torch.allclose(found[output], -reward[output], atol=1e-10)


def test_the_moving_baseline_takes_up_a_tenth_of_each_mean_reward() -> None:
    model, objective = reinforce(AFTER)
    torch.manual_seed(1)
    result = objective(model, pairs(3))
    mean = -result.nll.item() / 6
    assert attention(model).average_reward.item() == pytest.approx(0.9 * -1.5 + 0.1 * mean)
    model.output.bias.data.fill_(math.nan)
    objective(model, pairs(3))
    assert attention(model).average_reward.isfinite()


def test_padding_changes_no_gradient_of_reinforce(monkeypatch: pytest.MonkeyPatch) -> None:
    model, objective = reinforce(SYSTEMS["fed"], entropy=0.3)
    fix_noise(monkeypatch, gumbel(1, POSITIONS, POSITIONS))
    found = []
    for batch in (pairs(), filled_up(pairs(), SPECIALS)):
        attention(model).average_reward.fill_(-1.5)
        found.append(gradients(model, objective(model, batch).objective))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-12)


# --- exact marginal ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest_chunk", [1 << 22, 1])
def test_the_exact_marginal_is_the_sum_over_all_positions(largest_chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Value and gradient: over all nine pairs of positions; a step of search: over the three of its word."""
    monkeypatch.setattr("nmt.model.hard.LARGEST_CHUNK", largest_chunk)
    smoothing, batch = 0.1, pairs()
    section = AFTER | {"hard": {"type": "marginal"}}
    model, reader = toy(section), toy(AFTER | {"hard": REINFORCE})  # which reads the position that it is given
    for own, other in zip(model.parameters(), reader.parameters(), strict=True):
        other.data = own.data
    result = teacher_forcing(model_config(section, **TINY).attention, model, smoothing)(model, batch)
    words, chosen, _ = log_likelihoods(reader)
    likelihood = (words.sum(1) + chosen.sum(1)).logsumexp(0)
    assert result.nll.item() == pytest.approx(-likelihood.item())
    expected = -(1 - smoothing) * likelihood - smoothing * mixture(reader).log().mean(-1).sum()
    assert result.objective.item() == pytest.approx(expected.item())
    found, exact = ([*gradients(model, result.objective).values()], [*gradients(reader, expected).values()])
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-10)
    state = model.start(model.encode(batch.source, batch.source_lengths))
    for previous, probabilities in zip(batch.target_input.T, mixture(reader), strict=True):
        log_probs, state, _ = model.step(previous, state)
        assert torch.allclose(log_probs.exp(), probabilities.float())


def mixture(reader: Seq2Seq) -> Tensor:
    """The probabilities of the two words, (T, V): sum_j alpha_tj p(y_t | h_j)."""
    batch = pairs(3)
    noise = noise_of(torch.arange(3).unsqueeze(1).expand(-1, 2))  # row j reads position j
    memory = NoisyMemory(**vars(reader.encode(batch.source, batch.source_lengths)), noise=noise)
    readouts, alpha = reader.unroll(batch.target_input, memory)
    assert alpha is not None
    mixed: Tensor = (alpha[0].T.unsqueeze(-1) * reader.output(readouts).softmax(-1)).sum(0)
    return mixed


# --- sampling ---------------------------------------------------------------------------------------------------------


def remembered(noise: Tensor | None) -> tuple[Tensor, Memory]:
    """A query whose dot products with three annotations, behind them padding, give the weights 0.2, 0.5 and 0.3."""
    energies = torch.tensor([0.2, 0.5, 0.3]).double().log()
    annotations = torch.zeros(1, 4, 2).double()
    annotations[0, :3, 0] = energies
    annotations[0, :3, 1] = torch.tensor([1.0, 2.0, 3.0])
    mask = torch.tensor([[True, True, True, False]])
    memory = Memory(annotations, annotations.sum(1), mask, annotations)
    query = torch.tensor([[[1.0, 0.0]]]).double()
    return query, memory if noise is None else NoisyMemory(**vars(memory), noise=noise)


MADE: dict[str, Callable[[], HardAttention]] = {
    "plain": lambda: HardAttention(score("dot")),
    "gumbel": lambda: GumbelAttention(score("dot"), 0.5),
}


@pytest.mark.parametrize("kind", MADE)
def test_samples_have_the_probabilities_of_the_soft_attention(kind: str) -> None:
    """Without noise the likeliest position is read."""
    count = 20_000
    query, memory = remembered(gumbel(1, count, 4))
    contexts, weights = MADE[kind]()(query.expand(1, count, 2), torch.arange(count), memory)
    assert torch.allclose(weights, torch.tensor([0.2, 0.5, 0.3, 0.0]).double())
    values = contexts[0, :, 1]
    for value, probability in ((1.0, 0.2), (2.0, 0.5), (3.0, 0.3)):
        found = (values == value).double().mean().item()  # exactly an annotation, never a mean of some
        assert abs(found - probability) < 4 * (probability * (1 - probability) / count) ** 0.5
    assert (values == 0).sum() == 0  # padding
    context, weights = MADE[kind]()(query, torch.arange(1), remembered(None)[1])
    assert weights[0, 0].tolist() == [0, 1, 0, 0] and context[0, 0, 1].item() == 2


def test_the_gradient_of_gumbel_is_that_of_the_relaxed_softmax() -> None:
    noise = gumbel(1, 1, 4)
    attention = GumbelAttention(score("dot"), 0.5)
    query, memory = remembered(noise)
    query.requires_grad_()
    context, _ = attention(query, torch.arange(1), memory)
    (found,) = torch.autograd.grad(context[0, 0, 1], query)
    energies = query[0, 0] @ memory.annotations[0, :3].T
    relaxed = ((energies.log_softmax(-1) + noise[0, 0, :3]) / 0.5).softmax(-1)
    (expected,) = torch.autograd.grad(relaxed @ memory.annotations[0, :3, 1], query)
    assert torch.allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
def test_noise_is_drawn_in_training_alone(estimator: str) -> None:
    section = AFTER | {"hard": {"type": estimator}}
    model = toy(section)
    objective = teacher_forcing(model_config(section, **TINY).attention, model, 0.0)
    batch = pairs(8)
    before = torch.get_rng_state()
    model.unroll(batch.target_input, model.encode(batch.source, batch.source_lengths))
    assert torch.equal(torch.get_rng_state(), before)
    weights = objective(model, batch).attention
    assert not torch.equal(torch.get_rng_state(), before)
    assert weights is not None and weights.requires_grad and bool((weights < 1).all()), "probabilities, to be guided"
