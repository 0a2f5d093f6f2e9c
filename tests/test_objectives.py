"""What training minimizes beside teacher forcing: scheduled sampling and guided attention."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt import fast
from nmt.config import schema
from nmt.config.schema import Kernels, Training
from nmt.data.batching import Batch
from nmt.model import Seq2Seq
from nmt.training.gradients import EagerGradients
from nmt.training.objective import (
    GuidedAttention,
    Objective,
    ScheduledSampling,
    TeacherForcing,
    links_guide,
    objective_of,
    reference_share,
)
from nmt.training.world import Machine
from tests.models import NO_DROPOUT, SPECIALS, TARGET, VARIANTS, model_config, random_batch, small_model

SOFT = [name for name in VARIANTS if getattr(model_config(name).attention, "hard", None) is None]
"""Networks for teacher forcing; hard attention has objectives of its own, which are tested with it."""
ALWAYS, HALF, ARGMAX = (schema.ScheduledSampling(**how) for how in ({"k": 1e30}, {"k": 1.0}, {"output": "argmax"}))


def batch() -> Batch:
    """Three pairs."""
    return random_batch((3, 1, 6), (2, 5, 4))


def gradients(model: Seq2Seq, objective: Objective, pairs: Batch, kernels: Kernels = "auto") -> dict[str, Tensor]:
    """The objective and its gradients, by name."""
    model.zero_grad()
    network = fast.training(model, kernels, attention_gradients=objective.attention_gradients)
    loss = objective(network, pairs).objective
    loss.backward()
    return {"loss": loss.detach()} | {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


# --- scheduled sampling -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "shares"),
    [
        (1.0, {0: 0.5, 1: 1 / (1 + math.e), 10**18: 0.0}),
        (math.e**2, {2 * math.e**2: 0.5, 0: math.e**2 / (math.e**2 + 1)}),
        (1e30, {0: 1.0, 10**18: 1.0}),
    ],
)
def test_shares_by_hand(k: float, shares: dict[int, float]) -> None:
    assert {update: reference_share(k, update) for update in shares} == pytest.approx(shares, abs=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_share_of_one_is_teacher_forcing(variant: str) -> None:
    """To the last digit, and without a random number; the pass that chooses inputs chooses the references too."""
    model, forcing = small_model(variant).train(), TeacherForcing(0.1)
    sampling = ScheduledSampling(forcing, model, ALWAYS, ())
    before = torch.get_rng_state()
    found, wanted = gradients(model, sampling, batch()), gradients(model, forcing, batch())
    assert torch.equal(torch.get_rng_state(), before)
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert torch.equal(sampling.inputs(fast.training(model), batch(), 1.0), batch().target_input)


@pytest.mark.parametrize("kernels", ["plain", "auto"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_share_of_zero_is_greedy_search(variant: str, kernels: Kernels) -> None:
    """Against the likeliest token of a whole forward pass over everything before it; padding goes on like the rest."""
    model, pairs = small_model(variant), batch()
    inputs = ScheduledSampling(TeacherForcing(), model, ARGMAX, ()).inputs(fast.training(model, kernels), pairs, 0.0)
    wanted = pairs.target_input[:, :1]
    for _ in range(inputs.size(1) - 1):
        logits, _ = model(pairs.source, pairs.source_lengths, wanted)
        wanted = torch.cat((wanted, logits[:, -1:].argmax(-1)), 1)
    assert torch.equal(inputs, wanted)
    assert not torch.equal(inputs, pairs.target_input)


@pytest.mark.parametrize("kernels", ["plain", "auto"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_loss_is_that_of_the_chosen_inputs(variant: str, kernels: Kernels) -> None:
    """The targets stay the references, and no gradient passes through a choice."""
    model = small_model(variant).train()
    sampling = ScheduledSampling(TeacherForcing(), model, HALF, ())
    torch.manual_seed(7)
    found = gradients(model, sampling, batch(), kernels)
    assert model.training
    torch.manual_seed(7)
    inputs = sampling.inputs(fast.training(model, kernels), batch(), 0.5)
    assert not torch.equal(inputs, batch().target_input) and not inputs.requires_grad
    wanted = gradients(model, TeacherForcing(), replace(batch(), target_input=inputs), kernels)
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)


def unconditional(probabilities: list[float]) -> Seq2Seq:
    """A network that gives each token the same probability at every position."""
    model = small_model()
    model.output.weight.data.zero_()
    model.output.bias.data = torch.tensor([*probabilities, *[0.0] * (TARGET - len(probabilities))]).double().log()
    return model


def many(rows: int) -> Batch:
    """Pairs of one source and twenty target pieces, whose references have the id 9."""
    source = torch.full((rows, 1), 2)
    target = torch.full((rows, 20), 9)
    return Batch(source, torch.ones(rows, dtype=torch.long), target, target, target > 0, target.numel())


def test_each_position_keeps_its_reference_with_the_probability_of_the_share() -> None:
    model = unconditional([0.25, 0.75])
    torch.manual_seed(1)
    sampling = ScheduledSampling(TeacherForcing(), model, ARGMAX, ())
    inputs = sampling.inputs(model, many(2000), 0.3)[:, 1:]  # 38,000 draws: a standard deviation is 0.0024
    kept = inputs == 9
    assert kept.double().mean().item() == pytest.approx(0.3, abs=0.01)
    assert (inputs[~kept] == 1).all()
    both = (kept[:, 1:] & kept[:, :-1]).double().mean().item()
    assert both == pytest.approx(0.09, abs=0.01), "neighbors are independent"


@pytest.mark.parametrize(
    ("output", "forbidden", "expected"),
    [("sample", (), [0.4, 0.4, 0.15, 0.05]), ("sample", (0, 1), [0, 0, 0.75, 0.25]), ("argmax", (0, 1), [0, 0, 1, 0])],
)
def test_outputs_are_drawn_by_their_probability(output: Any, forbidden: tuple[int, ...], expected: list[float]) -> None:
    """What is forbidden is no output, however probable; the others share its probability. As much is drawn."""
    model = unconditional([0.4, 0.4, 0.15, 0.05])
    free = ScheduledSampling(TeacherForcing(), model, schema.ScheduledSampling(output=output), ())
    torch.manual_seed(2)
    free.inputs(model, many(1000), 0.0)
    drawn = torch.get_rng_state()
    torch.manual_seed(2)
    inputs = replace(free, forbidden=forbidden).inputs(model, many(1000), 0.0)[:, 1:]
    assert torch.equal(torch.get_rng_state(), drawn)
    shares = torch.bincount(inputs.flatten(), minlength=TARGET).double() / inputs.numel()
    assert shares[:4].tolist() == pytest.approx(expected, abs=0.015) and not shares[4:].any()
    assert not shares[list(forbidden)].any()


def test_training_forbids_what_search_forbids_and_guides_the_attention_of_the_chosen_inputs() -> None:
    training = Training.model_validate({"updates": 1, "scheduled_sampling": {}, "guided_attention": {"weight": 2.0}})
    specials = replace(SPECIALS, target_pad=7, target_bos=8)
    guided = objective_of(model_config("bahdanau").attention, training, small_model(), specials)
    assert isinstance(guided, GuidedAttention) and guided.weight == 2 and guided.attention_gradients
    assert isinstance(guided.inner, ScheduledSampling) and guided.inner.forbidden == (7, 8) and not guided.capturable


def test_inputs_are_chosen_without_dropout() -> None:
    model = small_model(dropout=dict.fromkeys(NO_DROPOUT, 0.5)).train()
    sampling = ScheduledSampling(TeacherForcing(), model, ARGMAX, ())
    chosen = [sampling.inputs(fast.training(model), batch(), 0.0) for _ in range(3)]
    chosen.append(sampling.inputs(fast.training(small_model()), batch(), 0.0))
    assert all(torch.equal(each, chosen[0]) for each in chosen)


@pytest.mark.parametrize("variant", SOFT)
def test_choosing_inputs_in_bf16_cuts_no_gradient(variant: str) -> None:
    """Autocast keeps the casts of the weights, and those of a pass without gradient have none."""
    model = small_model(variant).float().train()
    sampling = ScheduledSampling(TeacherForcing(), model, HALF, ())
    for kernels in ("plain", "auto"):
        model.zero_grad()
        compute = EagerGradients(model, sampling, Machine(torch.device("cpu"), torch.bfloat16, kernels))
        compute(batch(), 1)
        assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


# --- guided attention -------------------------------------------------------------------------------------------------


def test_links_by_hand() -> None:
    """A piece with one link and weight 1/4 there, one with two links and weights 1/2 and 1/8, one without."""
    links = torch.tensor([[[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]])
    weights = torch.tensor([[[0.75, 0.25, 0.0], [0.5, 0.375, 0.125], [0.0, 0.0, 1.0]]])
    wanted = math.log(4) + 0.5 * math.log(2) + 0.5 * math.log(8)
    assert links_guide(weights, links).item() == pytest.approx(wanted)
    assert links_guide(weights, links.flip(2)).isfinite(), "a weight of zero at a link"


@pytest.mark.parametrize("variant", [name for name in SOFT if small_model(name).attends])
def test_the_term_is_added_and_reaches_the_parameters(variant: str) -> None:
    """Loss and gradients against autograd through the plain network; the nll that is reported is unchanged."""
    model, pairs, forcing = small_model(variant).train(), batch(), TeacherForcing(0.1)
    links = torch.zeros(*pairs.target_mask.shape, pairs.source.size(1))
    links[:, ::2, :2] = 0.5
    pairs, objective = replace(pairs, links=links), GuidedAttention(forcing, 3.0)
    found = gradients(model, objective, pairs)
    model.zero_grad()
    _, weights = model(pairs.source, pairs.source_lengths, pairs.target_input)
    whole = forcing(model, pairs).objective + 3.0 * links_guide(weights, links)
    whole.backward()
    wanted = {"loss": whole.detach()} | {name: parameter.grad for name, parameter in model.named_parameters()}
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
    assert objective(model, pairs).nll == forcing(model, pairs).nll
