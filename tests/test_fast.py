"""The choice of fast twins: which systems have them; by a part's exact type, as plain kernels and the loss allow."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from nmt import fast
from nmt.config.schema import Kernels
from nmt.data.batching import Batch
from nmt.device import autocast
from nmt.fast import PlainSearch
from nmt.fast.recurrent import WALKED, reads
from nmt.fast.teacher_forcing import FastTraining, unroll_of
from nmt.training.gradients import EagerGradients, GraphedGradients, gradients_on
from nmt.training.objective import TeacherForcing, teacher_forcing
from nmt.training.world import Machine
from tests import graphs_on_cpu
from tests.models import (
    ATTENTIONS,
    RECORDED,
    REGISTERED,
    SPECIALS,
    TRANSFORMERS,
    VARIANTS,
    forward,
    model_config,
    small_model,
)

CPU = torch.device("cpu")
SOURCES, LENGTHS = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]]), torch.tensor([4, 2])
TARGETS = torch.tensor([[2, 9, 4], [2, 3, 12]])
NORMALIZED = {name for name in VARIANTS if "normalized" in name}
"""Cells with layer normalization."""
TRANSFORMER_ENCODERS = {name for name in TRANSFORMERS if not name.startswith("recurrent encoder")}
TRANSFORMER_DECODERS = {name for name in TRANSFORMERS if not name.startswith("transformer encoder")}
COVERAGE = {"coverage", "coverage after"}
STEP_BY_STEP = {
    # another score than the additive one before the update
    "bahdanau location",
    "local-p before",
    "heads",
    "hard by gumbel",
    # input feeding with another score than the dot product, general and additive ones, another readout, or layers
    "deep luong",
    "luong, maxout",
    "local-m",
    "local-p",
    "hard by reinforce",
}
"""Decoders whose steps run one by one in training: a state depends on a context, and no kernel walks both."""
WITHOUT_WALK = {"gru, reset before", "ssru before", "ssru"}
"""Cells whose sequences no kernel walks: the second product of a step waits for the first, or there is none."""


def test_which_systems_have_fast_twins() -> None:
    """All but these, of the variants that are named by hand."""
    models = {name: small_model(name) for name in VARIANTS.keys() - REGISTERED.keys()}
    assert isinstance(fast.training(models["bahdanau"], "auto"), FastTraining)
    assert fast.training(models["bahdanau"], "plain") is models["bahdanau"]
    plain = {name for name, model in models.items() if not reads(model.encoder, WALKED)}
    assert plain == NORMALIZED | TRANSFORMER_ENCODERS | WITHOUT_WALK
    decoders = NORMALIZED | TRANSFORMER_DECODERS | COVERAGE | {"hard", "hard, deep, local"}
    plain = {name for name, model in models.items() if unroll_of(model.decoder) is None}
    assert plain == decoders | STEP_BY_STEP | WITHOUT_WALK
    searched = {name: fast.search(model, torch.float32) for name, model in models.items()}
    assert {name for name, each in searched.items() if isinstance(each, PlainSearch)} == decoders


def test_graphs_are_for_fast_kernels_on_a_gpu_and_built_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part from outside may wait for the GPU; the exact marginal does."""
    graphs_on_cpu.install(monkeypatch)
    machines = Machine(CPU), Machine(torch.device("cuda"), kernels="plain"), Machine(torch.device("cuda"))
    kinds = [type(gradients_on(small_model(), TeacherForcing(), SPECIALS, machine)) for machine in machines]
    assert kinds == [EagerGradients, EagerGradients, GraphedGradients]
    assert {name for name in VARIANTS if fast.training(small_model(name)).capturable} == RECORDED


@pytest.mark.parametrize(
    ("variant", "kernels"), [*((name, "auto") for name in VARIANTS), *((name, "plain") for name in ATTENTIONS)]
)
def test_every_network_trains_and_searches_in_bf16(variant: str, kernels: Kernels) -> None:
    """Close to its fp32 self; every parameter gets a finite gradient of the objective that trains the variant."""
    model = small_model(variant).float()
    objective = teacher_forcing(model_config(variant).attention, model, 0.0)
    batch = Batch(SOURCES, LENGTHS, TARGETS, TARGETS.roll(-1, 1), torch.ones_like(TARGETS, dtype=torch.bool), 6)
    losses = []
    for precision in (torch.float32, torch.bfloat16):
        torch.manual_seed(1)
        network = fast.training(model, kernels, attention_gradients=objective.attention_gradients)
        with autocast(CPU, precision):
            loss = objective(network, batch)
        loss.objective.backward()
        losses.append(loss.nll.item())
        searched = fast.search(model, precision, kernels)
        with torch.inference_mode(), searched.searching():
            log_probs, _, _ = searched.step(TARGETS[:, 0], searched.start(searched.encode(SOURCES, LENGTHS)))
        assert log_probs.isfinite().all()
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.any() and parameter.grad.isfinite().all(), name


def other(module: Any, method: str, change: Callable[[Any], Any]) -> None:
    """Make the module one of a class of its own, made from a built-in one but not the same."""
    kind = type(module)
    methods = {method: lambda *given, **how: change(getattr(kind, method)(*given, **how))}
    module.__class__ = type("Other", (kind,), methods)


PARTS: dict[str, Callable[[Any], None]] = {
    "encoder": lambda model: other(model.encoder, "forward", lambda read: (2 * read[0], 2 * read[1])),
    "direction": lambda model: other(
        model.encoder.directions[-1][0], "forward", lambda read: (2 * read[0], 2 * read[1])
    ),
    "cell of the encoder": lambda model: other(
        model.encoder.directions[-1][0].cell, "forward", lambda state: state / 2
    ),
    "cell": lambda model: other(model.decoder.cell, "forward", lambda state: state / 2),
    "readout": lambda model: other(model.decoder.nonlinearity, "forward", lambda larger: -larger),
    "layer": lambda model: other(model.decoder.above[0], "add", lambda output: output + 1),
    "attention": lambda model: other(model.decoder.attention, "score", lambda energies: 3 * energies),
}


@pytest.mark.parametrize(
    ("variant", "part"),
    [*(("deep", part) for part in PARTS), *(("none", part) for part in [*PARTS][:5]), ("luong concat", "attention")],
)
def test_a_part_that_is_not_exactly_a_built_in_one_runs_as_it_is(variant: str, part: str) -> None:
    """In training and in search; nothing records its graphs."""
    model = small_model(variant)
    before, _ = model(SOURCES, LENGTHS, TARGETS)
    PARTS[part](model)
    logits, _ = model(SOURCES, LENGTHS, TARGETS)
    assert not torch.allclose(before, logits)
    network = fast.training(model)
    assert not network.capturable
    found, _ = forward(network, SOURCES, LENGTHS, TARGETS)
    assert torch.allclose(found, logits, atol=1e-12)
    for beam_size in (1, 2):
        searched = fast.search(model, torch.double)
        with torch.inference_mode():
            state = searched.start(searched.encode(SOURCES, LENGTHS), beam_size)
            for t in range(TARGETS.size(1)):
                log_probs, state, _ = searched.step(TARGETS[:, t], state)
                assert torch.allclose(log_probs, logits[:, t].log_softmax(-1).float(), atol=1e-6)
