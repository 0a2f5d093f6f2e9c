"""Transformers that lack one part, for configs/experiments/textbook/transformer.yaml, which says how to import them, or
have other positions, for configs/experiments/textbook/lengths.yaml."""

import math
from typing import Any, Literal, TypeVar

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


def with_self_attention(part: Stack, options: schema.Transformer, kind: type[SelfAttention]) -> Stack:
    """Replace the self-attention of each layer."""
    for layer in part.layers:
        layer.self_attention = kind(options.hidden, options.heads)
    return part


def without_positions(part: Stack) -> Stack:
    """Only scale the embeddings."""
    part.sinusoidal = False
    return part


@schema.ENCODERS.register
class UnorderedEncoder(schema.TransformerEncoder):
    """A Transformer encoder without positions."""

    type: Literal["unordered"]  # type: ignore[assignment]


@schema.ENCODERS.builds(UnorderedEncoder)
def unordered_encoder(options: UnorderedEncoder, *around: Any) -> TransformerEncoder:
    """Make an encoder that reads the source as a bag of words."""
    return without_positions(TransformerEncoder(options, *around))


def without_feed_forward(part: Stack) -> Stack:
    """Replace the feed-forward network of each layer."""
    for layer in part.layers:
        layer.feed_forward = Zero()
    return part


@schema.ENCODERS.register
class AttentionOnlyEncoder(schema.TransformerEncoder):
    """A Transformer encoder without feed-forward networks."""

    type: Literal["attention_only"]  # type: ignore[assignment]


@schema.ENCODERS.builds(AttentionOnlyEncoder)
def attention_only_encoder(options: AttentionOnlyEncoder, *around: Any) -> TransformerEncoder:
    """Make an encoder whose layers have self-attention alone."""
    return without_feed_forward(TransformerEncoder(options, *around))


@schema.DECODERS.register
class AttentionOnlyDecoder(schema.TransformerDecoder):
    """A Transformer decoder without feed-forward networks."""

    type: Literal["attention_only"]  # type: ignore[assignment]


@schema.DECODERS.builds(AttentionOnlyDecoder)
def attention_only_decoder(options: AttentionOnlyDecoder, *around: Any) -> TransformerDecoder:
    """Make a decoder whose layers have attention alone."""
    return without_feed_forward(TransformerDecoder(options, *around))


@schema.DECODERS.register
class UnmaskedDecoder(schema.TransformerDecoder):
    """A Transformer decoder whose positions see later target words in training."""

    type: Literal["unmasked"]  # type: ignore[assignment]


@schema.DECODERS.builds(UnmaskedDecoder)
def unmasked_decoder(options: UnmaskedDecoder, *around: Any) -> TransformerDecoder:
    """Make a decoder whose self-attention has no causal mask."""
    return with_self_attention(TransformerDecoder(options, *around), options, UnmaskedSelfAttention)


@schema.ENCODERS.register
class LinearlyBiasedEncoder(schema.TransformerEncoder):
    """A Transformer encoder with ALiBi in place of positions."""

    type: Literal["linearly_biased"]  # type: ignore[assignment]


@schema.ENCODERS.builds(LinearlyBiasedEncoder)
def linearly_biased_encoder(options: LinearlyBiasedEncoder, *around: Any) -> TransformerEncoder:
    """Make an encoder that only knows distances."""
    part = without_positions(TransformerEncoder(options, *around))
    return with_self_attention(part, options, LinearlyBiasedSelfAttention)


@schema.DECODERS.register
class LinearlyBiasedDecoder(schema.TransformerDecoder):
    """A Transformer decoder with ALiBi in place of positions."""

    type: Literal["linearly_biased"]  # type: ignore[assignment]


@schema.DECODERS.builds(LinearlyBiasedDecoder)
def linearly_biased_decoder(options: LinearlyBiasedDecoder, *around: Any) -> TransformerDecoder:
    """Make a decoder that only knows distances."""
    part = without_positions(TransformerDecoder(options, *around))
    return with_self_attention(part, options, LinearlyBiasedSelfAttention)
