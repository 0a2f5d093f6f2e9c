"""The Transformer against PyTorch's own modules, the papers' formulas in loops, and itself without caches."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nmt.model import Memory, Seq2Seq
from nmt.model.multi_head import ByHead, RelativeSelfAttention, SelfAttention, by_head, fused_attention
from nmt.model.transformer import placed
from tests.models import TRANSFORMERS, small_model
from tests.test_attention import randoms

SOURCES, LENGTHS = torch.tensor([[1, 2, 3, 4, 5], [5, 6, 7, 0, 0], [7, 0, 0, 0, 0]]), torch.tensor([5, 3, 1])
TARGETS = torch.tensor([[2, 9, 4, 1], [2, 3, 12, 8], [2, 8, 8, 3]])
MASK = torch.arange(5) < LENGTHS.unsqueeze(1)
NORMS = {"pre": "transformer", "post": "transformer post-norm"}


def copied(theirs: nn.Module, ours: dict[str, nn.Module]) -> None:
    """Give PyTorch's submodules the weights of ours, by name; a pair of ours is one behind the other."""
    for name, module in ours.items():
        theirs.get_submodule(name).load_state_dict(module.state_dict())


def pytorch_attention(query: nn.Linear, key_value: nn.Linear, output: nn.Linear, heads: int) -> nn.MultiheadAttention:
    """PyTorch's multi-head attention with these weights."""
    theirs = nn.MultiheadAttention(query.in_features, heads, batch_first=True, dtype=torch.double)
    theirs.in_proj_weight.data = torch.cat((query.weight, key_value.weight)).detach()
    theirs.in_proj_bias.data = torch.cat((query.bias, key_value.bias)).detach()
    theirs.out_proj.load_state_dict(output.state_dict())
    return theirs


def pytorch_self_attention(ours: SelfAttention) -> nn.MultiheadAttention:
    width = ours.output.in_features
    query, key_value = nn.Linear(width, width).double(), nn.Linear(width, 2 * width).double()
    query.weight.data, key_value.weight.data = ours.projection.weight.data.split((width, 2 * width))
    query.bias.data, key_value.bias.data = ours.projection.bias.data.split((width, 2 * width))
    return pytorch_attention(query, key_value, ours.output, ours.heads)


def test_bf16_gradients_on_a_cpu_are_those_of_fp32() -> None:
    shape = 3, 2, 5, 4
    low = [torch.randn(shape, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    high = [each.detach().float().requires_grad_() for each in low]
    mask = MASK[:, None, None]
    for query, key, value in (low, high):
        fused_attention(query, key, value, mask).float().square().sum().backward()
    for one, other in zip(low, high, strict=True):
        assert one.grad is not None and other.grad is not None
        assert torch.allclose(one.grad.float(), other.grad, atol=0.05 * float(other.grad.abs().max()))


# --- positions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [8, 7])
def test_sinusoids_by_the_papers_formula(width: int) -> None:
    """Section 3.5, in NumPy, for positions from 3 on; on embeddings times sqrt(D)."""
    embedded = randoms(2, 6, width)
    expected = math.sqrt(width) * embedded.numpy()
    for position in range(3, 9):
        for unit in range(width):
            angle = position / np.power(10000.0, (unit - unit % 2) / width)
            expected[:, position - 3, unit] += np.cos(angle) if unit % 2 else np.sin(angle)
    assert np.allclose(placed(embedded, 3, sinusoidal=True).numpy(), expected, rtol=0, atol=1e-12)


def part(**options: Any) -> dict[str, Any]:
    return {**TRANSFORMERS["transformer"]["encoder"], **options}


def relative_by_loops(ours: RelativeSelfAttention, x: Tensor, causal: bool) -> Tensor:
    """Shaw et al. 2018, equations 3 and 4, head by head, position by position."""
    width, heads, k = x.size(-1), ours.heads, ours.distance
    size = width // heads
    query, key, value = ours.projection(x).split(width, -1)
    z = torch.zeros_like(x)
    for row in range(x.size(0)):
        for head in range(heads):
            units = slice(head * size, (head + 1) * size)
            for i in range(x.size(1)):
                seen = range(i + 1 if causal else x.size(1))
                clipped = [max(-k, min(k, j - i)) + k for j in seen]
                energies = [
                    query[row, i, units] @ (key[row, j, units] + ours.distance_keys[a]) / math.sqrt(size)
                    for j, a in zip(seen, clipped, strict=True)
                ]
                weights = torch.stack(energies).softmax(0)
                for weight, j, a in zip(weights, seen, clipped, strict=True):
                    z[row, i, units] += weight * (value[row, j, units] + ours.distance_values[a])
    output: Tensor = ours.output(z)
    return output


@pytest.mark.parametrize("causal", [False, True])
def test_relative_positions_by_loops(causal: bool) -> None:
    ours = RelativeSelfAttention(6, 2, distance=2).double()
    for distances in (ours.distance_keys, ours.distance_values):
        nn.init.normal_(distances)
    x = randoms(2, 5, 6)
    with torch.no_grad():
        assert torch.allclose(ours(x, causal=causal)[0], relative_by_loops(ours, x, causal))


# --- PyTorch's modules ------------------------------------------------------------------------------------------------


def test_attention_to_the_annotations_is_pytorchs() -> None:
    """In each of three layers; the weights are the mean of those of the second. Views of single heads are the same."""
    ours: Any = small_model("transformer").decoder.attention
    queries, annotations = randoms(3, 4, 8), randoms(3, 5, 8)
    memory = ours.prepare(Memory(annotations, annotations.mean(1), MASK))
    _, views = by_head(ours, memory, lambda: [ours.read(layer, queries, memory) for layer in range(3)])
    for layer in range(3):
        parts = ours.queries[layer], ours.keys_values[layer], ours.outputs[layer]
        theirs = pytorch_attention(*parts, heads=2)
        how = {"key_padding_mask": ~MASK, "average_attn_weights": False}
        expected, of_heads = theirs(queries, annotations, annotations, **how)
        found, weights = ours.read(layer, queries, memory)
        assert torch.allclose(found, expected)
        assert (weights is None) == (layer != 1)
        if weights is not None:
            assert torch.allclose(weights, of_heads.mean(1))
        for head in range(2):
            assert torch.allclose(views[layer + 1, head + 1], of_heads[:, head])


@pytest.mark.parametrize("norm", NORMS)
def test_encoder_is_pytorchs(norm: str) -> None:
    model = small_model(NORMS[norm])
    encoder: Any = model.encoder
    embedded = model.embed_source(SOURCES)
    x = embedded
    for layer in encoder.layers:
        theirs = nn.TransformerEncoderLayer(8, 2, 6, 0.0, norm_first=norm == "pre", batch_first=True).double()
        ours = {
            "self_attn": pytorch_self_attention(layer.self_attention),
            "linear1": layer.feed_forward.inner,
            "linear2": layer.feed_forward.output,
            "norm1": layer.around_self_attention.norm,
            "norm2": layer.around_feed_forward.norm,
        }
        copied(theirs, ours)
        x = theirs(x, src_key_padding_mask=~MASK)
    x = encoder.norm(x)
    annotations, summary = encoder(embedded, LENGTHS)
    assert torch.allclose(annotations[MASK], x[MASK])
    assert not annotations[~MASK].any()
    for row, length in enumerate(LENGTHS.tolist()):
        assert torch.allclose(summary[row], x[row, :length].mean(0))


@pytest.mark.parametrize("norm", NORMS)
def test_decoder_is_pytorchs(norm: str) -> None:
    model = small_model(NORMS[norm])
    decoder: Any = model.decoder
    memory = model.encode(SOURCES, LENGTHS)
    x = model.embed_target(TARGETS, 0)
    readouts, _ = decoder.unroll(x, model.start(memory))
    attended = decoder.attention
    for index, layer in enumerate(decoder.layers):
        parts = attended.queries[index], attended.keys_values[index], attended.outputs[index]
        theirs = nn.TransformerDecoderLayer(8, 2, 6, 0.0, norm_first=norm == "pre", batch_first=True).double()
        ours = {
            "self_attn": pytorch_self_attention(layer.self_attention),
            "multihead_attn": pytorch_attention(*parts, heads=2),
            "linear1": layer.feed_forward.inner,
            "linear2": layer.feed_forward.output,
            "norm1": layer.around_self_attention.norm,
            "norm2": layer.around_attention.norm,
            "norm3": layer.around_feed_forward.norm,
        }
        copied(theirs, ours)
        causal = torch.ones(4, 4).triu(1).bool()
        x = theirs(x, memory.annotations, tgt_mask=causal, memory_key_padding_mask=~MASK)
    assert torch.allclose(readouts, decoder.norm(x))


def test_what_a_sublayer_makes_is_dropped_in_training_alone() -> None:
    model = small_model("transformer", encoder=part(dropout=0.5))
    expected = model.encode(SOURCES, LENGTHS).annotations
    assert torch.equal(model.encode(SOURCES, LENGTHS).annotations, expected)
    assert not torch.allclose(model.train().encode(SOURCES, LENGTHS).annotations, expected)


# --- single heads, as people look at them -----------------------------------------------------------------------------


def heads_of(model: Seq2Seq, memory: Memory) -> ByHead:
    _, heads = by_head(model.decoder.attention, memory, lambda: model.unroll(TARGETS, memory))
    return heads


@pytest.mark.parametrize("name", ["heads", "heads after, local", "transformer relative"])
@torch.inference_mode()
def test_each_head_is_a_distribution_over_real_positions(name: str) -> None:
    model = small_model(name)
    memory = model.encode(SOURCES, LENGTHS)
    readouts, mean = model.unroll(TARGETS, memory)
    found = heads_of(model, memory)
    assert torch.equal(readouts, model.unroll(TARGETS, memory)[0]), "looking changes nothing"
    assert not any(module._forward_hooks for module in model.modules())
    shown = [each for (layer, _), each in found.items() if layer == max(1, max(found)[0] - 1)]  # the last but one
    torch.testing.assert_close(torch.stack(shown).mean(0), mean, rtol=1e-7, atol=0)
    assert list(found) == sorted(found) and len(found) > 1
    for weights in found.values():
        assert weights.shape == (3, 4, 5)
        np.testing.assert_allclose(weights.sum(-1), 1.0)
        assert all((weights[row, :, length:] == 0).all() for row, length in enumerate(LENGTHS.tolist()))
    first, second = list(found.values())[:2]
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("name", ["none", "bahdanau"])
def test_one_head_has_no_views_of_heads(name: str) -> None:
    model = small_model(name)
    assert heads_of(model, model.encode(SOURCES, LENGTHS)) == {}
