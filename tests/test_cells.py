"""Recurrent cells against their equations and PyTorch's own; encoders of cells against PyTorch's."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.config import schema
from nmt.model import build_model
from nmt.model.cells import Cell, GruCell, LstmCell, SsruCell
from tests.models import SOURCE, TARGET, model_config

CELLS: dict[str, dict[str, Any]] = {
    "gru": {"type": "gru"},
    "reset before": {"type": "gru", "reset": "before"},
    "lstm": {"type": "lstm"},
    "ssru": {"type": "ssru"},
}


def cell(kind: str, hidden: int, **options: Any) -> Any:
    """A cell in double precision."""
    section: Any = model_config(encoder=CELLS[kind] | {"hidden": hidden} | options).encoder
    return schema.CELLS.build(section).double()


def encoder(**options: Any) -> Any:
    """An encoder of embeddings of 3 units, with 4 units in each direction."""
    sizes: dict[str, Any] = {"embeddings": {"size": 3}, "encoder": {"hidden": 4} | options}
    return build_model(model_config(**sizes), SOURCE, TARGET).double().encoder


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def filled(module: Any) -> Any:
    """The module in double precision with random parameters, gains and biases of normalizations too."""
    generator = torch.Generator().manual_seed(2)
    for parameter in module.double().parameters():
        nn.init.uniform_(parameter, -0.8, 0.8, generator=generator)
    return module


def test_ssru_by_hand() -> None:
    """f = sigmoid(ln 3) = 3/4: c' = 3/4 * 2 + 1/4 * -10 = -1, h' = 0."""
    ours = cell("ssru", 1)
    assert list(ours.parameters()) == []
    state = ours(torch.tensor([[math.log(3), -10.0]]), torch.tensor([[2.0]]))
    assert state.item() == pytest.approx(-1)
    assert ours.output(state).item() == 0
    assert ours.output(-state).item() == pytest.approx(1)


# --- layer normalization ----------------------------------------------------------------------------------------------


def normalized(norm: Any, x: Tensor) -> list[Tensor]:
    """Groups of gates, each by itself (Ba et al. 2016): (x - mean) / deviation * gain + bias."""
    parts = zip(x.split([len(each.weight) for each in norm.norms], -1), norm.norms, strict=True)
    scaled = [
        ((x - x.mean(-1, True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt(), each) for x, each in parts
    ]
    return [x * each.weight + each.bias for x, each in scaled]


def normalized_step(cell: Any, gates: Tensor, state: Tensor) -> Tensor:
    """The papers' equations with each product normalized; no product has a bias."""
    if isinstance(cell, SsruCell):
        keep, x = normalized(cell.input_norm, gates)
        return keep.sigmoid() * state + (1 - keep.sigmoid()) * x
    if isinstance(cell, LstmCell):
        h, c = state.chunk(2, -1)
        [x], [u] = normalized(cell.input_norm, gates), normalized(cell.recurrent_norm, h @ cell.recurrent.weight.T)
        i, f, g, o = (x + u).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        [shown] = normalized(cell.memory_norm, c)
        return torch.cat((o.sigmoid() * shown.tanh(), c), -1)
    both, x = normalized(cell.input_norm, gates)
    both_s, *rest = normalized(cell.recurrent_norm, state @ cell.recurrent.weight.T)
    r, z = (both + both_s).sigmoid().chunk(2, -1)
    if isinstance(cell, GruCell):
        n = (x + r * rest[0]).tanh()
    else:
        [u] = normalized(cell.candidate_norm, (r * state) @ cell.candidate_recurrent.weight.T)
        n = (x + u).tanh()
    return (1 - z) * n + z * state


@pytest.mark.parametrize("kind", CELLS)
def test_normalized_cells_by_their_equations(kind: str) -> None:
    ours: Cell = filled(cell(kind, 4, layer_norm=True))
    gates, state = random(5, ours.gates * 4), random(5, ours.width * 4, seed=3)
    assert torch.allclose(ours(gates, state), normalized_step(ours, gates, state))
    norms: Any = ours.input_norm.float().norms
    for norm in norms:  # a GPU normalizes in fp32 under autocast
        norm.register_forward_pre_hook(lambda _, given: given[0].float())
    assert ours.input_norm(gates.bfloat16()).dtype == torch.bfloat16, "an update of mixed precisions would be an error"


@pytest.mark.parametrize("kind", CELLS)
def test_no_bias_has_most_of_the_gradient_at_the_start(kind: str) -> None:
    """The first state of an encoder is zero, and a bias normalized by itself would have a gradient without bound."""
    layers: dict[str, Any] = {"hidden": 32, "layers": 2, "layer_norm": True} | CELLS[kind]
    sections = {"encoder": layers | {"directions": "forward"}, "decoder": layers, "embeddings": {"size": 32}}
    torch.manual_seed(1)
    model = build_model(model_config("luong dot", **sections), SOURCE, TARGET)
    source, target = torch.randint(SOURCE, (8, 12)), torch.randint(TARGET, (8, 12))
    readouts, _ = model.unroll(target, model.encode(source, torch.full((8,), 12)))
    model.loss(readouts, target, torch.ones_like(target, dtype=torch.bool), 0.0)[0].backward()
    norms = {name: each.grad.norm().item() for name, each in model.named_parameters() if each.grad is not None}
    whole = sum(norm**2 for norm in norms.values()) ** 0.5
    of_layers = {name: norm / whole for name, norm in norms.items() if "bias" in name and name != "output.bias"}
    assert max(of_layers.values()) < 0.25, max(of_layers, key=lambda name: of_layers[name])


# --- encoders of cells ------------------------------------------------------------------------------------------------

LENGTHS = torch.tensor([5, 1, 3])


@pytest.mark.parametrize("bidirectional", [True, False], ids=["both", "forward"])
@pytest.mark.parametrize("library", [nn.GRU, nn.LSTM])
def test_an_encoder_of_cells_is_pytorchs(library: type[nn.GRU | nn.LSTM], bidirectional: bool) -> None:
    """Annotations; the last forward and the first backward one, of which the backward one goes on."""
    rnn = filled(library(3, 4, 2, bidirectional=bidirectional, batch_first=True))
    section: dict[str, Any] = {"type": "gru" if library is nn.GRU else "lstm", "layers": 2}
    ours = encoder(**section, directions="both" if bidirectional else "forward")
    for layer, directions in enumerate(ours.directions):
        for suffix, direction in zip(("", "_reverse"), directions, strict=False):
            for part, name in ((direction.input_gates, "ih"), (direction.cell.recurrent, "hh")):
                theirs = [f"{what}_{name}_l{layer}{suffix}" for what in ("weight", "bias")]
                part.weight.data, part.bias.data = (getattr(rnn, each).data for each in theirs)
    embedded = random(3, 5, 3)
    packed = pack_padded_sequence(embedded, LENGTHS, batch_first=True, enforce_sorted=False)
    expected = pad_packed_sequence(rnn(packed)[0], batch_first=True, total_length=5)[0]
    annotations, summary = ours(embedded, LENGTHS)
    assert torch.allclose(annotations, expected)
    for i, length in enumerate(LENGTHS.tolist()):
        real = expected[i, :length]
        halves = (real[-1, :4], real[0, 4:]) if bidirectional else (real[-1],)
        assert torch.allclose(summary[i], torch.cat(halves))
    bridge = ours.bridge(summary)
    assert torch.equal(bridge, summary[:, 4:] if bidirectional else summary)
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
