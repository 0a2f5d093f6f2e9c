"""SentencePiece (Kudo & Richardson 2018): text to pieces and back. Ids are read from the model, never assumed."""

import hashlib
import io
import math
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Self

import sentencepiece

from nmt.config.schema import (
    LARGEST_VOCABULARY,
    AnyTokenizer,
    BpeTokenizer,
    CharacterTokenizer,
    GivenTokenizer,
    UnigramTokenizer,
    WordTokenizer,
)
from nmt.data import charsmap
from nmt.data.corpus import Pair
from nmt.data.lines import unreadable
from nmt.errors import DataError
from nmt.foundation.files import require_regular_file, write_bytes

LARGEST = 1 << 24
"""Bytes of a model; SentencePiece's have a few millions at most."""
LEARNING_PAIRS = 1_000_000
"""A tokenizer is learned on at most so many pairs, drawn evenly: SentencePiece holds in memory what it learns from."""
LEARNING_THREADS = 4
"""Fixed, because sums made by another number of threads round differently: the same text gives the same model."""
MOST_PIECES, LEAST_PIECES, MOST_WORDS = 8_000, 100, 30_000
"""Bounds of a vocabulary that the configuration leaves open."""
TRIES = 3
"""A vocabulary that is left open is corrected by what SentencePiece says of the text, up to twice."""
SPECIAL_PIECES = 4
Learned = BpeTokenizer | UnigramTokenizer | WordTokenizer | CharacterTokenizer
QUIET = 2
"""SentencePiece's log level: errors only."""


MARGIN, CHARACTERS, LONGEST = 100, 8, 64
"""Pieces encoded beyond those that are needed; characters of text taken for each at first, and at most."""


class Tokenizer:
    """One side's SentencePiece model: ``size`` pieces with ids 0 ... size - 1, the special ones among them."""

    def __init__(self, model: bytes, name: str = "tokenizer") -> None:
        """From a serialized model. Raises DataError, with ``name``, if it is none or lacks a special piece."""
        if problem := charsmap.wrong(model, LARGEST_VOCABULARY):
            raise DataError(f"{name}: {problem}")
        sentencepiece.set_min_log_level(QUIET)
        processor = sentencepiece.SentencePieceProcessor()
        try:
            loaded = bool(model) and processor.LoadFromSerializedProto(model)
        except RuntimeError:
            loaded = False
        if not loaded:
            raise DataError(f"{name}: not a SentencePiece model")
        try:
            self._names: list[str] = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: a piece of the model is not UTF-8: {error}") from None
        self._processor = processor
        self._model = model
        self.size: int = processor.get_piece_size()
        self.pad_id: int = processor.pad_id()
        self.bos_id: int = processor.bos_id()
        self.eos_id: int = processor.eos_id()
        self.unk_id: int = processor.unk_id()
        self.sha256 = hashlib.sha256(model).hexdigest()
        missing = [kind for kind in ("pad", "bos", "eos", "unk") if getattr(self, f"{kind}_id") < 0]
        if missing:
            raise DataError(
                f"{name}: the model has no special piece for {', '.join(missing)}; "
                f"learn it with: spm_train --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3"
            )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a ``.model`` file. Raises DataError or FileError if it cannot be used."""
        try:
            if Path(path).exists():
                require_regular_file(Path(path), LARGEST)
            return cls(Path(path).read_bytes(), str(path))
        except OSError as error:
            raise unreadable(path, error) from error

    def save(self, path: str | Path) -> None:
        """Write the ``.model`` file."""
        write_bytes(Path(path), self._model)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without BOS and EOS; a blank text has none."""
        ids: list[list[int]] = self._processor.encode(list(texts), out_type=int, num_threads=1)
        return ids

    def encode_first(self, texts: Sequence[str], most: int) -> list[tuple[list[int], bool]]:
        """The first ``most`` ids of each text, and whether something was left out.

        A long text is encoded up to some way beyond its first ids, so that these are the same as in :meth:`encode` (but
        for ties, as in a letter repeated a thousand times), and never beyond ``LONGEST`` characters an id: time and
        memory do not grow with what lies farther.
        """
        margin = most + MARGIN  # pieces near a cut may differ from those of the whole text
        first = self.encode([text[: CHARACTERS * margin] for text in texts])
        cut = []
        for place, text in enumerate(texts):
            read = CHARACTERS * margin
            while read < min(len(text), LONGEST * margin) and len(first[place]) < margin:
                read *= 2
                [first[place]] = self.encode([text[:read]])
            cut.append(len(first[place]) > most or read < len(text))
        return [(ids[:most], longer) for ids, longer in zip(first, cut, strict=True)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids: control pieces (BOS, EOS, padding) are nothing, an unknown piece is ``⁇``."""
        text: str = self._processor.decode([int(i) for i in ids])
        return text.strip(" ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What the ids are called in the model, one string an id."""
        return [self._names[i] for i in ids]


@dataclass(frozen=True)
class Tokenizers:
    """Both sides; one and the same object twice where the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer

    @property
    def sha256(self) -> dict[str, str]:
        """Of either side, as the manifest of a run has them."""
        return {"source": self.source.sha256, "target": self.target.sha256}

    def save(self, folder: Path) -> None:
        """Write ``source.model`` and ``target.model``."""
        self.source.save(folder / "source.model")
        self.target.save(folder / "target.model")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read ``source.model`` and ``target.model``. Raises DataError as :meth:`Tokenizer.load` does."""
        return cls._from_files(folder / "source.model", folder / "target.model")

    @classmethod
    def _from_files(cls, source_path: str | Path, target_path: str | Path) -> Self:
        source, target = Tokenizer.load(source_path), Tokenizer.load(target_path)
        return cls(source, source if source.sha256 == target.sha256 else target)


def learn(config: AnyTokenizer, pairs: Iterable[Pair]) -> Tokenizers:
    """The tokenizers that the configuration asks for, learned on ``pairs``; given ones are loaded instead.

    The same configuration and pairs give the same models, byte for byte. Lines longer than 4192 bytes teach nothing
    (SentencePiece passes over them). ``bpe`` and ``unigram`` get exactly ``vocabulary`` pieces; for ``word`` and
    ``character`` it is the most they may have.

    Raises DataError where ``vocabulary`` does not suit the text, or a given model cannot be used.
    """
    if isinstance(config, GivenTokenizer):
        return Tokenizers._from_files(config.source, config.target)
    sample = _sample(pairs, LEARNING_PAIRS)
    if config.shared:
        shared = _learn_one(config, [text for pair in sample for text in pair], "both sides")
        return Tokenizers(shared, shared)
    return Tokenizers(
        _learn_one(config, [pair.source for pair in sample], "the source side"),
        _learn_one(config, [pair.target for pair in sample], "the target side"),
    )


def _sample(pairs: Iterable[Pair], size: int) -> list[Pair]:
    """All pairs, or ``size`` of them drawn evenly (reservoir sampling, Vitter's algorithm R), always the same ones."""
    stream = iter(pairs)
    sample = list(islice(stream, size))
    generator = random.Random(0)
    for seen, pair in enumerate(stream, size + 1):
        place = generator.randrange(seen)
        if place < size:
            sample[place] = pair
    return sample


def _learn_one(config: Learned, texts: Sequence[str], side: str) -> Tokenizer:
    vocabulary = config.vocabulary or suitable_vocabulary(config, texts)
    for _ in range(TRIES):
        try:
            return _train(config, texts, vocabulary)
        except RuntimeError as error:
            message = str(error)
        smallest, largest = _bounds(message)
        if config.vocabulary is not None or largest == SPECIAL_PIECES or (smallest is None and largest is None):
            break
        vocabulary = largest or vocabulary + (smallest or 0)
    raise DataError(_explain(message, config, vocabulary, side))


def suitable_vocabulary(config: Learned, texts: Sequence[str]) -> int:
    """Pieces for an amount of text where the configuration does not say: 8 times the root of the words of one side.

    This gives about 5,000 for the 370,000 words of Multi30k, which Sennrich & Zhang (2019) and others found to suit
    small data, and no more than a small machine's output layer can bear. Whole words or characters: the 30,000 of
    Bahdanau et al. (2015).
    """
    if not isinstance(config, BpeTokenizer | UnigramTokenizer):
        return MOST_WORDS
    words = sum(len(text.split()) for text in texts) / (2 if config.shared else 1)
    return min(MOST_PIECES, max(LEAST_PIECES, round(8 * math.sqrt(words))))


def _train(config: Learned, texts: Sequence[str], vocabulary: int) -> Tokenizer:
    """Raises RuntimeError where SentencePiece does."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
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
        num_threads=LEARNING_THREADS,
        minloglevel=QUIET,
    )
    return Tokenizer(model.getvalue())


def _bounds(message: str) -> tuple[int | None, int | None]:
    """The smallest or the largest vocabulary that SentencePiece's complaint names."""
    smallest = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    largest = re.search(r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)", message)
    return smallest and int(smallest[1]), largest and int(largest[1])


def _explain(message: str, config: Learned, vocabulary: int, side: str) -> str:
    """SentencePiece's complaint in the words of the configuration."""
    smallest, largest = _bounds(message)
    if any(sign in message for sign in ("sentences_.empty()", "all_chars_count")) or largest == SPECIAL_PIECES:
        return f"tokenizer: {side} of the training set has no text to learn from (lines over 4192 bytes teach nothing)"
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
