"""Transformers that lack one part, for configs/experiments/textbook/transformer.yaml, which says how to import them."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.model.attention import Attention
from nmt.model.encoders import Encoder
from nmt.model.multi_head import SelfAttention
from nmt.model.transformer import TransformerDecoder, TransformerEncoder


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


@schema.ENCODERS.register
class LinearEncoder(schema.TransformerEncoder):
    """A Transformer encoder without feed-forward networks."""

    type: Literal["attention_only"]  # type: ignore[assignment]


@schema.ENCODERS.builds(LinearEncoder)
class AttentionOnlyEncoder(TransformerEncoder):
    """Its layers have self-attention alone."""

    def __init__(self, options: LinearEncoder, config: schema.Model) -> None:
        super().__init__(options, config)
        without_feed_forward(self)


@schema.DECODERS.register
class LinearDecoder(schema.TransformerDecoder):
    """A Transformer decoder without feed-forward networks."""

    type: Literal["attention_only"]  # type: ignore[assignment]


@schema.DECODERS.builds(LinearDecoder)
class AttentionOnlyDecoder(TransformerDecoder):
    """Its layers have attention alone."""

    def __init__(self, options: LinearDecoder, config: schema.Model, encoder: Encoder, attention: Attention) -> None:
        super().__init__(options, config, encoder, attention)
        without_feed_forward(self)


def without_feed_forward(part: TransformerEncoder | TransformerDecoder) -> None:
    """Replace the feed-forward network of each layer."""
    for layer in part.layers:
        layer.feed_forward = Zero()


@schema.DECODERS.register
class UnmaskedDecoder(schema.TransformerDecoder):
    """A Transformer decoder whose positions see later target words in training."""

    type: Literal["unmasked"]  # type: ignore[assignment]


@schema.DECODERS.builds(UnmaskedDecoder)
class Unmasked(TransformerDecoder):
    """Its self-attention has no causal mask."""

    def __init__(self, options: UnmaskedDecoder, config: schema.Model, encoder: Encoder, attention: Attention) -> None:
        super().__init__(options, config, encoder, attention)
        for layer in self.layers:
            layer.self_attention = UnmaskedSelfAttention(options.hidden, options.heads)
