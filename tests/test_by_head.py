"""The attention of single heads against what the network itself returns."""

import numpy as np
import pytest
import torch

from nmt.model import Memory, Seq2Seq
from nmt.model.multi_head import ByHead, by_head
from tests.models import SOURCE, TARGET, small_model

LENGTHS = torch.tensor([6, 3, 4])
SOURCES = torch.randint(4, SOURCE, (3, 6), generator=torch.Generator().manual_seed(3))
TARGETS = torch.randint(4, TARGET, (3, 5), generator=torch.Generator().manual_seed(4))


def heads_of(model: Seq2Seq, memory: Memory) -> ByHead:
    return by_head(model.decoder.attention, memory, lambda: model.unroll(TARGETS, memory))


@pytest.mark.parametrize("name", ["heads", "heads after, local", "transformer relative"])
@torch.inference_mode()
def test_each_head_is_a_distribution_over_real_positions(name: str) -> None:
    model = small_model(name)
    memory = model.encode(SOURCES, LENGTHS)
    readouts, mean = model.unroll(TARGETS, memory)
    found = heads_of(model, memory)
    assert torch.equal(readouts, model.unroll(TARGETS, memory)[0]), "looking changes nothing"
    assert not any(module._forward_hooks for module in model.modules())
    assert mean is not None
    if name.startswith("heads"):
        np.testing.assert_allclose(torch.stack(list(found.values())).mean(0), mean)
    assert list(found) == sorted(found) and len(found) > 1
    for weights in found.values():
        assert weights.shape == (3, 5, 6)
        np.testing.assert_allclose(weights.sum(-1), 1.0)
        assert all((weights[row, :, length:] == 0).all() for row, length in enumerate(LENGTHS.tolist()))
    first, second = list(found.values())[:2]
    assert not torch.allclose(first, second)


@pytest.mark.parametrize(("layer", "head"), [(1, 2), (2, 1), (3, 1)])
@torch.inference_mode()
def test_a_head_of_a_transformer_is_what_a_network_that_shows_it_returns(layer: int, head: int) -> None:
    """``model.attention.layer`` and ``head`` choose what the network returns; the weights of the network stay."""
    shown = small_model("transformer", attention={"type": "transformer", "layer": layer, "head": head})
    _, expected = shown.unroll(TARGETS, shown.encode(SOURCES, LENGTHS))
    assert expected is not None
    model = small_model("transformer")
    found = heads_of(model, model.encode(SOURCES, LENGTHS))
    assert len(found) == 6
    np.testing.assert_allclose(found[layer, head], expected)


@pytest.mark.parametrize("name", ["none", "bahdanau"])
def test_one_head_has_no_views_of_heads(name: str) -> None:
    model = small_model(name)
    assert heads_of(model, model.encode(SOURCES, LENGTHS)) == {}
