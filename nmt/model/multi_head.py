"""Multi-head attention (Vaswani et al. 2017, section 3.2): in a recurrent decoder, and in a Transformer.

Shapes: B sentences, R rows, Q queries, K keys, S source and T target positions, L layers, N heads, H width of a state,
C width of an annotation, A keys of all heads, D width of the Transformer, d = D / N width of a head.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.config import schema
from nmt.config.schema import ATTENTIONS
from nmt.model.attention import Attention, WeightedMean
from nmt.model.encoders import Encoder
from nmt.model.records import Memory


class MultiHeadAttention(Attention):
    """Several heads of any attention in a recurrent decoder (section 3.2.2).

    Each of N ``heads`` attends with its own part of the projected query, H / N of the H units of a ``state``, to its
    own part of the projected annotations, C / N of the C units of an ``annotation``.
    """

    def __init__(self, heads: Sequence[WeightedMean], state: int, annotation: int) -> None:
        super().__init__()
        self.query = nn.Linear(state, state, bias=False)  # W^Q of all heads
        compares = heads[0].compares  # as all do
        self.key = nn.Linear(annotation, annotation, bias=False) if compares else nn.Identity()  # W^K
        self.value = nn.Linear(annotation, annotation, bias=False)  # W^V
        self.output = nn.Linear(annotation, annotation, bias=False)  # W^O
        self.heads = nn.ModuleList(heads)

    @property
    def each(self) -> list[WeightedMean]:
        """The heads."""
        return cast(list[WeightedMean], list(self.heads))

    def prepare(self, memory: Memory) -> Memory:
        """Add the projected annotations as values, and as keys those of all heads side by side, (B, S, A)."""
        parts = self.key(memory.annotations).chunk(len(self.heads), -1)
        prepared = [
            head.prepare(replace(memory, annotations=part)) for head, part in zip(self.each, parts, strict=True)
        ]
        keys = torch.cat([cast(Tensor, head.keys) for head in prepared], -1)
        return replace(memory, keys=keys, values=self.value(memory.annotations))

    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Attend with each head: (B, Q, H) -> contexts (B, Q, C), the mean of the heads' weights (B, Q, S)."""
        assert memory.keys is not None
        assert memory.values is not None
        count = len(self.heads)
        parts = (each.chunk(count, -1) for each in (self.query(queries), memory.keys, memory.values))
        contexts, weights = [], []
        for head, query, keys, values in zip(self.each, *parts, strict=True):
            context, head_weights = head(query, positions, replace(memory, keys=keys, values=values))
            contexts.append(context)
            weights.append(head_weights)
        output: Tensor = self.output(torch.cat(contexts, -1))
        return output, torch.stack(weights).mean(0)


# --- the Transformer --------------------------------------------------------------------------------------------------


def attention_weights(energies: Tensor, mask: Tensor | None, *, causal: bool) -> Tensor:
    """Take the softmax over the keys that a query may see, in at least fp32: (..., Q, K) -> (..., Q, K).

    ``mask`` is True on keys that may be seen, and broadcast; ``causal``, only without a mask: query i sees the keys up
    to i.
    """
    if causal:
        mask = torch.ones(energies.shape[-2:], dtype=torch.bool, device=energies.device).tril()
    if mask is not None:
        energies = energies.masked_fill(~mask, -torch.inf)
    return energies.softmax(-1, dtype=torch.promote_types(energies.dtype, torch.float32)).to(energies.dtype)


def weighted_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """softmax(Q K^T / sqrt(d)) V (eq. 1), and its weights.

    query (..., Q, d), key and value (..., K, d) -> contexts (..., Q, d), weights (..., Q, K).
    """
    energies = query / math.sqrt(query.size(-1)) @ key.transpose(-1, -2)
    weights = attention_weights(energies, mask, causal=causal)
    return weights @ value, weights


def fused_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, causal: bool = False) -> Tensor:
    """Only the contexts of ``weighted_attention``, by PyTorch's fused operation."""
    if query.requires_grad and query.dtype == torch.bfloat16 and query.device.type == "cpu":
        # there the backward pass of the fused operation is ten times slower than these products (PyTorch 2.13)
        return weighted_attention(query, key, value, mask, causal=causal)[0]
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, Q, D) -> (B, N, Q, d)."""
    return x.view(*x.shape[:-1], heads, -1).transpose(1, 2)


def joined_heads(x: Tensor) -> Tensor:
    """Concat(head_1, ..., head_N): (B, N, Q, d) -> (B, Q, D)."""
    return x.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_N) W^O, of queries, keys and values of one sequence (3.2.2)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.projection = nn.Linear(width, 3 * width)  # W^Q, W^K, W^V of all heads
        self.output = nn.Linear(width, width)  # W^O

    def forward(
        self, x: Tensor, mask: Tensor | None = None, past: Tensor | None = None, *, causal: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Let each position read the others.

        Args:
            x: (R, Q, D).
            mask: (R, 1, 1, Q), True on positions that may be read; None: all.
            past: the keys and values of the positions before, (R, P, 2D), which all read; None: there are none.
            causal: whether a position reads only itself and those before it.

        Returns:
            (R, Q, D), and the keys and values of all positions, (R, P + Q, 2D).
        """
        query, present = self.projection(x).tensor_split((x.size(-1),), -1)
        if past is not None:
            present = torch.cat((past, present), 1)
        query, key, value = (split_heads(each, self.heads) for each in (query, *present.chunk(2, -1)))
        return self.output(joined_heads(self.attend(query, key, value, mask, causal=causal))), present

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, causal: bool) -> Tensor:
        """query (R, N, Q, d), key and value (R, N, K, d) -> contexts (R, N, Q, d)."""
        return fused_attention(query, key, value, mask, causal=causal)


class RelativeSelfAttention(SelfAttention):
    """Self-attention that sees how far a key is from the query (Shaw et al. 2018, section 3.2), the same for all heads.

    With a = j - i clipped to [-k, k]: e_ij = q_i·(k_j + w^K_a) / sqrt(d) (eq. 4) and z_i = sum_j alpha_ij (v_j + w^V_a)
    (eq. 3).
    """

    def __init__(self, width: int, heads: int, distance: int) -> None:
        super().__init__(width, heads)
        self.distance = distance  # k
        self.distance_keys = nn.Parameter(torch.empty(2 * distance + 1, width // heads))  # w^K, from -k to k
        self.distance_values = nn.Parameter(torch.empty(2 * distance + 1, width // heads))  # w^V

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, causal: bool) -> Tensor:
        """As ``SelfAttention``; the last query stands at the last key."""
        queries, keys = query.size(-2), key.size(-2)
        i = torch.arange(keys - queries, keys, device=query.device).unsqueeze(1)
        j = torch.arange(keys, device=query.device)
        clipped = (j - i).clamp(-self.distance, self.distance) + self.distance  # (Q, K)
        query = query / math.sqrt(query.size(-1))
        energies = query @ key.transpose(-1, -2)
        energies = energies + torch.einsum("rnqd,qkd->rnqk", query, self.distance_keys[clipped])
        weights = attention_weights(energies, mask, causal=causal)
        return weights @ value + torch.einsum("rnqk,qkd->rnqd", weights, self.distance_values[clipped])


def self_attention(options: schema.Transformer) -> SelfAttention:
    """Make the self-attention of one layer."""
    if isinstance(options.positions, schema.RelativePositions):
        return RelativeSelfAttention(options.hidden, options.heads, options.positions.distance)
    return SelfAttention(options.hidden, options.heads)


@ATTENTIONS.builds(schema.TransformerAttention)
class EncoderDecoderAttention(nn.Module):
    """The multi-head attention of all layers of a decoder to the annotations (section 3.2.3).

    It returns the weights of the next to last layer, or the only one, averaged over heads: they align best (Garg et al.
    2019, table 2).
    """

    def __init__(self, options: schema.TransformerAttention, config: schema.Model, encoder: Encoder) -> None:
        super().__init__()
        decoder, annotation = config.decoder, encoder.width
        assert isinstance(decoder, schema.TransformerDecoder)
        layers, width = range(decoder.layers), decoder.hidden
        self.heads = decoder.heads
        self.layer = max(0, len(layers) - 2)
        self.queries = nn.ModuleList(nn.Linear(width, width) for _ in layers)  # W^Q
        self.keys_values = nn.ModuleList(nn.Linear(annotation, 2 * width) for _ in layers)  # W^K, W^V
        self.outputs = nn.ModuleList(nn.Linear(width, width) for _ in layers)  # W^O

    def prepare(self, memory: Memory) -> Memory:
        """Compute the keys and values of all layers, in one product: (B, L, N, S, d) each."""
        layers = [each for each in self.keys_values if isinstance(each, nn.Linear)]
        weight, bias = torch.cat([each.weight for each in layers]), torch.cat([each.bias for each in layers])
        projected = functional.linear(memory.annotations, weight, bias)  # (B, S, L * 2D)
        keys, values = projected.unflatten(-1, (len(layers), 2, self.heads, -1)).permute(3, 0, 2, 4, 1, 5)
        return replace(memory, keys=keys, values=values)

    def read(self, layer: int, queries: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Attend in one layer: (B, Q, D) -> (B, Q, D), and in ``self.layer`` the weights (B, Q, S), else None."""
        assert memory.keys is not None
        assert memory.values is not None
        key, value = memory.keys[:, layer], memory.values[:, layer]
        mask = memory.source_mask[:, None, None]
        query, weights = split_heads(self.queries[layer](queries), self.heads), None
        if layer == self.layer:
            contexts, of_heads = weighted_attention(query, key, value, mask)  # weights (B, N, Q, S)
            weights = of_heads.mean(1)
        else:
            contexts = fused_attention(query, key, value, mask)
        return self.outputs[layer](joined_heads(contexts)), weights


# --- for people to look at --------------------------------------------------------------------------------------------

ByHead = dict[tuple[int, int], Tensor]
"""Layer and head, both from 1, to weights (B, T, S)."""
Unrolled = TypeVar("Unrolled")


def by_head(attention: object, memory: Memory, unroll: Callable[[], Unrolled]) -> tuple[Unrolled, ByHead]:
    """Unroll a decoder, in evaluation mode, over T positions of the ``memory`` of B sentences; return also the weights
    of each head of each layer, in order. The network itself returns only one matrix of weights.

    Nothing of the network changes: heads of a recurrent decoder are modules, whose weights are seen as they pass; those
    of a Transformer are computed again from its projected queries and the keys of the memory, once it is prepared. An
    ``attention`` without several heads has none to show.
    """
    if isinstance(attention, MultiHeadAttention):
        with _outputs(attention.each) as passed:
            unrolled = unroll()
        of_heads = (torch.cat([weights for _, weights in calls], 1) for calls in passed)
        return unrolled, {(1, head): weights for head, weights in enumerate(of_heads, 1)}
    if not isinstance(attention, EncoderDecoderAttention) or len(attention.queries) * attention.heads == 1:
        return unroll(), {}
    with _outputs(list(attention.queries)) as projected:
        unrolled = unroll()
    keys, mask = attention.prepare(memory).keys, memory.source_mask[:, None, None]
    assert keys is not None  # (B, L, N, S, d)
    found: ByHead = {}
    for layer, [queries] in enumerate(projected):
        _, weights = weighted_attention(split_heads(queries, attention.heads), keys[:, layer], keys[:, layer], mask)
        found |= {(layer + 1, head): of_head for head, of_head in enumerate(weights.unbind(1), 1)}
    return unrolled, found


@contextmanager
def _outputs(modules: list[Any]) -> Iterator[list[list[Any]]]:
    """Collect what each of the modules returns at each call."""
    passed: list[list[Any]] = [[] for _ in modules]

    def note(calls: list[Any]) -> Any:
        return lambda module, inputs, output: calls.append(output)

    hooks = [module.register_forward_hook(note(calls)) for module, calls in zip(modules, passed, strict=True)]
    try:
        yield passed
    finally:
        for hook in hooks:
            hook.remove()
