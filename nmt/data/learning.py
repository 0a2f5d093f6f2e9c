"""Learning of tokenizers, on an even sample of the training set."""

import io
import math
import random
import re
from collections.abc import Iterable, Sequence

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
SPECIAL_PIECES = 4


def learn(config: schema.LearnedTokenizer, pairs: Iterable[Pair], tags: Sequence[str] = ()) -> Tokenizers:
    """Learn the tokenizers of a configuration on ``pairs``.

    ``tags`` are pieces of the source vocabulary that no text needs to have.

    The same configuration and pairs give the same models, byte for byte. SentencePiece skips lines longer than 4192
    bytes. ``bpe`` and ``unigram`` get exactly ``vocabulary`` pieces, ``word`` and ``character`` at most as many.

    Raises DataError if the text cannot fill ``vocabulary`` or needs more.
    """
    sample = sampled(pairs, config.most_pairs)
    if config.shared:
        shared = _learn_one(config, [text for pair in sample for text in pair], "both sides", tags)
        return Tokenizers(shared, shared)
    return Tokenizers(
        _learn_one(config, [pair.source for pair in sample], "the source side", tags),
        _learn_one(config, [pair.target for pair in sample], "the target side"),
    )


def _learn_one(config: schema.LearnedTokenizer, texts: Sequence[str], side: str, tags: Sequence[str] = ()) -> Tokenizer:
    size = config.vocabulary or suitable_vocabulary(config, texts)
    try:
        return _train(config, texts, size, side, tags)
    except RuntimeError as error:
        smallest, _ = _bounds(str(error))
        if config.vocabulary is None and smallest is not None:
            return _train(config, texts, size + smallest, side, tags)  # with a piece for every character
        raise DataError(_explain(str(error), config, size, side)) from None


def suitable_vocabulary(config: schema.LearnedTokenizer, texts: Iterable[str]) -> int:
    """Choose a vocabulary size for an amount of text: 8 times the square root of the words of one side.

    This gives about 5,000 pieces for the 370,000 words of Multi30k, a size that suits small data (Sennrich & Zhang
    2019), and at most 8,000, for the sake of the output layer on a small machine. Word and character vocabularies may
    have the 30,000 entries of Bahdanau et al. (2015).
    """
    if config.type not in ("bpe", "unigram"):
        return MOST_WORDS
    words = sum(len(text.split()) for text in texts) / (2 if config.shared else 1)
    return min(MOST_PIECES, max(LEAST_PIECES, round(8 * math.sqrt(words))))


def _train(
    config: schema.LearnedTokenizer, texts: Sequence[str], size: int, side: str, tags: Sequence[str]
) -> Tokenizer:
    """Learn one model, with fewer pieces if their number is left open and the text has no more. Raises RuntimeError."""
    model = io.BytesIO()
    with step(f"learning the tokenizer of {side}", None, "texts read") as progress:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=watched(texts, progress),
            model_writer=model,
            model_type="char" if config.type == "character" else config.type,
            vocab_size=size,
            hard_vocab_limit=config.vocabulary is not None and config.type in ("bpe", "unigram"),
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


def _explain(message: str, config: schema.LearnedTokenizer, vocabulary: int, side: str) -> str:
    """SentencePiece's error in terms of the configuration."""
    smallest, largest = _bounds(message)
    if any(sign in message for sign in ("sentences_.empty()", "all_chars_count")) or largest == SPECIAL_PIECES:
        text = f"tokenizer: {side} of the training set has no text to learn from"
        return f"{text} (SentencePiece skips lines over 4192 bytes)"
    size = f"tokenizer.vocabulary: {vocabulary}"
    if largest:
        return f"{size} is more than the text of {side} supports; the largest possible value is {largest}"
    if smallest:
        remedy = f"at least {smallest}, or tokenizer.character_coverage lower than {config.character_coverage:g}"
        return f"{size} is too small for the characters of {side}; it must be {remedy}"
    return f"tokenizer: SentencePiece cannot learn from {side}: {message}"


def sampled(pairs: Iterable[Pair], size: int) -> list[Pair]:
    """Draw pairs evenly from a stream, always the same ones (reservoir sampling, Vitter's algorithm R), or all."""
    sample: list[Pair] = []
    generator = random.Random(0)
    for seen, pair in enumerate(pairs, 1):
        if seen <= size:
            sample.append(pair)
        elif (place := generator.randrange(seen)) < size:
            sample[place] = pair
    return sample
