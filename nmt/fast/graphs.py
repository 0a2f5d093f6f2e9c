"""Whose training steps a CUDA graph may repeat: the shapes of the textbooks, whose twins have no synchronization."""

from torch import nn

from nmt.model import Seq2Seq
from nmt.model.attention import AdditiveAttention, DotAttention, GeneralAttention, NoAttention
from nmt.model.cells import Cell, GruCell
from nmt.model.decoders import BahdanauDecoder, Decoder, LuongDecoder, Maxout, Tanh
from nmt.model.dropout import Dropout
from nmt.model.encoders import Encoder, RecurrentEncoder


def repeatable(model: Seq2Seq) -> bool:
    """Whether all batches of a shape take the same operations, none of which waits for the GPU."""
    return _encoder(model.encoder) and _decoder(model.decoder)


def _encoder(encoder: Encoder) -> bool:
    """A GRU in both directions whose last states are the summary."""
    if type(encoder) is not RecurrentEncoder or encoder.mean or encoder.residual:
        return False
    ways = [way for layer in encoder.directions for way in layer]
    both = len(ways) == 2 * len(encoder.layers)
    return both and type(encoder.dropout) is Dropout and all(map(_gru, (way.cell for way in ways)))


def _decoder(decoder: Decoder) -> bool:
    """Bahdanau's or Luong's with one layer of a plain GRU, as their papers have it, and one of their attentions."""
    if type(decoder) is BahdanauDecoder:
        shape = type(decoder.nonlinearity) is Maxout and decoder.feeding_gates is None
        shape = shape and isinstance(decoder.context_gates, nn.Linear)
    elif type(decoder) is LuongDecoder:
        shape = type(decoder.nonlinearity) is Tanh
    else:
        return False
    return shape and _gru(decoder.cell) and not decoder.above and type(decoder.attention) in ATTENTIONS


def _gru(cell: Cell) -> bool:
    return type(cell) is GruCell and not cell.normalized


ATTENTIONS = {NoAttention, AdditiveAttention, DotAttention, GeneralAttention}
"""Attentions that wait for nothing; one of one's own may."""
