"""Transformers that lack one part, for configs/experiments/textbook/transformer.yaml, which says how to import them, or
have other positions or none, for configs/experiments/textbook/lengths.yaml."""

import math
from typing import Literal, TypeVar, cast

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.model.multi_head import SelfAttention, attention_weights
from nmt.model.transformer import TransformerDecoder, TransformerEncoder

Stack = TypeVar("Stack", TransformerEncoder, TransformerDecoder)


class Zero(nn.Module):
    """A sublayer that adds nothing."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return torch.zeros_like(x)


class UnmaskedSelfAttention(SelfAttention):
    """Self-attention in which a position also reads those after it."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, causal: bool) -> Tensor:
        """As its base, but never causal."""
        return super().attend(query, key, value, mask, causal=False)


class LinearlyBiasedSelfAttention(SelfAttention):
    """Self-attention in which the energies of head n of N fall by 2^(-8n / N) with each position between query and key
    (ALiBi: Press et al. 2022, section 3); here also for keys after the query."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, causal: bool) -> Tensor:
        """As its base; the last query stands at the last key."""
        queries, keys = query.size(-2), key.size(-2)
        distance = (torch.arange(keys - queries, keys).unsqueeze(1) - torch.arange(keys)).abs()  # (Q, K)
        slopes = 2.0 ** (-8 * torch.arange(1, self.heads + 1) / self.heads)
        biases = (slopes[:, None, None] * distance).to(query)  # (N, Q, K)
        energies = query / math.sqrt(query.size(-1)) @ key.transpose(-1, -2) - biases
        return attention_weights(energies, mask, causal=causal) @ value


def with_self_attention(part: Stack, kind: type[SelfAttention]) -> Stack:
    """Replace the self-attention of each layer."""
    for layer in part.layers:
        plain = cast(SelfAttention, layer.self_attention)
        layer.self_attention = kind(plain.output.in_features, plain.heads)
    return part


def without_positions(part: Stack) -> Stack:
    """Only scale the embeddings."""
    part.sinusoidal = False
    return part


@schema.ENCODERS.register
class UnorderedEncoder(schema.TransformerEncoder):
    """A Transformer encoder without positions."""

    type: Literal["unordered"]  # type: ignore[assignment]


@schema.DECODERS.register
class UnorderedDecoder(schema.TransformerDecoder):
    """A Transformer decoder without positions, which knows order only from its causal mask."""

    type: Literal["unordered"]  # type: ignore[assignment]


def without_feed_forward(part: Stack) -> Stack:
    """Replace the feed-forward network of each layer."""
    for layer in part.layers:
        layer.feed_forward = Zero()
    return part


@schema.ENCODERS.register
class AttentionOnlyEncoder(schema.TransformerEncoder):
    """A Transformer encoder without feed-forward networks."""

    type: Literal["attention_only"]  # type: ignore[assignment]


@schema.DECODERS.register
class AttentionOnlyDecoder(schema.TransformerDecoder):
    """A Transformer decoder without feed-forward networks."""

    type: Literal["attention_only"]  # type: ignore[assignment]


@schema.DECODERS.register
class UnmaskedDecoder(schema.TransformerDecoder):
    """A Transformer decoder whose positions see later target words in training."""

    type: Literal["unmasked"]  # type: ignore[assignment]


@schema.ENCODERS.register
class LinearlyBiasedEncoder(schema.TransformerEncoder):
    """A Transformer encoder with ALiBi in place of positions."""

    type: Literal["linearly_biased"]  # type: ignore[assignment]


@schema.DECODERS.register
class LinearlyBiasedDecoder(schema.TransformerDecoder):
    """A Transformer decoder with ALiBi in place of positions."""

    type: Literal["linearly_biased"]  # type: ignore[assignment]


def linearly_biased(part: Stack) -> Stack:
    """Know distances alone."""
    return with_self_attention(without_positions(part), LinearlyBiasedSelfAttention)


schema.ENCODERS.builds(UnorderedEncoder)(lambda *given: without_positions(TransformerEncoder(*given)))
schema.ENCODERS.builds(AttentionOnlyEncoder)(lambda *given: without_feed_forward(TransformerEncoder(*given)))
schema.ENCODERS.builds(LinearlyBiasedEncoder)(lambda *given: linearly_biased(TransformerEncoder(*given)))
schema.DECODERS.builds(UnorderedDecoder)(lambda *given: without_positions(TransformerDecoder(*given)))
schema.DECODERS.builds(AttentionOnlyDecoder)(lambda *given: without_feed_forward(TransformerDecoder(*given)))
schema.DECODERS.builds(LinearlyBiasedDecoder)(lambda *given: linearly_biased(TransformerDecoder(*given)))
schema.DECODERS.builds(UnmaskedDecoder)(
    lambda *given: with_self_attention(TransformerDecoder(*given), UnmaskedSelfAttention)
)
