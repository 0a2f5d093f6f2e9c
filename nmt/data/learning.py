"""Learning of tokenizers, on an even sample of the training set."""

import io
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import sentencepiece

from nmt.config import schema
from nmt.data.corpus import Pair
from nmt.data.tokenizer import QUIET, Tokenizer, Tokenizers
from nmt.errors import DataError
from nmt.messages import step, watched

LEARNING_THREADS = 4
"""Fixed, because the sums of another number of threads round differently: the same text gives the same model."""
MOST_PIECES, LEAST_PIECES, MOST_WORDS = 8_000, 100, 30_000
"""Bounds of a vocabulary whose size the configuration leaves open."""
TRIES = 3
"""Attempts to find a vocabulary size that is left open; SentencePiece's errors say how to correct it."""
SPECIAL_PIECES = 4
LearnableTokenizer = schema.BpeTokenizer | schema.UnigramTokenizer | schema.WordTokenizer | schema.CharacterTokenizer
Texts = Callable[[], Iterator[str]]
"""Reads the text to learn from, more than once."""


def learn(config: schema.AnyTokenizer, pairs: Iterable[Pair], tags: Sequence[str] = ()) -> Tokenizers:
    """Learn the tokenizers of a configuration on ``pairs``; load those of type ``given`` instead.

    ``tags`` are pieces of the source vocabulary that no text needs to have.

    The same configuration and pairs give the same models, byte for byte. SentencePiece skips lines longer than 4192
    bytes. ``bpe`` and ``unigram`` get exactly ``vocabulary`` pieces, ``word`` and ``character`` at most as many.

    Raises DataError if the text cannot fill ``vocabulary`` or needs more, or if a given model cannot be used.
    """
    if isinstance(config, schema.GivenTokenizer):
        return Tokenizers._from_files(config.source, config.target)
    sample = sampled(pairs, config.most_pairs)
    if config.shared:
        shared = _learn_one(config, partial(_texts, sample, (0, 1)), "both sides", tags)
        return Tokenizers(shared, shared)
    return Tokenizers(
        _learn_one(config, partial(_texts, sample, (0,)), "the source side", tags),
        _learn_one(config, partial(_texts, sample, (1,)), "the target side"),
    )


def _learn_one(config: LearnableTokenizer, texts: Texts, side: str, tags: Sequence[str] = ()) -> Tokenizer:
    vocabulary = config.vocabulary or suitable_vocabulary(config, texts()) + len(tags)
    for _ in range(TRIES):
        try:
            with step(f"learning the tokenizer of {side}", None, "texts read") as progress:
                return _train(config, lambda: watched(texts(), progress), vocabulary, tags)
        except RuntimeError as error:
            message = str(error)
        smallest, largest = _bounds(message)
        if config.vocabulary is not None or largest == SPECIAL_PIECES or (smallest is None and largest is None):
            break
        vocabulary = largest or vocabulary + (smallest or 0)
    raise DataError(_explain(message, config, vocabulary, side))


def suitable_vocabulary(config: LearnableTokenizer, texts: Iterable[str]) -> int:
    """Choose a vocabulary size for an amount of text: 8 times the square root of the words of one side.

    This gives about 5,000 pieces for the 370,000 words of Multi30k, a size that suits small data (Sennrich & Zhang
    2019), and at most 8,000, for the sake of the output layer on a small machine. Word and character vocabularies may
    have the 30,000 entries of Bahdanau et al. (2015).
    """
    if not isinstance(config, schema.BpeTokenizer | schema.UnigramTokenizer):
        return MOST_WORDS
    words = sum(len(text.split()) for text in texts) / (2 if config.shared else 1)
    return min(MOST_PIECES, max(LEAST_PIECES, round(8 * math.sqrt(words))))


def _train(config: LearnableTokenizer, texts: Texts, vocabulary: int, tags: Sequence[str]) -> Tokenizer:
    """Learn one model. Raises SentencePiece's own RuntimeError."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=texts(),
        model_writer=model,
        model_type="char" if config.type == "character" else config.type,
        vocab_size=vocabulary,
        hard_vocab_limit=config.type in ("bpe", "unigram"),
        normalization_rule_name=config.normalization,
        character_coverage=config.character_coverage,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        user_defined_symbols=list(tags),
        num_threads=LEARNING_THREADS,
        minloglevel=QUIET,
    )
    return Tokenizer(model.getvalue())


def _bounds(message: str) -> tuple[int | None, int | None]:
    """The smallest and the largest vocabulary that SentencePiece's error names, None where it names none."""
    smallest = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    largest = re.search(r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)", message)
    return smallest and int(smallest[1]), largest and int(largest[1])


def _explain(message: str, config: LearnableTokenizer, vocabulary: int, side: str) -> str:
    """SentencePiece's error in terms of the configuration."""
    smallest, largest = _bounds(message)
    if any(sign in message for sign in ("sentences_.empty()", "all_chars_count")) or largest == SPECIAL_PIECES:
        text = f"tokenizer: {side} of the training set has no text to learn from"
        return f"{text} (SentencePiece skips lines over 4192 bytes)"
    if largest:
        return (
            f"tokenizer.vocabulary: {vocabulary} is more than the text of {side} supports; "
            f"the largest possible value is {largest}"
        )
    if smallest:
        return (
            f"tokenizer.vocabulary: {vocabulary} is too small for the characters of {side}; it must be at least "
            f"{smallest}, or tokenizer.character_coverage lower than {config.character_coverage:g}"
        )
    return f"tokenizer: SentencePiece cannot learn from {side}: {message}"


def sampled(pairs: Iterable[Pair], size: int) -> list[bytes]:
    """Draw pairs evenly from a stream, always the same ones (reservoir sampling, Vitter's algorithm R), or all."""
    sample: list[bytes] = []
    generator = random.Random(0)
    for seen, pair in enumerate(pairs, 1):
        if seen <= size:
            sample.append("\n".join(pair).encode())
        elif (place := generator.randrange(seen)) < size:
            sample[place] = "\n".join(pair).encode()
    return sample


def _texts(sample: Sequence[bytes], sides: Sequence[int]) -> Iterator[str]:
    """The texts of some sides, 0 the source and 1 the target, pair by pair."""
    for pair in sample:
        both = pair.decode().split("\n")
        yield from (both[side] for side in sides)
