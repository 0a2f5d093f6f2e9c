"""The mathematics, readable beside the papers: encoders, attention, decoders, and the network they make."""

from nmt.model.build import build_model
from nmt.model.records import Memory, State
from nmt.model.seq2seq import Seq2Seq, TeacherForced

__all__ = ["Memory", "Seq2Seq", "State", "TeacherForced", "build_model"]
