"""Decoders: Bahdanau's attends before the state is updated, Luong's after; the Transformer's has no such state."""

from nmt.model.decoders.bahdanau import BahdanauDecoder
from nmt.model.decoders.base import Decoder
from nmt.model.decoders.luong import LuongDecoder
from nmt.model.decoders.readout import Maxout, Readout, Tanh
from nmt.model.decoders.recurrent import Layer, RecurrentDecoder, RecurrentState, Sizes
from nmt.model.decoders.transformer import TransformerDecoder, TransformerState

__all__ = [
    "BahdanauDecoder",
    "Decoder",
    "Layer",
    "LuongDecoder",
    "Maxout",
    "Readout",
    "RecurrentDecoder",
    "RecurrentState",
    "Sizes",
    "Tanh",
    "TransformerDecoder",
    "TransformerState",
]
