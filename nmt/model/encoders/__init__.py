"""Encoders: from embedded source tokens to annotations."""

from nmt.model.encoders.base import Encoder
from nmt.model.encoders.gru import GruEncoder
from nmt.model.encoders.transformer import TransformerEncoder

__all__ = ["Encoder", "GruEncoder", "TransformerEncoder"]
