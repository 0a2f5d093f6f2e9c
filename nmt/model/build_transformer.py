"""From configuration to the parts of a Transformer."""

from torch import nn

from nmt.config import schema
from nmt.model.attention import Attention
from nmt.model.attention.multi_head import EncoderDecoderAttention, RelativeSelfAttention, SelfAttention
from nmt.model.decoders.transformer import TransformerDecoder, TransformerDecoderLayer
from nmt.model.encoders import Encoder
from nmt.model.encoders.transformer import TransformerEncoder, TransformerEncoderLayer
from nmt.model.transformer import (
    FeedForward,
    LearnedPositions,
    Positions,
    PostNorm,
    PreNorm,
    Residual,
    SinusoidalPositions,
)


def transformer_encoder(config: schema.Model) -> TransformerEncoder:
    """Make the encoder."""
    options = config.encoder
    assert isinstance(options, schema.TransformerEncoder)
    layers = [
        TransformerEncoderLayer(
            _self_attention(options), _feed_forward(options), (_residual(options), _residual(options))
        )
        for _ in range(options.layers)
    ]
    return TransformerEncoder(options.hidden, _positions(options), layers, _last_norm(options))


def transformer_attention(config: schema.Model, encoder: Encoder) -> EncoderDecoderAttention:
    """Make the attention of all layers of the decoder to the annotations; its weights are those of one of them.

    The next to last, unless the configuration says otherwise: its mean head aligns best (Garg et al. 2019, table 2).
    """
    options, chosen = config.decoder, config.attention
    assert isinstance(options, schema.TransformerDecoder)
    assert isinstance(chosen, schema.TransformerAttention)
    layer = max(1, options.layers - 1) if chosen.layer is None else chosen.layer
    return EncoderDecoderAttention(
        options.layers,
        options.heads,
        options.hidden,
        encoder.width,
        layer=layer - 1,
        head=None if chosen.head is None else chosen.head - 1,
    )


def transformer_decoder(config: schema.Model, encoder: Encoder, attention: Attention) -> TransformerDecoder:
    """Make the decoder around its attention."""
    options = config.decoder
    assert isinstance(options, schema.TransformerDecoder)
    assert isinstance(attention, EncoderDecoderAttention)
    layers = [
        TransformerDecoderLayer(
            _self_attention(options),
            _feed_forward(options),
            (_residual(options), _residual(options), _residual(options)),
        )
        for _ in range(options.layers)
    ]
    return TransformerDecoder(options.hidden, _positions(options), layers, _last_norm(options), attention)


def _self_attention(options: schema.Transformer) -> SelfAttention:
    if isinstance(options.positions, schema.RelativePositions):
        return RelativeSelfAttention(options.hidden, options.heads, options.positions.distance)
    return SelfAttention(options.hidden, options.heads)


def _feed_forward(options: schema.Transformer) -> FeedForward:
    return FeedForward(options.hidden, options.feedforward)


def _residual(options: schema.Transformer) -> Residual:
    kind = {"pre": PreNorm, "post": PostNorm}[options.norm]
    return kind(options.hidden, options.dropout)


def _last_norm(options: schema.Transformer) -> nn.Module:
    return nn.LayerNorm(options.hidden) if options.norm == "pre" else nn.Identity()


def _positions(options: schema.Transformer) -> Positions:
    match options.positions:
        case schema.SinusoidalPositions():
            return SinusoidalPositions()
        case schema.LearnedPositions(longest=longest):
            return LearnedPositions(options.hidden, longest)
        case schema.RelativePositions():
            return Positions()  # the self-attention has them
