"""Unknown words replaced: weights and words small enough to see the right answer."""

from pathlib import Path

import numpy as np
import pytest

from nmt.config.schema import BpeTokenizer, CharacterTokenizer, UnigramTokenizer, WordTokenizer
from nmt.data.corpus import Pair
from nmt.data.tokenizer import Tokenizers, learn
from nmt.errors import DataError
from nmt.translation.unknown import UnknownWords, read_dictionary, replace_unknown, unsuitable

PAIRS = [Pair("the old cat sleeps .", "le vieux chat dort .")] * 3


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    return learn(WordTokenizer(type="word", vocabulary=30), PAIRS)


def looking_at(*places: int, columns: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """A row for each place with 0.6 there and the rest elsewhere."""
    weights = np.full((len(places), columns), 0.4 / (columns - 1), np.float32)
    weights[np.arange(len(places)), list(places)] = 0.6
    return weights


def test_by_hand() -> None:
    sources = ["the", "cat", "Ada Lovelace", "42"]
    words = ["le", None, "voit", None, None]
    weights = looking_at(0, 1, 3, 2, 3, columns=4)
    assert replace_unknown(words, weights, sources, {}) == "le cat voit Ada Lovelace 42"
    assert replace_unknown(words, weights, sources, {"cat": "chat", "Ada": "Adda", "le": "x"}) == (
        "le chat voit Adda Lovelace 42"
    )
    assert replace_unknown(["le", "chat"], weights, sources, {"the": "x", "cat": "y"}) == "le chat"
    assert replace_unknown([], weights[:0], sources, {}) == ""


def test_the_end_symbol_replaces_nothing() -> None:
    """The last row is that of the end symbol of the translation; the last column, the heaviest, that of the source."""
    weights = np.array([[0.1, 0.2, 0.7], [0.2, 0.1, 0.7], [0.0, 0.0, 1.0]])
    assert replace_unknown([None, None], weights, ["a", "b"], {}) == "b a"


def test_of_equal_weights_the_first() -> None:
    assert replace_unknown([None], np.full((1, 3), 1 / 3), ["a", "b", "c"], {}) == "a"


def test_pieces_of_the_source_are_found_in_the_text(tokenizers: Tokenizers) -> None:
    """SentencePiece makes one unknown piece of a run of unknown words."""
    source, target = tokenizers.source, tokenizers.target
    line = "  the Big-Ben tower\u00a0, cat  zzz sleeps"
    assert source.pieces(source.encode([line])[0]) == ["▁the", "<unk>", "▁cat", "<unk>", "▁sleeps"]
    assert source.spelled(line, 9) == ["▁the", "▁Big-Ben▁tower▁,", "▁cat", "▁zzz", "▁sleeps"]
    assert source.spelled(line, 2) == ["▁the", "▁Big-Ben▁tower▁,"]
    tokens = [*target.encode(["le"])[0], target.unk_id, *target.encode(["dort"])[0], target.unk_id]
    unknown = UnknownWords({"zzz": "zut alors"})
    weights = looking_at(0, 1, 4, 3, 5, columns=6)
    assert unknown.replaced(tokens, weights, line, tokenizers) == "le Big-Ben tower , dort zut alors"
    assert unknown.replaced(tokens, weights[:4], line, tokenizers) == "le Big-Ben tower , dort zut alors"


def test_only_words_suit(tokenizers: Tokenizers) -> None:
    assert unsuitable(tokenizers) is None
    text = [Pair("the old cat sleeps .", "le vieux chat dort .")]
    others = [
        learn(BpeTokenizer(type="bpe", vocabulary=30), text),
        learn(UnigramTokenizer(type="unigram"), text),
        learn(CharacterTokenizer(type="character", vocabulary=30), text),
    ]
    for other in others:
        reason = unsuitable(other)
        assert reason is not None and reason.startswith(
            "the pieces of the source and the target side are parts of words"
        )
        reason = unsuitable(Tokenizers(tokenizers.source, other.target))
        assert reason is not None and reason.startswith("the pieces of the target side are parts of words")
        assert "tokenizer.type: word" in reason


def test_a_dictionary_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dictionary.tsv"
    path.write_text("cat\tchat\ncat\tminou\nNew\t la Nouvelle \n", "utf-8")
    assert read_dictionary(str(path)) == {"cat": "chat", "New": "la Nouvelle"}


@pytest.mark.parametrize("line", ["cat chat", "cat\t", "\tchat", "a b\tc", "a\tb\tc", ""])
def test_a_line_of_another_form_is_told(tmp_path: Path, line: str) -> None:
    path = tmp_path / "dictionary.tsv"
    path.write_text(f"cat\tchat\n{line}\n", "utf-8")
    with pytest.raises(DataError) as caught:
        read_dictionary(str(path))
    assert str(caught.value) == f"{path}:2: must be a source word, a tab and its translation"
