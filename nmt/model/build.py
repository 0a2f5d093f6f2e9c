"""From configuration to network: the builders of parts that are made of several modules.

Each part registers its builder: :mod:`nmt.config.schema.registry`.
"""

from collections.abc import Sequence

from torch import nn

from nmt.config import schema
from nmt.config.schema import ATTENTIONS, DECODERS, ENCODERS, SCORES
from nmt.model.attention import (
    Attention,
    EncoderDecoderAttention,
    InitialStateOnly,
    MonotonicLocalAttention,
    MultiHeadAttention,
    NoAttention,
    PredictiveLocalAttention,
    ScoredAttention,
    WeightedMean,
)
from nmt.model.attention.multi_head import RelativeSelfAttention, SelfAttention
from nmt.model.cells import cell_of
from nmt.model.coverage import CoverageAttention, CoveringBahdanau, CoveringLuong
from nmt.model.decoders import BahdanauDecoder, Decoder, Layer, LuongDecoder, Maxout, RecurrentDecoder, Sizes, Tanh
from nmt.model.dropout import WordDropout, dropout_of
from nmt.model.encoders import Encoder
from nmt.model.hard import GumbelAttention, HardAttention, SampledAttention
from nmt.model.initialization import initialize
from nmt.model.seq2seq import Seq2Seq
from nmt.model.transformer import (
    FeedForward,
    LearnedPositions,
    Positions,
    PostNorm,
    PreNorm,
    Residual,
    SinusoidalPositions,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)


def build_model(config: schema.Model, source_size: int, target_size: int) -> Seq2Seq:
    """Make a freshly initialized network for vocabularies of these sizes, from PyTorch's random generator."""
    embedding = config.embeddings.size
    source_embedding = nn.Embedding(source_size, embedding)
    target_embedding = source_embedding if config.embeddings.tie == "all" else nn.Embedding(target_size, embedding)
    encoder: Encoder = ENCODERS.build(config.encoder, config)
    attention: Attention = ATTENTIONS.build(config.attention, config, encoder)
    decoder: Decoder = DECODERS.build(config.decoder, config, encoder, attention)
    output = nn.Linear(decoder.readout_width, target_size)
    if config.embeddings.tie != "none":
        output.weight = target_embedding.weight
    model = Seq2Seq(
        source_embedding,
        target_embedding,
        encoder,
        decoder,
        output,
        embedding_dropout=dropout_of(config, config.dropout.embedding),
        annotation_dropout=dropout_of(config, config.dropout.annotation),
        readout_dropout=dropout_of(config, config.dropout.readout),
        word_dropout=WordDropout(config.dropout.word),
    )
    initialize(model, config.initialization)
    return model


# --- attention --------------------------------------------------------------------------------------------------------


@ATTENTIONS.builds(schema.NoAttention)
def _no_attention(options: schema.NoAttention, config: schema.Model, encoder: Encoder) -> Attention:
    return NoAttention() if options.context == "every_step" else InitialStateOnly()


@ATTENTIONS.builds(schema.ScoredAttention)
def _attention(options: schema.ScoredAttention, config: schema.Model, encoder: Encoder) -> Attention:
    """Make one of Bahdanau's or Luong's: a score, its scope, its heads, hard or soft."""
    state, annotation = config.decoder.hidden, encoder.width
    heads = [_head(options, state // options.heads, annotation // options.heads) for _ in range(options.heads)]
    match options.hard:
        case schema.Gumbel(temperature=temperature):
            return GumbelAttention(heads[0], temperature)
        case schema.Reinforce(baseline=baseline):
            readout = config.decoder.readout_width(config.embeddings.size)
            return SampledAttention(heads[0], readout if baseline == "learned" else 0)
        case schema.ExactMarginal():
            return HardAttention(heads[0])
    return MultiHeadAttention(heads, state, annotation) if options.heads > 1 else heads[0]


def _head(options: schema.ScoredAttention, state: int, annotation: int) -> WeightedMean:
    scored: ScoredAttention = SCORES.build(options.score, state, annotation)
    match options.scope:
        case schema.MonotonicScope(window=window):
            return MonotonicLocalAttention(scored, window)
        case schema.PredictiveScope(window=window, hidden=hidden, normalize=normalize):
            return PredictiveLocalAttention(scored, window, state, hidden or state, normalize=normalize)
    return scored


# --- recurrent decoders -----------------------------------------------------------------------------------------------


@DECODERS.builds(schema.RecurrentDecoder)
def _recurrent_decoder(
    options: schema.RecurrentDecoder, config: schema.Model, encoder: Encoder, attention: Attention
) -> Decoder:
    after = config.attention.after_update
    kind: type[RecurrentDecoder] = LuongDecoder if after else BahdanauDecoder
    if isinstance(attention, CoverageAttention):
        kind = CoveringLuong if after else CoveringBahdanau
    activation = options.readout_activation or ("tanh" if after else "maxout")
    between = config.dropout.annotation
    upper = [
        Layer(cell_of(options), encoder.bridge_width, dropout_of(config, between), residual=options.residual)
        for _ in range(options.layers - 1)
    ]
    sizes = Sizes(
        embedding=config.embeddings.size,
        context=0 if isinstance(attention, InitialStateOnly) else encoder.width,
        bridge=encoder.bridge_width,
        readout=options.readout_width(config.embeddings.size),
    )
    nonlinearity = Maxout() if activation == "maxout" else Tanh()
    return kind(attention, cell_of(options), sizes, upper, nonlinearity, input_feeding=config.attention.feeds)


# --- the Transformer --------------------------------------------------------------------------------------------------


@ENCODERS.builds(schema.TransformerEncoder)
def _transformer_encoder(options: schema.TransformerEncoder, config: schema.Model) -> TransformerEncoder:
    layers = [
        TransformerEncoderLayer(_self_attention(options), _feed_forward(options), _residuals(options, 2))
        for _ in range(options.layers)
    ]
    return TransformerEncoder(options.hidden, _positions(options), layers, _last_norm(options))


@ATTENTIONS.builds(schema.TransformerAttention)
def _transformer_attention(
    chosen: schema.TransformerAttention, config: schema.Model, encoder: Encoder
) -> EncoderDecoderAttention:
    """Make the attention of all layers of the decoder to the annotations; its weights are those of one of them.

    The next to last, unless the configuration says otherwise: its mean head aligns best (Garg et al. 2019, table 2).
    """
    options = config.decoder
    assert isinstance(options, schema.TransformerDecoder)
    layer = max(1, options.layers - 1) if chosen.layer is None else chosen.layer
    return EncoderDecoderAttention(
        options.layers,
        options.heads,
        options.hidden,
        encoder.width,
        layer=layer - 1,
        head=None if chosen.head is None else chosen.head - 1,
    )


@DECODERS.builds(schema.TransformerDecoder)
def _transformer_decoder(
    options: schema.TransformerDecoder, config: schema.Model, encoder: Encoder, attention: Attention
) -> TransformerDecoder:
    assert isinstance(attention, EncoderDecoderAttention)
    layers = [
        TransformerDecoderLayer(_self_attention(options), _feed_forward(options), _residuals(options, 3))
        for _ in range(options.layers)
    ]
    return TransformerDecoder(options.hidden, _positions(options), layers, _last_norm(options), attention)


def _self_attention(options: schema.Transformer) -> SelfAttention:
    if isinstance(options.positions, schema.RelativePositions):
        return RelativeSelfAttention(options.hidden, options.heads, options.positions.distance)
    return SelfAttention(options.hidden, options.heads)


def _feed_forward(options: schema.Transformer) -> FeedForward:
    return FeedForward(options.hidden, options.feedforward)


def _residuals(options: schema.Transformer, sublayers: int) -> Sequence[Residual]:
    kind = {"pre": PreNorm, "post": PostNorm}[options.norm]
    return [kind(options.hidden, options.dropout) for _ in range(sublayers)]


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
