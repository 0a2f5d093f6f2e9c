"""SentencePiece models: learned the same every time, text that survives, what is said where none is; BPE-dropout."""

import hashlib
import io
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config.schema import LearnedTokenizer
from nmt.data.corpus import Pair
from nmt.data.tokenizer import BpeDropout, Tokenizer, Tokenizers, learn, sampled, suitable_vocabulary
from nmt.errors import DataError
from tests.small_translator import LINES
from tests.test_corpus import error_of

WORDS = str.split("the small red house stands near an old green tree where seven quiet children play every sunny day")
MOTS = str.split("la petite maison rouge se dresse près d'un vieil arbre où sept enfants jouent chaque jour d'été")
SOURCES = [" ".join(WORDS[(7 * i + j * j) % 18] for j in range(9)) for i in range(60)]
TARGETS = [" ".join(MOTS[(5 * i + j * j) % 16] for j in range(8)) for i in range(60)]
PAIRS = [Pair(*both) for both in zip(SOURCES, TARGETS, strict=True)]
SIZES = {"bpe": 60, "unigram": 38, "word": 15, "character": 24}
KNOWN = "".join(sorted(set("".join(WORDS))))


def tokenizer_config(kind: str, **options: Any) -> LearnedTokenizer:
    return LearnedTokenizer.model_validate({"type": kind, **options})


def learned(kind: str, pairs: list[Pair] = PAIRS, **options: Any) -> Tokenizers:
    return learn(tokenizer_config(kind, **{"vocabulary": SIZES[kind], **options}), pairs)


@pytest.fixture(scope="module")
def bpe() -> Tokenizers:
    return learned("bpe")


def given_model(**options: Any) -> bytes:
    """A model learned by SentencePiece itself, with its own special ids unless ``options`` say otherwise."""
    model = io.BytesIO()
    how: dict[str, Any] = {"vocab_size": 40, "model_type": "bpe", "minloglevel": 2} | options
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(SOURCES), model_writer=model, **how)
    return model.getvalue()


# --- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SIZES)
def test_a_model_has_its_size_special_ids_and_bytes(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = learned(kind), learn(tokenizer_config(kind, vocabulary=SIZES[kind]), (pair for pair in PAIRS))
    for side in (first.source, first.target):
        assert side.size == SIZES[kind]
        assert (side.pad_id, side.unk_id, side.bos_id, side.eos_id) == (0, 1, 2, 3)
        assert side.pieces([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert first.sha256 == second.sha256
    assert first.source.sha256 != first.target.sha256
    assert capfd.readouterr() == ("", "")


def test_words_and_characters_are_what_they_say() -> None:
    words, characters = learned("word", vocabulary=1000).source, learned("character", vocabulary=1000).source
    assert (words.size, characters.size) == (4 + len(WORDS), 4 + len(KNOWN) + 1)  # the space is a character too
    assert words.pieces(words.encode(["old house"])[0]) == ["▁old", "▁house"]
    assert characters.pieces(characters.encode(["old tree"])[0]) == ["▁", *"old", "▁", *"tree"]


def test_a_shared_model_knows_both_sides() -> None:
    both = learned("bpe", shared=True)
    assert both.source is both.target
    ids = both.source.encode([PAIRS[0].source, PAIRS[0].target])
    assert all(both.source.unk_id not in row for row in ids)
    assert learned("bpe").source.unk_id in learned("bpe").source.encode(["été"])[0]


def test_a_large_corpus_is_sampled_evenly() -> None:
    pairs = [Pair(str(number), "") for number in range(1000)]
    sample = sampled(iter(pairs), 400)
    assert sampled(pairs, 400) == sample and sampled(pairs, 1000) == pairs
    assert len(sample) == len(set(sample)) == 400
    # Hypergeometric with mean 200 and deviation 7.8: five deviations either way.
    assert 160 < sum(int(pair.source) < 500 for pair in sample) < 240
    assert learned("word", [PAIRS[0], Pair("unseen", "invisible")] * 50, most_pairs=1).source.size < SIZES["word"]


# --- text and ids -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "character"])
@given(st.integers(0, 10_000), st.sampled_from([1, 7, 150]), st.sampled_from(["", " ", "   "]))
@settings(max_examples=15)
def test_the_first_pieces_of_a_long_line_are_those_of_the_whole(kind: str, seed: int, most: int, gap: str) -> None:
    """Of lines of one word, of many, and of words far apart."""
    tokenizer = learned(kind).source
    draw = random.Random(seed)
    lines = ["", gap, gap.join("".join(draw.choices("abcdefgh", k=draw.randint(1, 9))) for _ in range(1000))]
    lines += [lines[2][:1000], lines[2][:300] + " " * 300 + lines[2]]
    found = tokenizer.encode_first(lines, most)
    assert [ids for ids, _ in found] == [ids[:most] for ids in tokenizer.encode(lines)]
    if kind != "word":  # for which all of these lines are one unknown piece, however long
        assert [cut for _, cut in found] == [len(ids) > most for ids in tokenizer.encode(lines)]


@pytest.mark.parametrize("text", ["the cat " * 1_000_000, "☃" * 8_000_000, " " * 8_000_000 + "the cat"])
def test_what_lies_beyond_is_not_encoded(bpe: Tokenizers, text: str) -> None:
    """Many words; one unknown piece; none at all for long."""
    with patch.object(Tokenizer, "encode", autospec=True, side_effect=Tokenizer.encode) as encode:
        [(ids, cut)] = bpe.source.encode_first([text], 1000)
    assert len(ids) <= 1000 and cut
    [(_, read)] = (call.args for call in encode.call_args_list)
    assert sum(map(len, read)) < 400_000


def test_odd_text(bpe: Tokenizers) -> None:
    """Blank text and control pieces; NUL and unknown characters are unknown."""
    side = bpe.source
    assert side.encode(["", " ", "\t", "\u2028", "\u3000"]) == [[]] * 5 and side.decode([]) == ""
    [ids] = side.encode(["old green tree"])
    assert side.decode([side.bos_id, *ids, side.eos_id, side.pad_id]) == "old green tree"
    assert [side.decode(ids) for ids in side.encode(["old\x00tree", "日本 tree"])] == ["old ⁇ tree", "⁇  tree"]


def test_normalization() -> None:
    pairs = [Pair("fi ﬁ 2 ② a\u2003b x\u2003y", "x")] * 10
    for normalization, expected in {"nfkc": "fi 2 a b", "identity": "ﬁ ② a\u2003b"}.items():
        side = learned("character", pairs, vocabulary=40, normalization=normalization).source
        assert side.decode(side.encode(["ﬁ ② a\u2003b"])[0]) == expected


# --- files ------------------------------------------------------------------------------------------------------------


def test_saved_and_loaded_it_is_the_same(bpe: Tokenizers, tmp_path: Path) -> None:
    for tokenizers, shared in ((bpe, False), (learned("bpe", shared=True), True)):
        tokenizers.save(tmp_path)
        again = Tokenizers.load(tmp_path)
        assert (again.source is again.target) == shared
        assert (again.source.sha256, again.target.sha256) == (tokenizers.source.sha256, tokenizers.target.sha256)
        assert again.source.sha256 == hashlib.sha256((tmp_path / "source.model").read_bytes()).hexdigest()


def test_given_models_with_other_special_ids(tmp_path: Path) -> None:
    path = tmp_path / "a.model"
    path.write_bytes(given_model(unk_id=0, bos_id=5, eos_id=6, pad_id=9))
    both = Tokenizers.of_files(path, path)
    side = both.source
    assert side is both.target
    assert (side.pad_id, side.unk_id, side.bos_id, side.eos_id) == (9, 0, 5, 6)
    assert side.decode(side.encode(["old tree"])[0]) == "old tree"


def test_a_model_that_cannot_be_used_is_named(bpe: Tokenizers, tmp_path: Path) -> None:
    path = tmp_path / "a.model"
    path.write_bytes(bpe.source.model)
    whole = path.read_bytes()
    damaged = "not a SentencePiece model, or a damaged one"
    problems = {b"{}": damaged, b"": damaged}
    problems[given_model()] = "special pieces: found none, <unk>, <s>, </s>; must be <pad>"
    problems[given_model(pad_id=3, eos_piece="<eos>")] = "special pieces: found <pad>, <unk>, <s>, <eos>; must be <pad>"
    problems |= {whole[:kept]: "" for kept in (1, len(whole) // 2, len(whole) - 1)}
    path.unlink()
    with pytest.raises(DataError, match=r"/a\.model: no such file"):
        Tokenizer.load(path)
    for content, problem in problems.items():
        path.write_bytes(content)
        assert error_of(Tokenizer.load, path).startswith(f"{path}: {problem}")


# --- a vocabulary that is left open -----------------------------------------------------------------------------------


def test_an_open_vocabulary_grows_with_the_root_of_the_words_of_a_side() -> None:
    cases = (10_000, False, 800), (10_000, True, 566), (4, False, 100), (2_000_000, False, 8000)
    for words, shared, pieces in cases:
        assert suitable_vocabulary(tokenizer_config("bpe", shared=shared), ["w " * (words // 2)] * 2) == pieces
    assert suitable_vocabulary(tokenizer_config("unigram"), ["w " * 5000] * 2) == 800


@pytest.mark.parametrize("kind", SIZES)
def test_an_open_vocabulary_suits_little_text_and_has_room_for_every_character(kind: str) -> None:
    letters = "".join(chr(0x4E00 + number) for number in range(500))
    for line in (PAIRS[0].source, letters):
        tokenizer = learned(kind, [Pair(line, line)], vocabulary=None).source
        [ids] = tokenizer.encode([f" {line}  "])
        assert tokenizer.unk_id not in ids and tokenizer.decode(ids) == line


# --- what the corpus does not support ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_vocabulary_too_large_names_the_largest_which_then_works(kind: str) -> None:
    message = error_of(learned, kind, vocabulary=9000)
    assert message.startswith("tokenizer.vocabulary: 9000 ") and "the source side" in message
    largest = int(message.split()[-1])
    assert learned(kind, [Pair(source, source) for source, _ in PAIRS], vocabulary=largest).source.size == largest


def test_a_vocabulary_too_small_and_a_side_without_text() -> None:
    said = error_of(learned, "bpe", vocabulary=10)
    assert said.startswith("tokenizer.vocabulary: 10 ") and f"at least {4 + len(KNOWN) + 1}, " in said
    for text in (" ", "x" * 5000):
        said = error_of(learned, "bpe", [Pair("some text", text)] * 3, vocabulary=12)
        assert said.startswith("tokenizer: no text to learn from on the target side ")


# --- BPE-dropout: its distribution, and that a segmentation is a function of the text and the seed --------------------

SAMPLES = 2000
UNUSUAL = ["", " ", "o☃k", "é  ﬁg☃☃ elm", "fir" * 40]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn(LearnedTokenizer(type="bpe", vocabulary=60), [Pair(line, line) for line in LINES]).source


def test_a_sample_is_a_segmentation_of_the_text_and_without_dropout_the_best(tokenizer: Tokenizer) -> None:
    texts = LINES + UNUSUAL
    best = tokenizer.encode(texts)
    assert [BpeDropout(tokenizer, 0.0).sample(text, 1) for text in texts] == best
    samples = [BpeDropout(tokenizer, 0.2).sample(text, seed) for seed, text in enumerate(texts)]
    assert samples != best
    assert list(map(tokenizer.decode, samples)) == list(map(tokenizer.decode, best))


def test_a_sample_is_a_function_of_the_seed_whatever_was_sampled_before(tokenizer: Tokenizer) -> None:
    text = " ".join(LINES[:3])
    segmentation, other = (BpeDropout(tokenizer, 0.2) for _ in range(2))
    found = [segmentation.sample(text, seed) for seed in range(20)]
    assert len(set(map(tuple, found))) > 5
    assert [other.sample(text, seed) for seed in range(19, -1, -1)] == found[::-1]


def frequent(found: Counter[Any], expected: dict[Any, float]) -> None:
    """Require frequencies within four standard deviations of their probabilities."""
    samples = found.total()
    assert found.keys() <= expected.keys()
    for each, probability in expected.items():
        deviation = math.sqrt(probability * (1 - probability) / samples)
        assert found[each] / samples == pytest.approx(probability, abs=4 * deviation)


def test_bpe_dropout_by_hand() -> None:
    """The text "ab" has two merges, one after the other. The first is left out with probability p = 0.3, and then the
    second cannot be made; the second only with (1 - p) p (Provilkov et al. 2020, algorithm 1)."""
    tokenizer = learn(LearnedTokenizer(type="bpe", vocabulary=9), [Pair("ab ab ab", "ab")] * 20).source
    segmentation = BpeDropout(tokenizer, 0.3)
    found = Counter(len(segmentation.sample("ab", seed)) for seed in range(SAMPLES))
    frequent(found, {3: 0.3, 2: 0.7 * 0.3, 1: 0.7 * 0.7})
    characters = BpeDropout(tokenizer, 1.0)
    assert {len(characters.sample("ab", seed)) for seed in range(50)} == {3}


def test_a_merge_that_was_left_out_may_be_made_in_the_next_round() -> None:
    """Of the merges of "▁abc", ▁a comes first: it is made in the first round with probability 1 - p, and if it was left
    out and bc was made, in the second."""
    scores = {"▁a": -1.0, "bc": -2.0, "▁": -9.0, "a": -9.0, "b": -9.0, "c": -9.0}
    pieces = Mock(unk_id=9, normalized="▁{}".format, piece_id=[*scores].index, scores=lambda: scores)
    p = 0.3
    segmentation = BpeDropout(pieces, p)
    found = Counter(segmentation.sample("abc", seed)[0] == 0 for seed in range(SAMPLES))
    made = (1 - p) + p * (1 - p) * (1 - p)
    frequent(found, {True: made, False: 1 - made})
