"""Attention: how a decoder reads the annotations. base.py has the interface."""

from nmt.model.attention.base import Attention, InitialStateOnly, NoAttention, ScoredAttention, WeightedMean
from nmt.model.attention.multi_head import EncoderDecoderAttention, MultiHeadAttention
from nmt.model.attention.scores import (
    AdditiveAttention,
    CosineAttention,
    DotAttention,
    GeneralAttention,
    LocalAttention,
    LocationAttention,
    LowRankAttention,
    MonotonicLocalAttention,
    PredictiveLocalAttention,
    ScaledDotAttention,
)

__all__ = [
    "AdditiveAttention",
    "Attention",
    "CosineAttention",
    "DotAttention",
    "EncoderDecoderAttention",
    "GeneralAttention",
    "InitialStateOnly",
    "LocalAttention",
    "LocationAttention",
    "LowRankAttention",
    "MonotonicLocalAttention",
    "MultiHeadAttention",
    "NoAttention",
    "PredictiveLocalAttention",
    "ScaledDotAttention",
    "ScoredAttention",
    "WeightedMean",
]
