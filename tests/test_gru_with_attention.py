"""The fused recurrences against their plain twins: loss, states, weights and every gradient."""

import itertools
import statistics
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nmt import fast
from nmt.config.schema import Kernels
from nmt.fast.recurrent import WALKED, reads
from nmt.fast.teacher_forcing import read_at_once, unroll_of
from nmt.model import Seq2Seq, build_model
from nmt.model.encoders import RecurrentEncoder
from tests.models import ATTENTIONS, SOURCE, TARGET, VARIANTS, forward, model_config

LENGTHS = {
    "mixed lengths": [5, 2, 1],
    "one sentence": [4],
    "length one": [1, 1],
    "equal lengths": [3, 3],
}


KERNELS: tuple[Kernels, Kernels] = ("plain", "auto")
NO_DROPOUT = {"embedding": 0.0, "annotation": 0.0, "readout": 0.0}


TWO_LAYERS: dict[str, Any] = {"encoder": {"hidden": 4, "layers": 2}}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in VARIANTS},
    **{f"{name}, two layers": (name, TWO_LAYERS) for name in ATTENTIONS},
}
"""A variant and sections in place of its own."""
CELLS = ["none", "bahdanau", "luong general without feeding", "lstm", "lstm luong", "deep"]
"""Variants that, between them, take every kernel."""


def network(name: str, *, seed: int = 1, dropout: dict[str, float] = NO_DROPOUT) -> Seq2Seq:
    torch.manual_seed(seed)
    variant, sections = NETWORKS[name]
    model = build_model(model_config(variant, **sections, dropout=dropout), SOURCE, TARGET).double()
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)
    return model


def outcome(
    model: Seq2Seq, kernels: Kernels, lengths: list[int], steps: int
) -> tuple[Tensor, Tensor | None, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(2)
    source = torch.randint(SOURCE, (len(lengths), max(lengths)), generator=generator)
    target = torch.randint(TARGET, (len(lengths), steps), generator=generator)
    logits, weights = forward(fast.training(model, kernels), source, torch.tensor(lengths), target)
    logits.sin().sum().backward()
    return logits.detach(), weights, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("lengths", "steps"), [(LENGTHS["mixed lengths"], 4), (LENGTHS["length one"], 1)])
@pytest.mark.parametrize("name", NETWORKS)
def test_fused_and_plain_networks_agree(name: str, lengths: list[int], steps: int) -> None:
    model = network(name)
    if not reads(model.encoder, WALKED) and unroll_of(model.decoder) is None:
        return  # both are the network itself
    plain, plain_weights, plain_gradients = outcome(network(name), "plain", lengths, steps)
    fused, fused_weights, fused_gradients = outcome(model, "auto", lengths, steps)
    assert torch.allclose(plain, fused, rtol=0, atol=1e-12)
    assert (plain_weights is None) == (fused_weights is None)
    if plain_weights is not None and fused_weights is not None:
        assert torch.allclose(plain_weights, fused_weights, rtol=0, atol=1e-12)
    assert plain_gradients.keys() == fused_gradients.keys()
    for parameter, gradient in plain_gradients.items():
        assert torch.allclose(gradient, fused_gradients[parameter], rtol=1e-9, atol=1e-12), parameter


@pytest.mark.parametrize("places", [["annotation"], [*NO_DROPOUT]], ids=",".join)
@pytest.mark.parametrize(
    "attention",
    ["none", "bahdanau", "luong general without feeding", "lstm luong", "ssru", "deep", "heads after, local"],
)
def test_fused_and_plain_networks_agree_with_dropout(attention: str, places: list[str]) -> None:
    """The library's GRU and LSTM have one layer: between several they draw from a generator of their own."""
    dropout = NO_DROPOUT | dict.fromkeys(places, 0.4)
    found = []
    for kernels in KERNELS:
        model = network(attention, dropout=dropout)
        torch.manual_seed(5)
        found.append(outcome(model, kernels, [5, 2, 1], 4))
    (plain, _, plain_gradients), (logits, _, gradients) = found
    assert torch.allclose(plain, logits, rtol=0, atol=1e-12)
    assert not torch.allclose(plain, outcome(network(attention), "plain", [5, 2, 1], 4)[0])
    for name, gradient in plain_gradients.items():
        assert torch.allclose(gradient, gradients[name], rtol=1e-9, atol=1e-12), name


@pytest.mark.parametrize("attention", CELLS)
def test_fp32_agrees_with_float64_to_1e_5(attention: str) -> None:
    model = network(attention)
    exact, _, exact_gradients = outcome(model, "auto", [5, 2, 1], 4)
    model.zero_grad()
    single, _, gradients = outcome(model.float(), "auto", [5, 2, 1], 4)
    assert torch.allclose(exact, single.double(), rtol=1e-5, atol=1e-5)
    largest = max(gradient.abs().max().item() for gradient in exact_gradients.values())
    for name, gradient in exact_gradients.items():
        assert torch.allclose(gradient, gradients[name].double(), rtol=1e-5, atol=1e-6 * largest), name


@pytest.mark.parametrize(
    "attention", ["bahdanau", "luong general", "luong general without feeding", "lstm", "lstm luong", "deep", "heads"]
)
@pytest.mark.parametrize("kernels", KERNELS)
def test_a_loss_on_the_attention_reaches_the_parameters(attention: str, kernels: Kernels) -> None:
    """With the same gradients, whatever the kernels."""
    found = []
    for each in ("plain", kernels):
        model = network(attention)
        twin = fast.training(model, each, attention_gradients=True)
        memory = twin.encode(torch.ones(2, 4).long(), torch.tensor([4, 3]))
        _, weights = twin.unroll(torch.ones(2, 3).long(), memory)
        assert weights is not None
        weights.sin().sum().backward()
        found.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    plain, fused = found
    assert plain.keys() == fused.keys() and any(name.startswith("encoder.") for name in plain)
    for name, gradient in plain.items():
        assert gradient.any() or "initial" in name, name
        assert torch.allclose(gradient, fused[name], rtol=1e-9, atol=1e-12), name


def test_dropout_between_encoder_layers_is_drawn_in_training_alone() -> None:
    config = model_config(encoder={"hidden": 4, "layers": 2}, dropout={"annotation": 0.5})
    model = build_model(config, SOURCE, TARGET)
    encoder, embedded, lengths = model.encoder, torch.randn(2, 3, 5), torch.tensor([3, 2])
    assert isinstance(encoder, RecurrentEncoder)
    first, second = (read_at_once(encoder, embedded, lengths)[0] for _ in range(2))
    assert not torch.equal(first, second)
    model.eval()
    first, second = (read_at_once(encoder, embedded, lengths)[0] for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("attention", CELLS)
def test_bf16_is_no_rougher_than_the_plain_path(attention: str) -> None:
    """Under autocast both paths round their products to bf16; the fused one may not lose much more by it.

    Of several networks the median: rounding can make the other of two readout units the larger.
    """
    outputs: dict[str, list[float]] = {name: [] for name in KERNELS}
    lost_gradients: dict[str, list[float]] = {name: [] for name in KERNELS}
    for seed, kernels in itertools.product(range(9), KERNELS):
        model = network(attention, seed=seed)
        exact, _, exact_gradients = outcome(model, kernels, [5, 2, 1], 4)
        model.float().zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            low, _, gradients = outcome(model, kernels, [5, 2, 1], 4)
        norm = torch.cat([gradient.flatten() for gradient in exact_gradients.values()]).norm()
        lost = torch.cat([(gradients[name] - gradient).flatten() for name, gradient in exact_gradients.items()]).norm()
        outputs[kernels].append(((low.double() - exact).norm() / exact.norm()).item())
        lost_gradients[kernels].append((lost / norm).item())
    for errors in (outputs, lost_gradients):
        assert statistics.median(errors["auto"]) <= 1.2 * statistics.median(errors["plain"])
        assert statistics.median(errors["auto"]) < 0.01
