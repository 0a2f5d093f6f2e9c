"""Tables of normalization that SentencePiece could follow out of its memory."""

import io
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.charsmap import LONGEST_PIECE, LONGEST_RESULT, ModelProto, wrong
from nmt.data.tokenizer import Tokenizer
from nmt.errors import DataError

RULES = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")


def learned(rule: str = "nmt_nfkc") -> Any:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["oak elm", "ash fir"] * 9),
        model_writer=model,
        model_type="char",
        vocab_size=20,
        hard_vocab_limit=False,
        normalization_rule_name=rule,
        pad_id=3,
        minloglevel=2,
    )
    return ModelProto.FromString(model.getvalue())


TABLE = bytes(learned().normalizer_spec.precompiled_charsmap)


def with_table(table: bytes, where: str = "normalizer_spec") -> bytes:
    model = learned("identity")
    getattr(model, where).precompiled_charsmap = table
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("rule", RULES)
def test_what_sentencepiece_comes_with_is_sound(rule: str) -> None:
    assert wrong(learned(rule).SerializeToString(), 1000) == ""


def units(table: bytes) -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
    return np.frombuffer(table, "<u4", int.from_bytes(table[:4], "little") // 4, 4).copy()


def rebuilt(table: bytes, changed: "np.ndarray[tuple[int], np.dtype[np.uint32]]") -> bytes:
    return table[:4] + changed.tobytes() + table[4 + changed.nbytes :]


def damaged(table: bytes) -> dict[str, bytes]:
    """Each in one way that must be seen."""
    size = int.from_bytes(table[:4], "little")
    array, results = units(table), table[4 + size :]
    end = int(np.flatnonzero(array >> 31)[0])  # where a result begins
    far, late = array.copy(), array.copy()
    far[0] |= 0x7FFFFC00
    late[end] = 1 << 31 | len(results)
    return {
        "a step out of the array": rebuilt(table, far),
        "a result behind the text": rebuilt(table, late),
        "no array": bytes(4) + results,
        "an array larger than the table": (len(table)).to_bytes(4, "little") + table[4:],
        "an array of part of a unit": (size + 1).to_bytes(4, "little") + table[4:],
        "an array cut short": (size - 1024).to_bytes(4, "little") + table[4 : 4 + size - 1024] + results,
        "text without an end": table[:-1] + b"x",
        "a long result": table + b"x" * (LONGEST_RESULT + 1) + b"\0",
        "three bytes": table[:3],
    }


DAMAGES = (
    *("a step out of the array", "a result behind the text", "no array", "an array larger than the table"),
    *("an array of part of a unit", "an array cut short", "text without an end", "a long result", "three bytes"),
)


@pytest.mark.parametrize("where", ["normalizer_spec", "denormalizer_spec"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_seen(damage: str, where: str) -> None:
    found = damaged(TABLE)
    assert found.keys() == set(DAMAGES)
    assert wrong(with_table(found[damage], where), 1000) == "the table of normalizations in the model is damaged"
    assert wrong(with_table(TABLE + b"x" * LONGEST_RESULT + b"\0", where), 1000) == ""


def test_a_damaged_table_is_refused_before_sentencepiece_sees_it(tmp_path: Path) -> None:
    """What is refused here ends SentencePiece itself by a segmentation fault, or may."""
    model = with_table(damaged(TABLE)["a step out of the array"])
    with pytest.raises(DataError, match=r"^a\.model: the table of normalizations in the model is damaged$"):
        Tokenizer(model, "a.model")
    (tmp_path / "a.model").write_bytes(model)
    code = "import sentencepiece, sys; sentencepiece.SentencePieceProcessor(model_file=sys.argv[1]).encode('oak')"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.model")], capture_output=True, check=False)
    assert done.returncode != 0, "SentencePiece looks itself: charsmap is needed no more"


@given(st.lists(st.tuples(st.integers(0, 200_000), st.integers(0, 255)), min_size=1, max_size=20))
def test_whatever_is_changed_is_seen_or_harmless(changes: list[tuple[int, int]]) -> None:
    table = bytearray(TABLE)
    for place, value in changes:
        table[4 + place] = value
    with suppress(DataError):
        tokenizer = Tokenizer(with_table(bytes(table)))
        for text in ("oak ½ ﬁ ①", "ｏａｋ\0", "e\u0301 \U0001f600", "".join(map(chr, range(0x20, 0x3000, 7)))):
            tokenizer.encode([text])


def test_a_piece_may_not_be_endless() -> None:
    model = learned()
    model.pieces[-1].piece = "x" * LONGEST_PIECE
    assert wrong(model.SerializeToString(), 1000) == f"a piece of the model has more than {LONGEST_PIECE:,} bytes"
    model.pieces[-1].piece = "x" * (LONGEST_PIECE // 2)
    assert wrong(model.SerializeToString(), 1000) == ""


def test_there_may_not_be_too_many_pieces() -> None:
    model = learned()
    count = len(model.pieces)
    assert wrong(model.SerializeToString(), count) == ""
    assert wrong(model.SerializeToString(), count - 1) == f"the model has {count} pieces; at most {count - 1} are read"


@given(st.binary())
def test_what_is_no_model_is_none(data: bytes) -> None:
    with pytest.raises(DataError):
        Tokenizer(data)
