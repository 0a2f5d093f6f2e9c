"""Decoders: Bahdanau's attends before the state is updated, Luong's after."""

from nmt.model.decoders.bahdanau import BahdanauDecoder
from nmt.model.decoders.base import (
    Decoder,
    Layer,
    Maxout,
    Readout,
    RecurrentDecoder,
    RecurrentState,
    Sizes,
    Tanh,
    Unread,
)
from nmt.model.decoders.luong import LuongDecoder

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
    "Unread",
]
