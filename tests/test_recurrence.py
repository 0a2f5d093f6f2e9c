"""The fused cells against PyTorch's modules, plain steps and numerical gradients."""

import math

import pytest
import torch
from torch import Tensor

from nmt.config import schema
from nmt.device import autocast
from nmt.fast.kernels.recurrence import Walked, cell_sequence
from nmt.fast.kernels.torch_steps import DotAttentionSteps
from nmt.fast.teacher_forcing import Unroll, unroll_feeding
from nmt.model import Memory, build_model
from nmt.model.attention import GeneralAttention
from nmt.model.decoders import LuongDecoder

STEPS, WAYS, HIDDEN, SENTENCES = 4, 2, 3, 2
CELLS: tuple[Walked, Walked] = ("gru", "lstm")
GATES = {"gru": 3, "lstm": 4}
WIDTHS = {"gru": 1, "lstm": 2}
PADDING = torch.tensor([[[0, 1], [1, 0]], [[0, 0], [1, 1]], [[0, 0], [0, 0]], [[1, 0], [1, 0]]]).bool()
"""(T, D, B), before, between and behind real tokens"""


def plain_step(cell: str, gates: Tensor, state: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One step in the papers' equations: gates (G, B), state (W, B), weight (G, H), bias (G,) -> state (W, B)."""
    offset = bias.unsqueeze(1)
    if cell == "lstm":
        hidden, memory = state.chunk(2)
        i, f, g, o = (gates + weight @ hidden + offset).chunk(4)
        memory = f.sigmoid() * memory + i.sigmoid() * g.tanh()
        return torch.cat((o.sigmoid() * memory.tanh(), memory))
    products = weight @ state + offset
    reset, update = ((gates + products)[k * HIDDEN : (k + 1) * HIDDEN].sigmoid() for k in range(2))
    inputs, product = gates[2 * HIDDEN :], products[2 * HIDDEN :]
    return (1 - update) * (inputs + reset * product).tanh() + update * state


def plain(cell: str, padding: Tensor | None, gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """All steps in all directions -> states (T, D, W, B)."""
    states, state = [], initial
    for t, step_gates in enumerate(gates):
        following = torch.stack([plain_step(cell, *each) for each in zip(step_gates, state, weight, bias, strict=True)])
        state = following if padding is None else torch.where(padding[t].unsqueeze(1), state, following)
        states.append(state)
    return torch.stack(states)


def inputs_of(cell: str, dtype: torch.dtype = torch.double) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    rows = GATES[cell] * HIDDEN
    shapes = [
        (STEPS, WAYS, rows, SENTENCES),
        (WAYS, WIDTHS[cell] * HIDDEN, SENTENCES),
        (WAYS, rows, HIDDEN),
        (WAYS, rows),
    ]
    return [torch.randn(each, generator=generator, dtype=torch.double).to(dtype).requires_grad_() for each in shapes]


def gradients(outputs: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(outputs.double().sin().sum(), inputs))


@pytest.mark.parametrize("padding", [None, PADDING], ids=["no padding", "padding"])
@pytest.mark.parametrize("cell", CELLS)
def test_cells_are_their_plain_steps(cell: Walked, padding: Tensor | None) -> None:
    inputs = inputs_of(cell)
    wanted = plain(cell, padding, *inputs)[:, :, :HIDDEN]
    gates, initial, weight, bias = inputs
    found = cell_sequence(cell, gates, initial, weight, bias, padding)
    assert torch.allclose(wanted, found, rtol=0, atol=1e-12)
    for d_one, d_other in zip(gradients(wanted, inputs), gradients(found, inputs), strict=True):
        assert torch.allclose(d_one, d_other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_bf16_products_leave_states_in_fp32(cell: Walked) -> None:
    """Against float64 of the same rounded inputs: an error of a few roundings to bf16."""
    gates, *others = inputs_of(cell)
    gates, others = gates.detach().bfloat16(), [each.detach().bfloat16().float().requires_grad_() for each in others]
    gates.requires_grad_()
    inputs = [gates, *others]
    exact = [each.detach().double().requires_grad_() for each in inputs]
    found, wanted = (
        cell_sequence(cell, gates, initial, weight, bias, PADDING) for gates, initial, weight, bias in (inputs, exact)
    )
    assert found.dtype == torch.bfloat16
    assert (wanted - found).norm() < 0.01 * wanted.norm()
    for d_one, d_other in zip(gradients(wanted, exact), gradients(found, inputs), strict=True):
        assert (d_one - d_other).norm() <= 0.02 * d_one.norm()


# --- with attention ---------------------------------------------------------------------------------------------------


def test_large_energies_are_not_rounded_to_bf16() -> None:
    """Energies 64 and 64.1875, which bf16 would both round to 64."""
    keys = torch.tensor([[[64.0, 0.0], [64.0, 0.1875], [0.0, 100.0]]]).bfloat16()
    mask = torch.tensor([[True, True, False]])
    attention = DotAttentionSteps(1, keys, torch.ones(1, 3, 2).bfloat16(), mask)
    attention.attend(0, torch.ones(2, 1).bfloat16())
    share = 1 / (1 + math.exp(0.1875))
    assert attention.weights[0, 0].tolist() == pytest.approx([share, 1 - share, 0], abs=2**-9)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_long_sequence_in_bf16_is_nearer_to_fp32_than_step_by_step(cell: str) -> None:
    """Gradients through 40 steps of Luong's decoder; a large part of its energies is common to all source positions."""
    section = {"type": cell, "hidden": 32}
    config = schema.Model.model_validate(
        {"attention": {"type": "luong", "score": "general"}, "encoder": section, "decoder": section}
    )
    torch.manual_seed(3)
    model = build_model(config, 50, 50)
    decoder, sentences, steps = model.decoder, 6, 40
    assert isinstance(decoder, LuongDecoder) and isinstance(decoder.attention, GeneralAttention)
    annotations = torch.tanh(torch.randn(sentences, steps, 64))
    annotations[..., 0] = 1
    decoder.attention.key.weight.data[0] = torch.eye(64)[0] * 256
    memory = Memory(annotations, annotations[:, 0], torch.ones(sentences, steps, dtype=torch.bool))
    embedded = torch.randn(sentences, steps, decoder.embedding_gates.in_features)
    readers = torch.randn(sentences, steps, decoder.readout_width)

    def gradient(unroll: Unroll, precision: torch.dtype) -> Tensor:
        model.zero_grad()
        with autocast(torch.device("cpu"), precision):
            readouts, _ = unroll(decoder, embedded, model.start(memory))
        (readouts * readers).sum().backward()
        return torch.cat([each.grad.flatten() for each in decoder.parameters() if each.grad is not None])

    exact = gradient(LuongDecoder.unroll, torch.float32)
    plain, fused = (
        float((gradient(unroll, torch.bfloat16) - exact).norm() / exact.norm())
        for unroll in (LuongDecoder.unroll, unroll_feeding)
    )
    assert fused < 0.8 * plain
