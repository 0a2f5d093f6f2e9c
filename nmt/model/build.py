"""From configuration to network: the only place in ``nmt.model`` that reads the schema's choices.

``ENCODERS``, ``ATTENTIONS`` and ``DECODERS`` map the ``type`` of a section to the function that builds the part. An
entry of your own is chosen by its name: ``encoder: {type: custom, name: NAME, options: {...}}``. ``CELLS`` has the
cells of recurrent parts; one of your own is chosen by ``encoder: {type: recurrent, cell: NAME}``.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from torch import nn

from nmt.config import schema
from nmt.errors import ConfigError
from nmt.model.attention import (
    AdditiveAttention,
    Attention,
    CosineAttention,
    CoverageAttention,
    DotAttention,
    GeneralAttention,
    InitialStateOnly,
    LocationAttention,
    LowRankAttention,
    MonotonicLocalAttention,
    MultiHeadAttention,
    NoAttention,
    PredictiveLocalAttention,
    ScaledDotAttention,
    ScoredAttention,
    WeightedMean,
)
from nmt.model.build_transformer import transformer_attention, transformer_decoder, transformer_encoder
from nmt.model.cells import Cell, DeepTransition, GruCell, LstmCell, ResetBeforeGruCell, SsruCell
from nmt.model.decoders import BahdanauDecoder, Decoder, Layer, LuongDecoder, Maxout, Sizes, Tanh
from nmt.model.dropout import Dropout, VariationalDropout, WordDropout
from nmt.model.encoders import Encoder, RecurrentEncoder
from nmt.model.hard import GumbelAttention, HardAttention, SampledAttention
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
    model = Seq2Seq(
        source_embedding,
        target_embedding,
        encoder,
        decoder,
        output,
        embedding_dropout=_dropout(config, config.dropout.embedding),
        annotation_dropout=_dropout(config, config.dropout.annotation),
        readout_dropout=_dropout(config, config.dropout.readout),
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


def _dropout(config: schema.Model, probability: float) -> Dropout:
    return VariationalDropout(probability) if config.dropout.variational else Dropout(probability)


# --- cells ------------------------------------------------------------------------------------------------------------


def _cell(section: schema.Recurrence) -> Cell:
    """Make one layer of a recurrent part."""
    kind = _kind_of_cell(section)
    cells = [kind(section.hidden, normalize=section.layer_norm) for _ in range(_transitions(section))]
    return DeepTransition(cells) if len(cells) > 1 else cells[0]


def _kind_of_cell(section: Any) -> Callable[..., Cell]:
    match section:
        case schema.Gru(reset="before"):
            return ResetBeforeGruCell
        case schema.CustomCell(cell=name):
            part = "encoder" if isinstance(section, schema.RecurrentEncoder) else "decoder"
            return _registered(CELLS, name, "cell", f"model.{part}.cell")
    return CELLS[section.type]


def _transitions(section: schema.Recurrence) -> int:
    return section.transitions if isinstance(section, schema.Transitions) else 1


CELLS: dict[str, Callable[..., Cell]] = {"gru": GruCell, "lstm": LstmCell, "ssru": SsruCell}
"""Functions, usually classes, of the number of units and of ``normalize``: whether the gates are normalized."""

# --- encoders ---------------------------------------------------------------------------------------------------------


def _recurrent_encoder(config: schema.Model) -> Encoder:
    section = config.encoder
    assert isinstance(section, schema.RecurrentEncoder)
    return RecurrentEncoder(
        config.embeddings.size,
        lambda: _cell(section),
        section.layers,
        _dropout(config, config.dropout.annotation),
        bidirectional=section.directions == "both",
        residual=section.residual,
        mean=section.summary == "mean",
    )


# --- attention --------------------------------------------------------------------------------------------------------


def _no_attention(config: schema.Model, encoder: Encoder) -> Attention:
    assert isinstance(config.attention, schema.NoAttention)
    return NoAttention() if config.attention.context == "every_step" else InitialStateOnly()


def _attention(config: schema.Model, encoder: Encoder) -> Attention:
    """One of Bahdanau's or Luong's: a score, its scope, its heads, hard or soft."""
    section, state, annotation = config.attention, config.decoder.hidden, encoder.width
    assert isinstance(section, schema.ScoredAttention)
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


def _additive(section: schema.ScoredAttention, state: int, annotation: int) -> ScoredAttention:
    kind = CoverageAttention if section.coverage else AdditiveAttention
    return kind(state, annotation, section.hidden or state, bias=section.bias is not False)


SCORES: dict[str, Callable[[schema.ScoredAttention, int, int], ScoredAttention]] = {
    "additive": _additive,
    "concat": _additive,
    "dot": lambda section, state, annotation: DotAttention(),
    "scaled_dot": lambda section, state, annotation: ScaledDotAttention(),
    "general": lambda section, state, annotation: GeneralAttention(state, annotation),
    "low_rank": lambda section, state, annotation: LowRankAttention(state, annotation, section.hidden or state),
    "cosine": lambda section, state, annotation: CosineAttention(state, annotation),
    "location": lambda section, state, annotation: LocationAttention(state, section.positions or schema.POSITIONS),
}
"""Scores by name, for queries and annotations of these widths."""

# --- decoders ---------------------------------------------------------------------------------------------------------


def _recurrent_decoder(config: schema.Model, encoder: Encoder, attention: Attention) -> Decoder:
    """Luong's attention comes after the update, and so does a custom one that says so; every other before it."""
    section = config.decoder
    assert isinstance(section, schema.RecurrentDecoder)
    after = isinstance(config.attention, schema.LuongAttention) or (
        isinstance(config.attention, schema.CustomAttention) and config.attention.after_update
    )
    kind = LuongDecoder if after else BahdanauDecoder
    activation = section.readout_activation or ("tanh" if after else "maxout")
    upper = [
        Layer(
            _cell(section),
            encoder.bridge_width,
            _dropout(config, config.dropout.annotation),
            residual=section.residual,
        )
        for _ in range(section.layers - 1)
    ]
    return kind(
        attention,
        _cell(section),
        Sizes(
            embedding=config.embeddings.size,
            context=0 if isinstance(attention, InitialStateOnly) else encoder.width,
            bridge=encoder.bridge_width,
            readout=_readout_width(config),
        ),
        upper,
        Maxout() if activation == "maxout" else Tanh(),
        input_feeding=_feeds(config.attention, after=after),
    )


def _feeds(attention: schema.AnyAttention, *, after: bool) -> bool:
    if isinstance(attention, schema.CustomAttention):
        return after and attention.input_feeding
    return isinstance(attention, schema.ScoredAttention) and attention.input_feeding


def _readout_width(config: schema.Model) -> int:
    assert not isinstance(config.decoder, schema.TransformerDecoder)
    return config.decoder.readout or config.embeddings.size


ENCODERS: dict[str, Callable[[schema.Model], Encoder]] = {
    **dict.fromkeys((*CELLS, "recurrent"), _recurrent_encoder),
    "transformer": transformer_encoder,
}
ATTENTIONS: dict[str, Callable[[schema.Model, Encoder], Attention]] = {
    "none": _no_attention,
    "bahdanau": _attention,
    "luong": _attention,
    "transformer": transformer_attention,
}
DECODERS: dict[str, Callable[[schema.Model, Encoder, Attention], Decoder]] = {
    **dict.fromkeys((*CELLS, "recurrent"), _recurrent_decoder),
    "transformer": transformer_decoder,
}
BUILT_IN = {*ENCODERS, *ATTENTIONS, *DECODERS}
"""Names that a custom part cannot take."""
