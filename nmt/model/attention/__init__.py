"""Attention: how a decoder reads the annotations. base.py has the interface."""

from nmt.model.attention.base import Attention, InitialStateOnly, NoAttention, ScoredAttention, WeightedMean
from nmt.model.attention.heads import MultiHeadAttention
from nmt.model.attention.local import LocalAttention, MonotonicLocalAttention, PredictiveLocalAttention
from nmt.model.attention.multi_head import EncoderDecoderAttention
from nmt.model.attention.scores import (
    AdditiveAttention,
    CosineAttention,
    CoverageAttention,
    CoveredMemory,
    DotAttention,
    GeneralAttention,
    LocationAttention,
    LowRankAttention,
    ScaledDotAttention,
)

__all__ = [
    "AdditiveAttention",
    "Attention",
    "CosineAttention",
    "CoverageAttention",
    "CoveredMemory",
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
