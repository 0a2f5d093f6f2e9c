"""The fast twins of training against the plain network: loss, states, attention weights and every gradient."""

import itertools
import math
import statistics
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt import fast
from nmt.config.schema import Kernels
from nmt.fast.kernels.products import add_product, product
from nmt.fast.kernels.recurrence import Walked, cell_sequence
from nmt.fast.kernels.torch_steps import AttentionSteps, DotAttentionSteps
from nmt.fast.recurrent import WALKED, reads
from nmt.fast.teacher_forcing import unroll_of
from nmt.model import Seq2Seq
from tests.models import ATTENTIONS, NO_DROPOUT, SOURCE, TARGET, VARIANTS, forward, small_model

LENGTHS, STEPS = [5, 2, 1], 4
KERNELS: tuple[Kernels, Kernels] = ("plain", "auto")
CELLS = ["none", "bahdanau", "luong general without feeding", "lstm", "lstm luong", "deep"]
"""Variants that, between them, take every kernel."""
Outcome = tuple[Tensor, Tensor | None, dict[str, Tensor]]


def network(name: str, *, seed: int = 1, dropout: dict[str, float] = NO_DROPOUT) -> Seq2Seq:
    variant, deep, _ = name.partition(", two layers")
    layers = {"encoder": {"hidden": 4, "layers": 2}} if deep else {}
    return small_model(variant, seed, **layers, dropout=dropout).train()


FUSED = [name for name in VARIANTS if reads((made := network(name)).encoder, WALKED) or unroll_of(made.decoder)]
"""The others have no fused part."""


def outcome(model: Seq2Seq, kernels: Kernels, lengths: list[int] = LENGTHS, steps: int = STEPS) -> Outcome:
    """Logits, attention weights, and the gradient of each parameter."""
    generator = torch.Generator().manual_seed(2)
    source = torch.randint(SOURCE, (len(lengths), max(lengths)), generator=generator)
    target = torch.randint(TARGET, (len(lengths), steps), generator=generator)
    logits, weights = forward(fast.training(model, kernels), source, torch.tensor(lengths), target)
    logits.sin().sum().backward()
    return logits.detach(), weights, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def check_equal(plain: Outcome, fused: Outcome) -> None:
    torch.testing.assert_close(plain[:2], fused[:2], rtol=0, atol=1e-12)
    torch.testing.assert_close(plain[2], fused[2], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("lengths", "steps"), [(LENGTHS, STEPS), ([1, 1], 1)])
@pytest.mark.parametrize("name", [*FUSED, *(f"{name}, two layers" for name in ATTENTIONS)])
def test_fused_and_plain_networks_agree(name: str, lengths: list[int], steps: int) -> None:
    check_equal(outcome(network(name), "plain", lengths, steps), outcome(network(name), "auto", lengths, steps))


@pytest.mark.parametrize("name", VARIANTS)
def test_no_layer_copies_its_weight_for_each_sentence(name: str) -> None:
    """As PyTorch does without gradient where the rows of a batch cannot be seen as one matrix."""
    model, tokens, read = network(name), torch.ones(2, 3, dtype=torch.long), list[Tensor]()
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.register_forward_pre_hook(lambda _, inputs: read.extend(inputs))
    with torch.inference_mode():
        forward(fast.training(model), tokens, torch.tensor([3, 2]), tokens[:, :2])
    assert read and all(rows.flatten(0, -2).data_ptr() == rows.data_ptr() for rows in read)


@pytest.mark.parametrize(("learns", "kept"), [(True, STEPS), (False, 1)])
def test_a_pass_without_gradients_has_the_memory_of_one_step(
    learns: bool, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, tokens = list[AttentionSteps](), torch.ones(2, STEPS, dtype=torch.long)

    def make(*args: Any) -> AttentionSteps:
        made.append(AttentionSteps(*args))
        return made[0]

    monkeypatch.setattr("nmt.fast.kernels.torch_steps.AttentionSteps", make)
    with torch.set_grad_enabled(learns):
        forward(fast.training(network("bahdanau")), tokens, torch.tensor([STEPS, 2]), tokens)
    assert made[0].sigmoids.untyped_storage().nbytes() == kept * made[0].keys.nbytes


@pytest.mark.parametrize("places", [["annotation"], [*NO_DROPOUT]], ids=",".join)
@pytest.mark.parametrize(
    "name", ["none", "bahdanau", "luong general without feeding", "lstm luong", "ssru", "deep", "heads after, local"]
)
def test_fused_and_plain_networks_agree_with_dropout(name: str, places: list[str]) -> None:
    found = []
    for kernels in KERNELS:
        model = network(name, dropout=NO_DROPOUT | dict.fromkeys(places, 0.4))
        torch.manual_seed(5)
        found.append(outcome(model, kernels))
    check_equal(*found)
    assert not torch.allclose(found[0][0], outcome(network(name), "plain")[0])


@pytest.mark.parametrize(("cell", "rows", "width"), [("gru", 3, 1), ("lstm", 4, 2)])
def test_a_state_stays_what_it_was_at_padding(cell: Walked, rows: int, width: int) -> None:
    """Between real tokens too, where no batch has any; against numerical gradients."""
    steps, directions, hidden, sentences = 4, 2, 2, 2
    generator = torch.Generator().manual_seed(3)
    padding = torch.rand(steps, directions, sentences, generator=generator) < 0.5
    shapes = (steps, directions, rows * hidden, sentences), (directions, width * hidden, sentences)
    inputs = [
        torch.randn(shape, generator=generator, dtype=torch.double).requires_grad_()
        for shape in (*shapes, (directions, rows * hidden, hidden), (directions, rows * hidden))
    ]

    def run(gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return cell_sequence(cell, gates, initial, weight, bias, padding)

    outputs = run(*inputs)
    same = (outputs[1:] == outputs[:-1]).all(2)
    assert torch.equal(same, padding[1:]) and padding[1:].any()
    assert torch.autograd.gradcheck(run, inputs)


# --- rounding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CELLS)
def test_fp32_agrees_with_float64_to_1e_5(name: str) -> None:
    model = network(name)
    exact, _, exact_gradients = outcome(model, "auto")
    model.zero_grad()
    single, _, gradients = outcome(model.float(), "auto")
    assert torch.allclose(exact, single.double(), rtol=1e-5, atol=1e-5)
    largest = max(gradient.abs().max().item() for gradient in exact_gradients.values())
    for parameter, gradient in exact_gradients.items():
        assert torch.allclose(gradient, gradients[parameter].double(), rtol=1e-5, atol=1e-6 * largest), parameter


@pytest.mark.parametrize("name", CELLS)
def test_bf16_is_no_rougher_than_the_plain_path(name: str) -> None:
    """Under autocast both paths round their products to bf16; the fused one may not lose much more by it.

    Of several networks the median: rounding can make the other of two readout units the larger.
    """
    errors: dict[tuple[Kernels, str], list[float]] = {}
    for seed, kernels in itertools.product(range(9), KERNELS):
        model = network(name, seed=seed)
        exact, _, exact_gradients = outcome(model, kernels)
        model.float().zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            low, _, gradients = outcome(model, kernels)
        norm = torch.cat([gradient.flatten() for gradient in exact_gradients.values()]).norm()
        lost = torch.cat([(gradients[name] - gradient).flatten() for name, gradient in exact_gradients.items()]).norm()
        errors.setdefault((kernels, "outputs"), []).append(((low.double() - exact).norm() / exact.norm()).item())
        errors.setdefault((kernels, "gradients"), []).append((lost / norm).item())
    medians = {key: statistics.median(values) for key, values in errors.items()}
    for what in ("outputs", "gradients"):
        assert medians["auto", what] <= 1.2 * medians["plain", what]
        assert medians["auto", what] < 0.01


def test_large_energies_are_not_rounded_to_bf16() -> None:
    """Energies 64 and 64.1875, which bf16 would both round to 64."""
    keys = torch.tensor([[[64.0, 0.0], [64.0, 0.1875], [0.0, 100.0]]]).bfloat16()
    mask = torch.tensor([[True, True, False]])
    attention = DotAttentionSteps(1, keys, torch.ones(1, 3, 2).bfloat16(), mask)
    attention.attend(0, torch.ones(2, 1).bfloat16())
    share = 1 / (1 + math.exp(0.1875))
    assert attention.weights[0, 0].tolist() == pytest.approx([share, 1 - share, 0], abs=2**-9)


@pytest.mark.parametrize("library", ["fastest", "PyTorch's"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3, 5, 7), (33, 17, 1), (0, 4, 3), (2, 3, 4, 5)], ids=str)
def test_products(shape: tuple[int, ...], dtype: torch.dtype, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of matrices as they lie in memory, transposed or cut out; the last are two side by side."""
    if library == "PyTorch's":
        monkeypatch.setattr("nmt.fast.kernels.products._LINEAR", None)
    *several, m, k, n = shape
    torch.manual_seed(1)
    wide, right, addend = (torch.randn(*several, *each, dtype=dtype) for each in ((m, k + 3), (k, n), (m, 1)))
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
    close: dict[str, Any] = {"rtol": tolerance, "atol": 10 * tolerance, "check_dtype": False}
    for left in (wide[..., :k], wide[..., :k].contiguous(), wide[..., :k].mT.contiguous().mT):
        for other in (right, right.mT.contiguous().mT):
            exact = left.double() @ other.double()
            torch.testing.assert_close(product(left, other), exact, **close)
            torch.testing.assert_close(add_product(addend, left, other), exact + addend, **close)
