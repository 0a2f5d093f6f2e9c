"""Damaged and hostile SentencePiece models are refused, by SentencePiece or by the tokenizer."""

import io
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.tokenizer import LARGEST_NORMALIZATION, ModelProto, Tokenizer
from nmt.errors import DataError


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


def units(table: bytes) -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
    return np.frombuffer(table, "<u4", int.from_bytes(table[:4], "little") // 4, 4).copy()


def rebuilt(table: bytes, changed: "np.ndarray[tuple[int], np.dtype[np.uint32]]") -> bytes:
    return table[:4] + changed.tobytes() + table[4 + changed.nbytes :]


def damaged(table: bytes) -> dict[str, bytes]:
    """Each with one fault that would lead out of the table."""
    size = int.from_bytes(table[:4], "little")
    array, replacements = units(table), table[4 + size :]
    end = int(np.flatnonzero(array >> 31)[0])  # the place of a replacement
    far, late = array.copy(), array.copy()
    far[0] |= 0x7FFFFC00
    late[end] = 1 << 31 | len(replacements)
    return {
        "a step out of the array": rebuilt(table, far),
        "a replacement behind the text": rebuilt(table, late),
        "no array": bytes(4) + replacements,
        "an array larger than the table": (len(table)).to_bytes(4, "little") + table[4:],
        "an array of part of a unit": (size + 1).to_bytes(4, "little") + table[4:],
        "an array cut short": (size - 1024).to_bytes(4, "little") + table[4 : 4 + size - 1024] + replacements,
        "text without an end": table[:-1] + b"x",
        "three bytes": table[:3],
    }


@pytest.mark.parametrize("where", ["normalizer_spec", "denormalizer_spec"])
@pytest.mark.parametrize("damage", DAMAGED := damaged(TABLE))
def test_damage_is_refused_by_sentencepiece(damage: str, where: str) -> None:
    model = with_table(DAMAGED[damage], where)
    with pytest.raises(RuntimeError, match="INTERNAL"):
        sentencepiece.SentencePieceProcessor().LoadFromSerializedProto(model)
    with pytest.raises(DataError, match=r"^a\.model: not a SentencePiece model, or a damaged one$"):
        Tokenizer(model, "a.model")
    Tokenizer(with_table(TABLE, where))


@pytest.mark.parametrize("where", ["normalizer_spec", "denormalizer_spec"])
def test_a_replacement_may_not_be_endless(where: str) -> None:
    """One character of 1,000 that becomes 100,000 others would take SentencePiece gigabytes and ten seconds a line."""
    for rule in ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"):
        Tokenizer(learned(rule).SerializeToString())
    Tokenizer(with_table(TABLE + b"x" * 100 + b"\0", where))
    Tokenizer(with_table(TABLE + bytes(LARGEST_NORMALIZATION - len(TABLE)), where))
    for much in (b"x" * 101 + b"\0", bytes(LARGEST_NORMALIZATION)):
        with pytest.raises(DataError, match=r"^tokenizer: the normalization table of the model is larger than any"):
            Tokenizer(with_table(TABLE + much, where))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200_000), st.integers(0, 255)), min_size=1, max_size=20))
def test_any_change_of_a_table_is_refused_or_harmless(changes: list[tuple[int, int]]) -> None:
    table = bytearray(TABLE)
    for place, value in changes:
        table[4 + place] = value
    with suppress(DataError):
        tokenizer = Tokenizer(with_table(bytes(table)))
        for text in ("oak ½ ﬁ ①", "ｏａｋ\0", "e\u0301 \U0001f600", "".join(map(chr, range(0x20, 0x3000, 7)))):
            tokenizer.encode([text])


def test_a_piece_may_not_be_endless() -> None:
    model = learned()
    model.pieces[-1].piece = "x" * 10_000
    with pytest.raises(DataError, match="not a SentencePiece model, or a damaged one"):
        Tokenizer(model.SerializeToString())
    model.pieces[-1].piece = "x" * 5_000
    Tokenizer(model.SerializeToString())


def test_there_may_not_be_too_many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    model = learned()
    count = len(model.pieces)
    monkeypatch.setattr("nmt.data.tokenizer.schema.LARGEST_VOCABULARY", count)
    Tokenizer(model.SerializeToString())
    monkeypatch.setattr("nmt.data.tokenizer.schema.LARGEST_VOCABULARY", count - 1)
    with pytest.raises(DataError, match=f"^tokenizer: the model has {count} pieces; the limit is {count - 1}$"):
        Tokenizer(model.SerializeToString())
