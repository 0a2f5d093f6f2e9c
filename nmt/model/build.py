"""From configuration to network: the only place in ``nmt.model`` that reads the schema's choices.

``ENCODERS``, ``ATTENTIONS`` and ``DECODERS`` map the ``type`` of a section to the function that builds the part. An
entry of your own is chosen by its name: ``encoder: {type: custom, name: NAME, options: {...}}``.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from torch import nn

from nmt.config import schema
from nmt.errors import ConfigError
from nmt.model.attention import AdditiveAttention, Attention, DotAttention, GeneralAttention, NoAttention
from nmt.model.decoders import BahdanauDecoder, Decoder, LuongDecoder
from nmt.model.dropout import Dropout, VariationalDropout, WordDropout
from nmt.model.encoders import Encoder, GruEncoder
from nmt.model.initialization import initialize
from nmt.model.seq2seq import Seq2Seq

Builder = TypeVar("Builder", bound=Callable[..., nn.Module])


def build_model(config: schema.Model, source_size: int, target_size: int) -> Seq2Seq:
    """Make a freshly initialized network for vocabularies of these sizes, from PyTorch's random generator.

    Raises ConfigError for a custom part that no program has registered.
    """
    embedding = config.embeddings.size
    source_embedding = nn.Embedding(source_size, embedding)
    target_embedding = source_embedding if config.embeddings.tie == "all" else nn.Embedding(target_size, embedding)
    encoder = _builder(ENCODERS, config.encoder, "encoder")(config)
    attention = _builder(ATTENTIONS, config.attention, "attention")(config, encoder)
    decoder = _builder(DECODERS, config.decoder, "decoder")(config, encoder, attention)
    output = nn.Linear(decoder.readout_width, target_size)
    if config.embeddings.tie != "none":
        output.weight = target_embedding.weight
    units = VariationalDropout if config.dropout.variational else Dropout
    model = Seq2Seq(
        source_embedding,
        target_embedding,
        encoder,
        decoder,
        output,
        embedding_dropout=units(config.dropout.embedding),
        annotation_dropout=units(config.dropout.annotation),
        readout_dropout=units(config.dropout.readout),
        word_dropout=WordDropout(config.dropout.word),
    )
    initialize(model, config.initialization)
    return model


def _builder(builders: Mapping[str, Builder], section: Any, kind: str) -> Builder:
    custom = isinstance(section, schema.CustomPart)
    name = section.name if custom else section.type
    if name not in builders or (custom and name in BUILT_IN):
        raise ConfigError(
            f"model.{kind}.name: no custom {kind} is called '{name}'; register it first: "
            f"nmt.model.build.{kind.upper()}S['{name}'] = ..."
        )
    return builders[name]


def _gru_encoder(config: schema.Model) -> GruEncoder:
    assert isinstance(config.encoder, schema.GruEncoder)
    return GruEncoder(config.embeddings.size, config.encoder.hidden, config.encoder.layers, config.dropout.annotation)


def _bahdanau(config: schema.Model, encoder: Encoder) -> AdditiveAttention:
    assert isinstance(config.attention, schema.BahdanauAttention)
    return AdditiveAttention(config.decoder.hidden, encoder.width, config.attention.hidden)


def _luong(config: schema.Model, encoder: Encoder) -> Attention:
    assert isinstance(config.attention, schema.LuongAttention)
    state = config.decoder.hidden
    match config.attention.score:
        case "dot":
            return DotAttention()
        case "general":
            return GeneralAttention(state, encoder.width)
        case "concat":
            return AdditiveAttention(state, encoder.width, config.attention.hidden or state)


def _gru_decoder(config: schema.Model, encoder: Encoder, attention: Attention) -> Decoder:
    """Luong's attention comes after the update, and so does a custom one that says so; every other before it."""
    embedding, hidden = config.embeddings.size, config.decoder.hidden
    widths = embedding, encoder.width, encoder.bridge_width, hidden, config.decoder.readout or embedding
    match config.attention:
        case schema.LuongAttention(input_feeding=feeding):
            return LuongDecoder(attention, *widths, input_feeding=feeding)
        case schema.CustomAttention(after_update=True, input_feeding=feeding):
            return LuongDecoder(attention, *widths, input_feeding=feeding)
    return BahdanauDecoder(attention, *widths)


ENCODERS: dict[str, Callable[[schema.Model], Encoder]] = {"gru": _gru_encoder}
ATTENTIONS: dict[str, Callable[[schema.Model, Encoder], Attention]] = {
    "none": lambda config, encoder: NoAttention(),
    "bahdanau": _bahdanau,
    "luong": _luong,
}
DECODERS: dict[str, Callable[[schema.Model, Encoder, Attention], Decoder]] = {"gru": _gru_decoder}
BUILT_IN = {*ENCODERS, *ATTENTIONS, *DECODERS}
"""Names that a custom part cannot take."""
