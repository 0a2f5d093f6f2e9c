"""Attention: which annotations matter to a decoder state, and their weighted mean, the context."""

from nmt.model.attention.base import Attention, NoAttention, ScoredAttention
from nmt.model.attention.multi_head import EncoderDecoderAttention
from nmt.model.attention.scores import AdditiveAttention, DotAttention, GeneralAttention

__all__ = [
    "AdditiveAttention",
    "Attention",
    "DotAttention",
    "EncoderDecoderAttention",
    "GeneralAttention",
    "NoAttention",
    "ScoredAttention",
]
