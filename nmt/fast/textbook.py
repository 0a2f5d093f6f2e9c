"""Which encoders and decoders have fast twins: the shapes of the textbooks."""

from typing import TypeGuard

from torch import nn

from nmt.model.cells import GruCell
from nmt.model.decoders import BahdanauDecoder, Decoder, LuongDecoder, Maxout, RecurrentDecoder, Tanh
from nmt.model.encoders import Encoder, GruEncoder


def textbook(decoder: Decoder) -> TypeGuard[RecurrentDecoder]:
    """Whether a decoder is Bahdanau's or Luong's with one layer of a plain GRU, as their papers have it."""
    if type(decoder) is BahdanauDecoder:
        shape = type(decoder.nonlinearity) is Maxout and decoder.feeding_gates is None
        shape = shape and isinstance(decoder.context_gates, nn.Linear)
    elif type(decoder) is LuongDecoder:
        shape = type(decoder.nonlinearity) is Tanh
    else:
        return False
    gru = type(decoder.update) is GruCell and not decoder.update.normalized
    return shape and gru and not decoder.layers and not decoder.attention.covers


def textbook_encoder(encoder: Encoder) -> bool:
    """Whether an encoder is a GRU in both directions whose last states are the summary."""
    return type(encoder) is GruEncoder and encoder.bidirectional and not encoder.mean


def recurrent(decoder: RecurrentDecoder) -> nn.Linear:
    """Return the recurrent product of a textbook decoder."""
    assert isinstance(decoder.update, GruCell)
    return decoder.update.recurrent
