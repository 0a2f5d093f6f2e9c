"""From configuration to network.

``ENCODERS``, ``ATTENTIONS`` and ``DECODERS`` map the ``type`` of a section to the function that builds the part. An
entry of your own is chosen by its name: ``encoder: {type: custom, name: NAME, options: {...}}``. ``CELLS`` has the
cells of recurrent parts; one of your own is chosen by ``encoder: {type: recurrent, cell: NAME}``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from torch import nn

from nmt.config import schema
from nmt.errors import ConfigError
from nmt.model.attention import (
    Attention,
    EncoderDecoderAttention,
    InitialStateOnly,
    MonotonicLocalAttention,
    MultiHeadAttention,
    NoAttention,
    PredictiveLocalAttention,
    WeightedMean,
)
from nmt.model.attention.multi_head import RelativeSelfAttention, SelfAttention
from nmt.model.attention.scores import SCORES
from nmt.model.cells import CELLS, cell_of
from nmt.model.coverage import CoverageAttention, CoveringBahdanau, CoveringLuong
from nmt.model.decoders import BahdanauDecoder, Decoder, Layer, LuongDecoder, Maxout, RecurrentDecoder, Sizes, Tanh
from nmt.model.dropout import WordDropout, dropout_of
from nmt.model.encoders import ENCODERS, Encoder
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

__all__ = ["ATTENTIONS", "CELLS", "DECODERS", "ENCODERS", "build_model"]
Builder = TypeVar("Builder", bound=Callable[..., nn.Module])


def build_model(config: schema.Model, source_size: int, target_size: int) -> Seq2Seq:
    """Make a freshly initialized network for vocabularies of these sizes, from PyTorch's random generator.

    Raises ConfigError for a custom part that no program has registered.
    """
    for part, section in (("encoder", config.encoder), ("decoder", config.decoder)):
        if isinstance(section, schema.CustomCell):
            _registered(CELLS, section.cell, "cell", f"model.{part}.cell")
    embedding = config.embeddings.size
    source_embedding = nn.Embedding(source_size, embedding)
    target_embedding = source_embedding if config.embeddings.tie == "all" else nn.Embedding(target_size, embedding)
    encoder = _builder(ENCODERS, config.encoder, "encoder")(config)
    attention = _builder(ATTENTIONS, config.attention, "attention")(config, encoder)
    decoder = _builder(DECODERS, config.decoder, "decoder")(config, encoder, attention)
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


def _builder(builders: Mapping[str, Builder], section: Any, kind: str) -> Builder:
    if isinstance(section, schema.CustomPart):
        return _registered(builders, section.name, kind, f"model.{kind}.name")
    return builders[section.type]


def _registered(builders: Mapping[str, Builder], name: str, kind: str, key: str) -> Builder:
    if name not in builders or name in BUILT_IN:
        raise ConfigError(
            f"{key}: no custom {kind} is called '{name}'; register it first: "
            f"nmt.model.build.{kind.upper()}S['{name}'] = ..."
        )
    return builders[name]


# --- attention --------------------------------------------------------------------------------------------------------


def _no_attention(config: schema.Model, encoder: Encoder) -> Attention:
    assert isinstance(config.attention, schema.NoAttention)
    return NoAttention() if config.attention.context == "every_step" else InitialStateOnly()


def _attention(config: schema.Model, encoder: Encoder) -> Attention:
    """Make one of Bahdanau's or Luong's: a score, its scope, its heads, hard or soft."""
    section, state, annotation = config.attention, config.decoder.hidden, encoder.width
    assert isinstance(section, schema.ScoredAttention)
    if section.coverage:
        return CoverageAttention(state, annotation, section.hidden or state, bias=section.bias is not False)
    heads = [_head(section, state // section.heads, annotation // section.heads) for _ in range(section.heads)]
    match section.hard:
        case schema.Gumbel(temperature=temperature):
            return GumbelAttention(heads[0], temperature)
        case schema.Reinforce(baseline=baseline):
            return SampledAttention(heads[0], _readout_width(config) if baseline == "learned" else 0)
        case schema.ExactMarginal():
            return HardAttention(heads[0])
    return MultiHeadAttention(heads, state, annotation) if section.heads > 1 else heads[0]


def _head(section: schema.ScoredAttention, state: int, annotation: int) -> WeightedMean:
    scored = SCORES[section.score](section, state, annotation)
    match section.scope:
        case schema.MonotonicScope(window=window):
            return MonotonicLocalAttention(scored, window)
        case schema.PredictiveScope(window=window, hidden=hidden, normalize=normalize):
            return PredictiveLocalAttention(scored, window, state, hidden or state, normalize=normalize)
    return scored


# --- recurrent decoders -----------------------------------------------------------------------------------------------


def _recurrent_decoder(config: schema.Model, encoder: Encoder, attention: Attention) -> Decoder:
    """Luong's attention comes after the update, and so does a custom one that says so; every other before it."""
    section, chosen = config.decoder, config.attention
    assert isinstance(section, schema.RecurrentDecoder)
    if isinstance(chosen, schema.CustomAttention):
        after, fed = chosen.after_update, chosen.after_update and chosen.input_feeding
    else:
        after = isinstance(chosen, schema.LuongAttention)
        fed = isinstance(chosen, schema.ScoredAttention) and chosen.input_feeding
    kind: type[RecurrentDecoder] = LuongDecoder if after else BahdanauDecoder
    if isinstance(attention, CoverageAttention):
        kind = CoveringLuong if after else CoveringBahdanau
    activation = section.readout_activation or ("tanh" if after else "maxout")
    between = config.dropout.annotation
    upper = [
        Layer(cell_of(section), encoder.bridge_width, dropout_of(config, between), residual=section.residual)
        for _ in range(section.layers - 1)
    ]
    sizes = Sizes(
        embedding=config.embeddings.size,
        context=0 if isinstance(attention, InitialStateOnly) else encoder.width,
        bridge=encoder.bridge_width,
        readout=_readout_width(config),
    )
    nonlinearity = Maxout() if activation == "maxout" else Tanh()
    return kind(attention, cell_of(section), sizes, upper, nonlinearity, input_feeding=fed)


def _readout_width(config: schema.Model) -> int:
    assert not isinstance(config.decoder, schema.TransformerDecoder)
    return config.decoder.readout or config.embeddings.size


# --- the Transformer --------------------------------------------------------------------------------------------------


def _transformer_encoder(config: schema.Model) -> TransformerEncoder:
    options = config.encoder
    assert isinstance(options, schema.TransformerEncoder)
    layers = [
        TransformerEncoderLayer(_self_attention(options), _feed_forward(options), _residuals(options, 2))
        for _ in range(options.layers)
    ]
    return TransformerEncoder(options.hidden, _positions(options), layers, _last_norm(options))


def _transformer_attention(config: schema.Model, encoder: Encoder) -> EncoderDecoderAttention:
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


def _transformer_decoder(config: schema.Model, encoder: Encoder, attention: Attention) -> TransformerDecoder:
    options = config.decoder
    assert isinstance(options, schema.TransformerDecoder)
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


ENCODERS["transformer"] = _transformer_encoder
ATTENTIONS: dict[str, Callable[[schema.Model, Encoder], Attention]] = {
    "none": _no_attention,
    "bahdanau": _attention,
    "luong": _attention,
    "transformer": _transformer_attention,
}
DECODERS: dict[str, Callable[[schema.Model, Encoder, Attention], Decoder]] = {
    **dict.fromkeys((*CELLS, "recurrent"), _recurrent_decoder),
    "transformer": _transformer_decoder,
}
BUILT_IN = {*ENCODERS, *ATTENTIONS, *DECODERS}
"""Names that a custom part cannot take."""
