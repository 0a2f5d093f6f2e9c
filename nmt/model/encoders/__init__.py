"""Encoders: from embedded source tokens to annotations."""

from nmt.model.encoders.base import Encoder
from nmt.model.encoders.gru import GruEncoder

__all__ = ["Encoder", "GruEncoder"]
