"""Encoders: source tokens to annotations. base.py has the interface."""

from nmt.model.encoders.base import Encoder
from nmt.model.encoders.recurrent import RecurrentEncoder
from nmt.model.encoders.transformer import TransformerEncoder

__all__ = ["Encoder", "RecurrentEncoder", "TransformerEncoder"]
