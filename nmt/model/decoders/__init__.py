"""Decoders: Bahdanau's attends before the state is updated, Luong's after; the Transformer's has no such state."""

from nmt.model.decoders.bahdanau import BahdanauDecoder
from nmt.model.decoders.base import Decoder
from nmt.model.decoders.luong import LuongDecoder
from nmt.model.decoders.recurrent import RecurrentDecoder, RecurrentState
from nmt.model.decoders.transformer import TransformerDecoder, TransformerState

__all__ = [
    "BahdanauDecoder",
    "Decoder",
    "LuongDecoder",
    "RecurrentDecoder",
    "RecurrentState",
    "TransformerDecoder",
    "TransformerState",
]
