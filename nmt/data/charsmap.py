"""What SentencePiece before 0.2.2 reads without a look: a model's table of normalizations; and how long its pieces are.

The table is a double array (Aoe 1989; Darts-clone): each unit says how far away its children are. SentencePiece follows
wherever a unit points, also out of the array; so in a model from a stranger all of them are looked at before.
"""

from typing import Any

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from sentencepiece import sentencepiece_model_pb2

ModelProto: Any = sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]
"""A model as a message, all its parts."""
LONGEST_PIECE = 10_000
"""Bytes; a word of SentencePiece's longest line has 4,192."""
LARGEST_TABLE = 1 << 20
"""Bytes; those of SentencePiece have a quarter of it."""
LONGEST_RESULT = 100
"""Bytes that may take the place of what is normalized; Unicode's longest have 33."""


def wrong(model: bytes, most_pieces: int) -> str:
    """What is wrong with a serialized SentencePiece model of at most so many pieces, "" if nothing is."""
    try:
        proto = ModelProto.FromString(model)
    except DecodeError:
        return "not a SentencePiece model"
    if len(proto.pieces) > most_pieces:
        return f"the model has {len(proto.pieces):,} pieces; at most {most_pieces:,} are read"
    if any(piece.ByteSize() > LONGEST_PIECE for piece in proto.pieces):
        return f"a piece of the model has more than {LONGEST_PIECE:,} bytes"
    for spec in (proto.normalizer_spec, proto.denormalizer_spec):
        if len(spec.precompiled_charsmap) > LARGEST_TABLE:
            return f"the table of normalizations in the model has more than {LARGEST_TABLE:,} bytes"
        if spec.precompiled_charsmap and not _sound(spec.precompiled_charsmap):
            return "the table of normalizations in the model is damaged"
    return ""


def _sound(charsmap: bytes) -> bool:
    """Whether every step from every unit stays in the array, and every result in the text behind it.

    ``charsmap``: the size of the array in four bytes, its units of four bytes each, and the results, each ended by NUL.
    A unit's children are at ``base ^ label``, labels being bytes; that of label 0, where there is one, says in 31 bits
    where in the text the result begins. What has the highest bit set is such a place, and never followed.
    """
    size = int.from_bytes(charsmap[:4], "little")
    results = charsmap[4 + size :]
    if not 0 < size <= len(charsmap) - 4 or size % 4 or results[-1:] != b"\0":
        return False
    units = np.frombuffer(charsmap, "<u4", size // 4, 4).astype(np.int64)
    bases = np.arange(len(units)) ^ ((units >> 10) << ((units & 0x200) >> 6))
    followed = units < 1 << 31
    if ((bases | 0xFF)[followed] >= len(units)).any():
        return False
    ends = followed & (units & 0x100 != 0)
    places = units[bases[ends]] & 0x7FFFFFFF
    return bool((places < len(results)).all() and max(map(len, results.split(b"\0"))) <= LONGEST_RESULT)
