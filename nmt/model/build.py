"""From configuration to network: the only place in ``nmt.model`` that reads the schema's choices."""

from torch import nn

from nmt.config import schema
from nmt.model.attention import AdditiveAttention, Attention, DotAttention, GeneralAttention, NoAttention
from nmt.model.decoder import BahdanauDecoder, Decoder, LuongDecoder
from nmt.model.encoder import GruEncoder
from nmt.model.initialization import initialize
from nmt.model.seq2seq import Seq2Seq


def build_model(config: schema.Model, source_size: int, target_size: int, *, fused: bool = True) -> Seq2Seq:
    """A freshly initialized network for vocabularies of these sizes, from PyTorch's random generator.

    With ``fused`` the recurrences run in ``nmt.kernels``; without, step by step: the same parameters and numbers.
    """
    width, annotation = config.embeddings.size, 2 * config.encoder.hidden
    readout = config.decoder.readout or width
    source_embedding = nn.Embedding(source_size, width)
    target_embedding = source_embedding if config.embeddings.tie == "all" else nn.Embedding(target_size, width)
    output = nn.Linear(readout, target_size)
    if config.embeddings.tie != "none":
        output.weight = target_embedding.weight
    model = Seq2Seq(
        source_embedding,
        target_embedding,
        GruEncoder(width, config.encoder.hidden, config.encoder.layers, config.dropout.annotation, fused=fused),
        _decoder(config, width, annotation, readout, fused=fused),
        output,
        embedding_dropout=config.dropout.embedding,
        annotation_dropout=config.dropout.annotation,
        readout_dropout=config.dropout.readout,
    )
    initialize(model, config.initialization)
    return model


def _decoder(config: schema.Model, embedding: int, annotation: int, readout: int, *, fused: bool) -> Decoder:
    hidden = config.decoder.hidden
    match config.attention:
        case schema.BahdanauAttention(hidden=units):
            additive = AdditiveAttention(hidden, annotation, units)
            return BahdanauDecoder(additive, embedding, annotation, hidden, readout, fused=fused)
        case schema.NoAttention():
            return BahdanauDecoder(NoAttention(), embedding, annotation, hidden, readout, fused=fused)
        case schema.LuongAttention(input_feeding=feeding) as luong:
            return LuongDecoder(
                _luong(luong, hidden, annotation),
                embedding,
                annotation,
                hidden,
                readout,
                input_feeding=feeding,
                fused=fused,
            )


def _luong(config: schema.LuongAttention, state: int, annotation: int) -> Attention:
    match config.score:
        case "dot":
            return DotAttention()
        case "general":
            return GeneralAttention(state, annotation)
        case "concat":
            return AdditiveAttention(state, annotation, config.hidden or state)
