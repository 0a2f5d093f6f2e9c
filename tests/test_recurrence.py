"""The fused cells against PyTorch's modules, plain steps and numerical gradients."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.config import schema
from nmt.device import autocast
from nmt.fast.kernels.attending import attending_sequence
from nmt.fast.kernels.feeding import feeding_sequence
from nmt.fast.kernels.gru_before import gru_before_sequence
from nmt.fast.kernels.recurrence import GRU, LSTM, Cell, cell_sequence, input_gates
from nmt.fast.kernels.ssru import ssru_sequence
from nmt.fast.kernels.torch_steps import DotAttention
from nmt.fast.teacher_forcing import Unroll, unroll_feeding
from nmt.model import Memory, build_model
from nmt.model.attention import GeneralAttention
from nmt.model.decoders import LuongDecoder

STEPS, WAYS, HIDDEN, SENTENCES = 4, 2, 3, 2
GATES = {"gru": 3, "lstm": 4, "gru before": 3, "ssru": 2}
WIDTHS = {"gru": 1, "lstm": 2, "gru before": 1, "ssru": 1}
PADDING = torch.tensor([[[0, 1], [1, 0]], [[0, 0], [1, 1]], [[0, 0], [0, 0]], [[1, 0], [1, 0]]]).bool()
"""(T, D, B), before, between and behind real tokens"""


def sequence(cell: str) -> Callable[..., tuple[Tensor, ...]]:
    """The kernel of a cell; the SSRU, which has none, ignores the weight and the bias of a recurrent product."""
    match cell:
        case "gru before":
            return lambda *inputs: (gru_before_sequence(*inputs),)
        case "ssru":
            return lambda gates, initial, _weight, _bias, padding=None: (ssru_sequence(gates, initial, padding),)
    return partial(cell_sequence, {"gru": GRU, "lstm": LSTM}[cell])


def plain_step(cell: str, gates: Tensor, state: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One step in the papers' equations: gates (G, B), state (W, B), weight (G, H), bias (G,) -> state (W, B)."""
    offset = bias.unsqueeze(1)
    if cell == "lstm":
        hidden, memory = state.chunk(2)
        i, f, g, o = (gates + weight @ hidden + offset).chunk(4)
        memory = f.sigmoid() * memory + i.sigmoid() * g.tanh()
        return torch.cat((o.sigmoid() * memory.tanh(), memory))
    if cell == "ssru":
        forget, inputs = gates.chunk(2)
        return forget.sigmoid() * state + (1 - forget.sigmoid()) * inputs
    products = weight @ state + offset
    reset, update = ((gates + products)[k * HIDDEN : (k + 1) * HIDDEN].sigmoid() for k in range(2))
    inputs, product = gates[2 * HIDDEN :], products[2 * HIDDEN :]
    if cell == "gru before":
        product = weight[2 * HIDDEN :] @ (reset * state) + offset[2 * HIDDEN :]
        return (1 - update) * (inputs + product).tanh() + update * state
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


def gradients(results: tuple[Tensor, ...], inputs: list[Tensor]) -> list[Tensor]:
    loss = torch.stack([(k + each.double()).sin().sum() for k, each in enumerate(results)]).sum()
    return list(torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True))


@pytest.mark.parametrize("padding", [None, PADDING], ids=["no padding", "padding"])
@pytest.mark.parametrize("cell", GATES)
def test_cells_are_their_plain_steps(cell: str, padding: Tensor | None) -> None:
    inputs = inputs_of(cell)
    states = plain(cell, padding, *inputs)
    found = sequence(cell)(*inputs, padding)
    wanted = (states[:, :, :HIDDEN], states[-1])[: len(found)]
    for one, other in zip(wanted, found, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-12)
    for d_one, d_other in zip(gradients(wanted, inputs), gradients(found, inputs), strict=True):
        assert torch.allclose(d_one, d_other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("padding", [None, PADDING], ids=["no padding", "padding"])
@pytest.mark.parametrize("cell", GATES)
def test_gradients_are_the_numerical_ones(cell: str, padding: Tensor | None) -> None:
    assert torch.autograd.gradcheck(lambda *inputs: sequence(cell)(*inputs, padding), inputs_of(cell))


@pytest.mark.parametrize("lengths", [[5, 5], [5, 2], [1, 4]])
def test_both_directions_are_those_of_the_librarys_lstm(lengths: list[int]) -> None:
    torch.manual_seed(1)
    library = nn.LSTM(3, HIDDEN, bidirectional=True, batch_first=True).double()
    inputs, most = torch.randn(2, max(lengths), 3, dtype=torch.double), max(lengths)
    packed = pack_padded_sequence(inputs, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    outputs, (hidden, memory) = library(packed)
    wanted, _ = pad_packed_sequence(outputs, batch_first=True)
    w_ih, w_hh, b_ih, b_hh = (
        torch.stack([getattr(library, f"{name}_l0{way}") for way in ("", "_reverse")])
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    both = torch.stack((inputs.transpose(0, 1), inputs.transpose(0, 1).flip(0)), 1)
    padded = (torch.arange(most) >= torch.tensor(lengths).unsqueeze(1)).T
    padding = torch.stack((padded, padded.flip(0)), 1)
    initial = inputs.new_zeros(2, 2 * HIDDEN, 2)
    found, last = cell_sequence(LSTM, input_gates(both, w_ih, b_ih), initial, w_hh, b_hh, padding)
    annotations = torch.cat((found[:, 0], found[:, 1].flip(0)), 1).permute(2, 0, 1)
    assert torch.allclose(annotations.masked_fill(padded.T.unsqueeze(-1), 0), wanted, rtol=0, atol=1e-12)
    assert torch.allclose(last, torch.cat((hidden, memory), -1).mT, rtol=0, atol=1e-12)


def test_the_parallel_form_of_the_ssru_is_its_steps() -> None:
    """c_t = P_t (c_0 + sum_k (1 - f_k) W x_k / P_k), P_t = f_1 ... f_t."""
    gates, initial, *_ = inputs_of("ssru")
    forget, inputs = gates.chunk(2, 2)
    kept = forget.sigmoid().cumprod(0)
    parallel = kept * (initial + ((1 - forget.sigmoid()) * inputs / kept).cumsum(0))
    assert torch.allclose(ssru_sequence(gates, initial), parallel, rtol=0, atol=1e-12)


def test_a_step_of_the_ssru_by_hand() -> None:
    """Forget gates 1/4 and 3/4; c_0 = 8, inputs 4 and 1: c_1 = 2 + 3 = 5, c_2 = 15/4 + 1/4 = 4."""
    gates = torch.tensor([[-1.0, 4.0], [1.0, 1.0]]).double()
    gates[:, 0] *= torch.tensor(3.0).double().log()
    states = ssru_sequence(gates.view(2, 1, 2, 1), torch.tensor([[[8.0]]]).double())
    assert states.flatten().tolist() == pytest.approx([5, 4])


@pytest.mark.parametrize("cell", GATES)
def test_bf16_products_leave_states_in_fp32(cell: str) -> None:
    """Against float64 of the same rounded inputs: an error of a few roundings to bf16."""
    gates, *others = inputs_of(cell)
    gates, others = gates.detach().bfloat16(), [each.detach().bfloat16().float().requires_grad_() for each in others]
    gates.requires_grad_()
    inputs = [gates, *others]
    exact = [each.detach().double().requires_grad_() for each in inputs]
    found, wanted = sequence(cell)(*inputs, PADDING), sequence(cell)(*exact, PADDING)
    assert found[0].dtype == torch.bfloat16
    for one, other in zip(wanted, found, strict=True):
        assert (one - other).norm() < 0.01 * one.norm()
    for d_one, d_other in zip(gradients(wanted, exact), gradients(found, inputs), strict=True):
        assert (d_one - d_other).norm() <= 0.02 * d_one.norm()


# --- with attention ---------------------------------------------------------------------------------------------------

SOURCES, UNITS, WIDTH, READOUT = 4, 2, 5, 2
MASK = torch.tensor([[True] * 4, [True, True, False, False]])


def random_inputs(shapes: list[tuple[int, ...]]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(4)
    return [torch.randn(each, generator=generator, dtype=torch.double).requires_grad_() for each in shapes]


@pytest.mark.parametrize(("cell", "rows", "width"), [(GRU, 3, 1), (LSTM, 4, 2)], ids=["gru", "lstm"])
def test_gradients_of_attending_are_the_numerical_ones(cell: Cell, rows: int, width: int) -> None:
    def results(*inputs: Tensor) -> tuple[Tensor, ...]:
        gates, initial, keys, annotations, recurrent, bias, query, energy, context = inputs
        weights = {"recurrent": recurrent, "bias": bias, "query": query, "energy": energy, "context": context}
        return attending_sequence(cell, gates, initial, keys, annotations, MASK, **weights)[:2]

    rows *= HIDDEN
    shapes: list[tuple[int, ...]] = [
        (3, rows, SENTENCES),
        (width * HIDDEN, SENTENCES),
        (SENTENCES, SOURCES, UNITS),
        (SENTENCES, SOURCES, WIDTH),
        (rows, HIDDEN),
        (rows,),
        (UNITS, HIDDEN),
        (UNITS,),
        (rows, WIDTH),
    ]
    assert torch.autograd.gradcheck(results, random_inputs(shapes))


@pytest.mark.parametrize("additive", [True, False], ids=["additive", "dot"])
@pytest.mark.parametrize(("cell", "rows", "width"), [(GRU, 3, 1), (LSTM, 4, 2)], ids=["gru", "lstm"])
def test_gradients_of_feeding_are_the_numerical_ones(cell: Cell, rows: int, width: int, additive: bool) -> None:
    def results(*inputs: Tensor) -> Tensor:
        gates, initial, fed, keys, values, recurrent, bias, combine, combine_bias, feeding, *score = inputs
        weights = {"recurrent": recurrent, "bias": bias, "combine": combine, "combine_bias": combine_bias}
        weights |= {"feeding": feeding} | dict(zip(("query", "energy"), score, strict=False))
        return feeding_sequence(cell, gates, initial, fed, keys, values, MASK, **weights)[0]

    rows *= HIDDEN
    shapes: list[tuple[int, ...]] = [
        (3, rows, SENTENCES),
        (width * HIDDEN, SENTENCES),
        (READOUT, SENTENCES),
        (SENTENCES, SOURCES, UNITS if additive else HIDDEN),
        (SENTENCES, SOURCES, READOUT),
        (rows, HIDDEN),
        (rows,),
        (READOUT, HIDDEN),
        (READOUT,),
        (rows, READOUT),
    ]
    assert torch.autograd.gradcheck(results, random_inputs(shapes + [(UNITS, HIDDEN), (UNITS,)] * additive))


def test_large_energies_are_not_rounded_to_bf16() -> None:
    """Energies 64 and 64.1875, which bf16 would both round to 64."""
    keys = torch.tensor([[[64.0, 0.0], [64.0, 0.1875], [0.0, 100.0]]]).bfloat16()
    mask = torch.tensor([[True, True, False]])
    attention = DotAttention(1, keys, torch.ones(1, 3, 2).bfloat16(), mask)
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
