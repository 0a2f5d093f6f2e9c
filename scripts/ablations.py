"""Transformers that lack one part, for configs/experiments/textbook/transformer.yaml, which says how to import them."""

import math
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.model.multi_head import SelfAttention
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


@schema.ENCODERS.register
class UnorderedEncoder(schema.TransformerEncoder):
    """A Transformer encoder without positions."""

    type: Literal["unordered"]  # type: ignore[assignment]


@schema.ENCODERS.builds(UnorderedEncoder)
class Unordered(TransformerEncoder):
    """It reads the source as a bag of words."""

    def with_positions(self, embedded: Tensor) -> Tensor:
        """(B, S, D) -> (B, S, D), scaled alone."""
        return embedded * math.sqrt(embedded.size(-1))


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
    decoder = TransformerDecoder(options, *around)
    for layer in decoder.layers:
        layer.self_attention = UnmaskedSelfAttention(options.hidden, options.heads)
    return decoder
