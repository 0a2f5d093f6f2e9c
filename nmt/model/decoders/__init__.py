"""Decoders: Bahdanau's attends before the state is updated, Luong's after."""

from nmt.model.decoders.bahdanau import BahdanauDecoder
from nmt.model.decoders.base import Decoder
from nmt.model.decoders.luong import LuongDecoder
from nmt.model.decoders.recurrent import RecurrentDecoder, RecurrentState

__all__ = ["BahdanauDecoder", "Decoder", "LuongDecoder", "RecurrentDecoder", "RecurrentState"]
