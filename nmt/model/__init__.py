"""The mathematics, readable beside the papers: attention, encoder, decoder, and the network they make."""

from nmt.model.attention import Memory
from nmt.model.build import build_model
from nmt.model.decoder import State
from nmt.model.seq2seq import Seq2Seq

__all__ = ["Memory", "Seq2Seq", "State", "build_model"]
