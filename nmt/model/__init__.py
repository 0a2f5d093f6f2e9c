"""The mathematics, readable beside the papers: encoders, attention, decoders, and the network they make."""

from nmt.model.build import build_model
from nmt.model.records import Memory, State
from nmt.model.seq2seq import Network, Seq2Seq

__all__ = ["Memory", "Network", "Seq2Seq", "State", "build_model"]
