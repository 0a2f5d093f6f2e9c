"""Dropout from our own generator, and where a network drops units."""

import pytest
import torch
from torch import Tensor

from nmt.model import Seq2Seq
from nmt.model.dropout import Dropout, dropout
from tests.models import BAHDANAU, recurrent, small_model


@pytest.mark.parametrize("p", [0.1, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_so_many_are_dropped_and_the_mean_stays(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    x = torch.ones(400, 501, dtype=dtype, requires_grad=True)
    out = dropout(x, p)  # 2 * 10^5 draws: a standard deviation is at most 0.0011
    assert out.dtype == dtype
    kept = out != 0
    assert 1 - kept.double().mean().item() == pytest.approx(p, abs=0.006)
    assert torch.equal(out[kept], torch.full_like(out[kept], 1 / (1 - p)))
    rows = kept.double().mean(1)  # no row or column is treated differently
    assert (rows - (1 - p)).abs().max() < 0.15 and (kept.double().mean(0) - (1 - p)).abs().max() < 0.17
    [gradient] = torch.autograd.grad(out.sum(), x)
    assert torch.equal(gradient, out)


def test_the_seed_of_pytorch_is_the_seed_and_neighbors_are_independent() -> None:
    """Four numbers come from one word of the generator."""
    x = torch.ones(200_000)
    torch.manual_seed(2)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(2)
    assert torch.equal(dropout(x, 0.5), first) and not torch.equal(first, second)
    torch.manual_seed(3)
    assert not torch.equal(dropout(x, 0.5), first)
    kept = (first != 0).double() - 0.5
    for apart in (1, 2, 3, 4):
        assert abs((kept[apart:] * kept[:-apart]).mean().item()) < 0.25 * 0.02


def test_all_or_nothing() -> None:
    x = torch.randn(50)
    assert torch.equal(dropout(x, 0.0), x)
    assert not dropout(x, 1.0).any()
    layer = Dropout(0.5)
    assert not torch.equal(layer(x), x)
    assert torch.equal(layer.eval()(x), x)


# --- in a network -----------------------------------------------------------------------------------------------------

SOURCES, LENGTHS = torch.tensor([[5, 4, 3, 6], [4, 5, 7, 0]]), torch.tensor([4, 3])
TARGETS = torch.tensor([[1, 4, 3, 5, 6], [1, 5, 7, 3, 2]])
DROPPED = {
    "embedding": {"source embeddings", "target embeddings"},
    "annotation": {"annotations", "summary"},
    "readout": {"readouts"},
}
"""What the units belong to that are dropped at each place."""


def with_dropout(place: str, variant: str) -> Seq2Seq:
    return small_model(variant, dropout=dict.fromkeys(DROPPED, 0.0) | {place: 0.5})


def tensors_on_the_way(model: Seq2Seq) -> dict[str, Tensor]:
    """What passes between the parts of the network."""
    memory = model.encode(SOURCES, LENGTHS)
    return {
        "source embeddings": model.embed_source(SOURCES),
        "target embeddings": model.embed_target(TARGETS, 0),
        "annotations": memory.annotations,
        "summary": memory.summary,
        "readouts": model.unroll(TARGETS, memory)[0][..., : model.output.in_features],  # beyond: probabilities
    }


@pytest.mark.parametrize("variant", ["bahdanau", "transformer", "hard"])
@pytest.mark.parametrize("place", DROPPED)
def test_dropout_drops_units_at_its_place_alone(place: str, variant: str) -> None:
    """There each unit is zero or twice what it was; nowhere else is it so. Embeddings have their positions."""
    model = with_dropout(place, variant)
    whole, dropped = tensors_on_the_way(model), tensors_on_the_way(model.train())
    found = set()
    for name, units in whole.items():
        zero, doubled = dropped[name] == 0, torch.isclose(dropped[name], 2 * units)
        if (zero | doubled).all() and (zero & (units != 0)).any() and (doubled & ~zero).any():
            found.add(name)
    assert found == DROPPED[place]


@pytest.mark.parametrize("place", DROPPED)
def test_a_step_drops_what_teacher_forcing_drops(place: str) -> None:
    model = with_dropout(place, "bahdanau").train()
    torch.manual_seed(4)
    logits, _ = model(SOURCES, LENGTHS, TARGETS[:, :1])
    torch.manual_seed(4)
    log_probs, _, _ = model.step(TARGETS[:, 0], model.start(model.encode(SOURCES, LENGTHS)))
    assert torch.allclose(log_probs, logits[:, 0].log_softmax(-1).float(), atol=1e-6)


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_dropout_between_layers_is_drawn_in_training_alone(part: str) -> None:
    sections = recurrent({}, {}, BAHDANAU)
    sections[part] |= {"layers": 2}
    model = small_model(dropout={"embedding": 0.0, "annotation": 0.5, "readout": 0.0}, **sections)
    model.annotation_dropout.p = 0.0
    whole, again = model(SOURCES, LENGTHS, TARGETS)[0], model(SOURCES, LENGTHS, TARGETS)[0]
    assert torch.equal(whole, again)
    assert not torch.allclose(model.train()(SOURCES, LENGTHS, TARGETS)[0], whole)
