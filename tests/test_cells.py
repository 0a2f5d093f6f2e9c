"""Recurrent cells against hand-worked steps, PyTorch's own and NumPy; encoders of cells against PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.config import schema
from nmt.model import build_model
from nmt.model.cells import Cell, GruCell, LstmCell, ResetBeforeGruCell, SsruCell, cell_of
from nmt.model.encoders import RecurrentEncoder
from tests.models import SOURCE, TARGET, model_config, recurrent, small_model

Array = npt.NDArray[np.float64]
CELLS: dict[str, dict[str, Any]] = {
    "gru": {"type": "gru"},
    "reset before": {"type": "gru", "reset": "before"},
    "lstm": {"type": "lstm"},
    "ssru": {"type": "ssru"},
}


def cell(kind: str, hidden: int, **options: Any) -> Any:
    """A cell in double precision."""
    section = model_config(encoder=CELLS[kind] | {"hidden": hidden} | options).encoder
    assert isinstance(section, schema.Recurrence)
    return cell_of(section).double()


def encoder(**options: Any) -> RecurrentEncoder:
    """An encoder of embeddings of 3 units, with 4 units in each direction."""
    sizes: dict[str, Any] = {"embeddings": {"size": 3}, "encoder": {"hidden": 4} | options}
    made = build_model(model_config(**sizes), SOURCE, TARGET).double().encoder
    assert isinstance(made, RecurrentEncoder)
    return made


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def filled(module: Any, seed: int = 2) -> Any:
    """The module in double precision with random parameters, gains and biases of normalizations too."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.double().parameters():
        nn.init.uniform_(parameter, -0.8, 0.8, generator=generator)
    return module


@pytest.fixture(params=CELLS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- the cells --------------------------------------------------------------------------------------------------------


def test_gru_is_pytorchs() -> None:
    expected, ours = filled(nn.GRUCell(3, 4)), cell("gru", 4)
    ours.recurrent.weight, ours.recurrent.bias = expected.weight_hh, expected.bias_hh
    inputs, state = random(5, 3), random(5, 4, seed=3)
    assert torch.allclose(ours(inputs @ expected.weight_ih.T + expected.bias_ih, state), expected(inputs, state))


def test_lstm_is_pytorchs() -> None:
    expected, ours = filled(nn.LSTMCell(3, 4)), cell("lstm", 4)
    ours.recurrent.weight, ours.recurrent.bias = expected.weight_hh, expected.bias_hh
    inputs, state = random(5, 3), random(5, 8, seed=3)
    found = ours(inputs @ expected.weight_ih.T + expected.bias_ih, state)
    assert torch.allclose(found, torch.cat(expected(inputs, state.chunk(2, -1)), -1))
    assert torch.equal(ours.output(found), found[:, :4])


def test_reset_before_by_hand() -> None:
    """One unit: s = 2, r = sigmoid(0) = 1/2, z = sigmoid(ln 3) = 3/4, n = tanh(1 + 0.5 * 1/2 * 2) = tanh(1.5)."""
    ours = cell("reset before", 1)
    for parameter in ours.parameters():
        parameter.data.zero_()
    ours.candidate_recurrent.weight.data.fill_(0.5)
    gates = torch.tensor([[0.0, np.log(3), 1.0]]).double()
    found = ours(gates, torch.tensor([[2.0]]).double()).item()
    assert found == pytest.approx(0.25 * np.tanh(1.5) + 0.75 * 2)


def test_ssru_by_hand() -> None:
    """f = sigmoid(ln 3) = 3/4: c' = 3/4 * 2 + 1/4 * -10 = -1, h' = 0."""
    ours = cell("ssru", 1)
    assert list(ours.parameters()) == []
    state = ours(torch.tensor([[float(np.log(3)), -10.0]]), torch.tensor([[2.0]]))
    assert state.item() == pytest.approx(-1)
    assert ours.output(state).item() == 0
    assert ours.output(-state).item() == pytest.approx(1)


@pytest.mark.parametrize("normalize", [False, True], ids=["plain", "normalized"])
def test_unrolling_is_stepping(kind: str, normalize: bool) -> None:
    ours = filled(cell(kind, 3, layer_norm=normalize))
    gates, state = random(2, 5, ours.gates * 3), random(2, ours.width * 3, seed=3)
    states = ours.unroll(gates, state)
    for t in range(5):
        state = ours(gates[:, t], state)
        assert torch.allclose(states[:, t], state)


# --- layer normalization ----------------------------------------------------------------------------------------------


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def normalized(x: Array, norm: nn.Module) -> Array:
    """Ba et al. 2016: (x - mean) / deviation * gain + bias, over the last axis."""
    gain, bias = (parameter.detach().numpy() for parameter in norm.parameters())
    centred = x - x.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain + bias)


def parts(norm: Any, x: Array) -> list[Array]:
    """The groups of gates, each normalized by itself."""
    pieces, begin = [], 0
    for each in norm.norms:
        (size,) = each.normalized_shape
        pieces.append(normalized(x[..., begin : begin + size], each))
        begin += size
    assert begin == x.shape[-1]
    return pieces


def product(layer: nn.Linear, x: Array) -> Array:
    assert layer.bias is None  # the normalization has one
    return np.asarray(x @ layer.weight.detach().numpy().T)


def normalized_gru(cell: GruCell, gates: Array, s: Array) -> Array:
    both, new = parts(cell.input_norm, gates)
    both_s, new_s = parts(cell.recurrent_norm, product(cell.recurrent, s))
    r, z = np.split(sigmoid(both + both_s), 2, -1)
    return np.asarray((1 - z) * np.tanh(new + r * new_s) + z * s)


def normalized_reset_before(cell: ResetBeforeGruCell, gates: Array, s: Array) -> Array:
    both, new = parts(cell.input_norm, gates)
    (both_s,) = parts(cell.recurrent_norm, product(cell.recurrent, s))
    r, z = np.split(sigmoid(both + both_s), 2, -1)
    (new_s,) = parts(cell.candidate_norm, product(cell.candidate_recurrent, r * s))
    return np.asarray((1 - z) * np.tanh(new + new_s) + z * s)


def normalized_lstm(cell: LstmCell, gates: Array, state: Array) -> Array:
    h, c = np.split(state, 2, -1)
    (x,), (u,) = parts(cell.input_norm, gates), parts(cell.recurrent_norm, product(cell.recurrent, h))
    i, f, g, o = np.split(x + u, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    (shown,) = parts(cell.memory_norm, c)
    return np.concatenate((sigmoid(o) * np.tanh(shown), c), -1)


def normalized_ssru(cell: SsruCell, gates: Array, c: Array) -> Array:
    keep, x = parts(cell.input_norm, gates)
    f = sigmoid(keep)
    return np.asarray(f * c + (1 - f) * x)


NORMALIZED: dict[str, Callable[..., Array]] = {
    "gru": normalized_gru,
    "reset before": normalized_reset_before,
    "lstm": normalized_lstm,
    "ssru": normalized_ssru,
}


def test_layer_normalization_against_numpy(kind: str) -> None:
    ours: Cell = filled(cell(kind, 4, layer_norm=True))
    gates, state = random(5, ours.gates * 4), random(5, ours.width * 4, seed=3)
    found = ours(gates, state).detach().numpy()
    assert np.allclose(found, NORMALIZED[kind](ours, gates.numpy(), state.numpy()))
    # a GPU normalizes in fp32 under autocast; an update of mixed precisions would be an error
    assert ours.input_norm.bfloat16()(gates.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("part", [*CELLS, "deep transition"])
def test_no_bias_has_most_of_the_gradient_at_the_start(part: str) -> None:
    """The first state of an encoder is zero, and a bias normalized by itself would have a gradient without bound."""
    chosen = CELLS.get(part, {"type": "lstm", "transitions": 2})
    layers: dict[str, Any] = {"hidden": 32, "layers": 2, "layer_norm": True} | chosen
    sections = {"encoder": layers | {"directions": "forward"}, "decoder": layers, "embeddings": {"size": 32}}
    model = build_model(model_config("luong dot", **sections), SOURCE, TARGET)
    torch.manual_seed(1)
    source, target = torch.randint(SOURCE, (8, 12)), torch.randint(TARGET, (8, 12))
    readouts, _ = model.unroll(target, model.encode(source, torch.full((8,), 12)))
    model.loss(readouts, target, torch.ones_like(target, dtype=torch.bool), 0.0)[0].backward()
    norms = {name: each.grad.norm().item() for name, each in model.named_parameters() if each.grad is not None}
    whole = sum(norm**2 for norm in norms.values()) ** 0.5
    of_layers = {name: norm / whole for name, norm in norms.items() if "bias" in name and name != "output.bias"}
    assert max(of_layers.values()) < 0.25, max(of_layers, key=lambda name: of_layers[name])


# --- deep transition --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_deep_transition_is_pytorchs_cells_in_a_row(kind: str) -> None:
    """The upper cells read an input of zero, and their biases."""
    library: type[nn.GRUCell | nn.LSTMCell] = nn.GRUCell if kind == "gru" else nn.LSTMCell
    expected = [filled(library(3, 4), seed) for seed in (1, 2, 3)]
    ours = cell(kind, 4, transitions=3)
    for each, theirs in zip((ours.first, *ours.others), expected, strict=True):
        each.recurrent.weight.data, each.recurrent.bias.data = theirs.weight_hh.data, theirs.bias_hh.data
    for theirs in expected[1:]:
        theirs.bias_ih.data.zero_()
    inputs, state = random(5, 3), random(5, ours.width * 4, seed=3)
    found = ours(inputs @ expected[0].weight_ih.T + expected[0].bias_ih, state)
    value: Any = state if kind == "gru" else state.chunk(2, -1)
    for place, theirs in enumerate(expected):
        value = theirs(torch.zeros_like(inputs) if place else inputs, value)
    assert torch.allclose(found, value if kind == "gru" else torch.cat(value, -1))


def test_normalized_upper_cells_of_a_deep_transition_normalize_no_zeros() -> None:
    deep = cell("gru", 4, transitions=3, layer_norm=True)
    assert {name.partition(".")[0] for name, _ in deep.named_parameters() if "input_norm" in name} == {"first"}


# --- encoders of cells ------------------------------------------------------------------------------------------------

LENGTHS = torch.tensor([5, 1, 3])


@pytest.mark.parametrize("mean", [False, True], ids=["last", "mean"])
@pytest.mark.parametrize("bidirectional", [True, False], ids=["both", "forward"])
@pytest.mark.parametrize("library", [nn.GRU, nn.LSTM])
def test_an_encoder_of_cells_is_pytorchs(library: type[nn.GRU | nn.LSTM], bidirectional: bool, mean: bool) -> None:
    """Annotations; the last forward and the first backward one, of which the backward one goes on, or the mean."""
    rnn = filled(library(3, 4, 2, bidirectional=bidirectional, batch_first=True))
    section: dict[str, Any] = {"type": "gru" if library is nn.GRU else "lstm", "layers": 2}
    section |= {"directions": "both" if bidirectional else "forward", "summary": "mean" if mean else "last"}
    ours = encoder(**section)
    for layer, directions in enumerate(ours.directions):
        for suffix, direction in zip(("", "_reverse"), directions, strict=False):
            assert isinstance(direction.cell, GruCell | LstmCell)
            for part, name in ((direction.input_gates, "ih"), (direction.cell.recurrent, "hh")):
                part.weight.data, part.bias.data = (
                    getattr(rnn, f"{what}_{name}_l{layer}{suffix}").data for what in ("weight", "bias")
                )
    embedded = random(3, 5, 3)
    packed = pack_padded_sequence(embedded, LENGTHS, batch_first=True, enforce_sorted=False)
    expected = pad_packed_sequence(rnn(packed)[0], batch_first=True, total_length=5)[0]
    annotations, summary = ours(embedded, LENGTHS)
    assert torch.allclose(annotations, expected)
    for i, length in enumerate(LENGTHS.tolist()):
        real = expected[i, :length]
        halves = (real[-1, :4], real[0, 4:]) if bidirectional else (real[-1],)
        assert torch.allclose(summary[i], real.mean(0) if mean else torch.cat(halves))
    bridge = ours.bridge(summary)
    assert torch.equal(bridge, summary[:, 4:] if bidirectional and not mean else summary)
    assert (ours.width, ours.bridge_width) == (annotations.size(2), bridge.size(1))


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_under_autocast_in_bf16_states_stay_in_fp32(kind: str) -> None:
    """PyTorch's own recurrences would run in fp16 on a GPU, without the scaling of losses that fp16 needs."""
    ours = encoder(**CELLS[kind], layers=2).float()
    assert not [module for module in ours.modules() if isinstance(module, nn.RNNBase)]
    states: list[torch.dtype] = []
    for way in ours.directions[0]:
        way.cell.register_forward_hook(lambda cell, inputs, state: states.append(state.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        annotations, summary = ours(random(3, 5, 3).float(), LENGTHS)
    assert {*states, annotations.dtype, summary.dtype} == {torch.float32}


def test_residual_layers_add_what_they_read() -> None:
    """Layer by layer with the same parts; what is added is not dropped."""
    ours, embedded = filled(encoder(layers=3, residual=True)), random(3, 5, 3)
    mask = torch.arange(5) < LENGTHS.unsqueeze(1)
    below = embedded
    for above, directions in enumerate(ours.directions):
        read = [direction(below, mask, backward=way == 1)[0] for way, direction in enumerate(directions)]
        below = torch.cat(read, -1) + (below if above else 0)
    assert torch.allclose(ours(embedded, LENGTHS)[0], below * mask.unsqueeze(-1))
    for directions in ours.directions[1:]:  # with cells that output zero, the connection is all that is left
        for parameter in (each for direction in directions for each in direction.parameters()):
            parameter.data.zero_()
    whole, _ = ours(embedded, LENGTHS)
    ours.dropout.p = 0.5
    assert torch.equal(ours.train()(embedded, LENGTHS)[0], whole)


# --- decoders ---------------------------------------------------------------------------------------------------------


def test_a_stack_of_lstm_layers_is_pytorchs() -> None:
    """Sutskever's decoder: no context, so the stack is nn.LSTM from the same first states."""
    sections = recurrent(
        {"type": "lstm", "directions": "forward"},
        {"type": "lstm", "layers": 3},
        {"type": "none", "context": "initial_state"},
    )
    model = small_model("bahdanau", **sections)
    decoder: Any = model.decoder
    expected = nn.LSTM(5, 8, 3, batch_first=True).double()
    parts = [(decoder.embedding_gates, decoder.cell), *((each.input_gates, each.cell) for each in decoder.upper)]
    for layer, (of_input, cell) in enumerate(parts):
        for name, part in (("ih", of_input), ("hh", cell.recurrent)):
            getattr(expected, f"weight_{name}_l{layer}").data = part.weight.data
            getattr(expected, f"bias_{name}_l{layer}").data = part.bias.data
    tokens = torch.tensor([[2, 9, 4], [3, 3, 1]])
    memory = model.encode(torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([3, 3]))
    state: Any = model.start(memory)
    starts = [each.chunk(2, -1) for each in (state.hidden, *state.upper)]
    embedded = model.embed_target(tokens, 0)
    first = (torch.stack([h for h, _ in starts]).contiguous(), torch.stack([c for _, c in starts]).contiguous())
    outputs, _ = expected(embedded, first)
    units = decoder.state_readout(outputs) + decoder.embedding_readout(embedded)
    readouts, _ = decoder.unroll(embedded, state)
    assert torch.allclose(readouts, torch.maximum(units[..., ::2], units[..., 1::2]))


def test_residual_decoder_layers_add_what_they_read() -> None:
    decoder: Any = small_model("deep").decoder
    layer = decoder.upper[0]
    below, state = random(2, 8), random(2, 8, seed=3)
    output, after = layer(below, state)
    assert torch.allclose(output, layer.cell.output(after) + below)
    assert torch.allclose(layer.unroll(below.unsqueeze(1), state).squeeze(1), output)
