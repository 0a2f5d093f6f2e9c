"""SentencePiece (Kudo & Richardson 2018): text to pieces and back; learning from an even sample of the training set."""

import hashlib
import io
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Self

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from nmt.config import schema
from nmt.config.schema.data import SPECIAL
from nmt.data.corpus import Pair, unreadable
from nmt.data.glossary import TERM_MARKS
from nmt.data.protection import PLACEHOLDERS, Hidden, Protection, restored
from nmt.data.rough import readable
from nmt.errors import DataError
from nmt.files import require_regular_file, write_bytes
from nmt.messages import progress_bar, watched

NO_SPANS: Mapping[str, str] = MappingProxyType({})
Ids = NDArray[np.int32]
"""Ids of pieces, or lengths in pieces."""
MARK = "▁"
"""SentencePiece's mark for the beginning of a word."""
_, UNKNOWN, _, END = SPECIAL
"""Its unknown and its end symbol."""
WORD = re.compile(f"{MARK}[^{MARK}]*|[^{MARK}]+")
"""A word of a normalized text; no piece of a learned model spans two."""
LARGEST_MODEL = 1 << 24
"""Bytes of a model file; those that SentencePiece learns have a few million at most."""
QUIET = 2
"""SentencePiece's log level: errors only."""
MOST_CHARACTERS = 64
"""Characters that are read of a text for each wanted piece: many more than it has, for pieces near a cut may differ."""


class Tokenizer:
    """SentencePiece model of one side: ``size`` pieces with ids 0 ... size - 1, the special ones among them."""

    def __init__(self, model: bytes, name: str = "tokenizer") -> None:
        """Load a serialized model. Raises DataError, beginning with ``name``, if the model cannot be used."""
        sentencepiece.set_min_log_level(QUIET)
        processor = sentencepiece.SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(model)
            self.size: int = processor.get_piece_size()
            self._names: list[str] = [processor.id_to_piece(i) for i in range(self.size)]
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: a piece of the model is not UTF-8: {error}") from None
        except RuntimeError:
            raise DataError(f"{name}: not a SentencePiece model, or a damaged one") from None
        self._processor = processor
        self.model = model
        self.pad_id: int = processor.pad_id()
        self.bos_id: int = processor.bos_id()
        self.eos_id: int = processor.eos_id()
        self.unk_id: int = processor.unk_id()
        self.sha256 = hashlib.sha256(model).hexdigest()
        special = self.pad_id, self.unk_id, self.bos_id, self.eos_id
        found = tuple(self._names[each] if each >= 0 else "none" for each in special)
        if found != SPECIAL:
            remedy = "learn it with: spm_train --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3"
            raise DataError(f"{name}: special pieces: found {', '.join(found)}; must be {', '.join(SPECIAL)}; {remedy}")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a ``.model`` file. Raises DataError or FileError if it cannot be used."""
        try:
            if Path(path).exists():
                require_regular_file(Path(path), LARGEST_MODEL)
            return cls(Path(path).read_bytes(), str(path))
        except OSError as error:
            raise unreadable(path, error) from error

    def encode(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Ids of each text, without BOS and EOS; a blank text has none."""
        ids: list[list[int]] = self._processor.encode(list(texts), out_type=int, num_threads=threads)
        return ids

    def piece_id(self, piece: str) -> int:
        """The id of a piece of the vocabulary. Raises KeyError for any other text."""
        found: int = self._processor.piece_to_id(piece)
        if self._names[found] != piece:
            raise KeyError(piece)
        return found

    def scores(self) -> dict[str, float]:
        """The score of each piece that text is cut into: in byte-pair encoding the highest is merged first."""
        model = self._processor
        normal = (i for i in range(self.size) if not (model.is_control(i) or model.is_unknown(i)))
        return {self._names[i]: model.get_score(i) for i in normal}

    def normalized(self, text: str) -> str:
        """The text that is cut into pieces: normalized, its spaces replaced by SentencePiece's mark."""
        normalized: str = self._processor.normalize(text)
        return normalized

    def encode_first(self, texts: Sequence[str], most: int) -> list[tuple[list[int], bool]]:
        """Encode the first ``most`` ids of each text, however long; also return whether anything was left out."""
        read = MOST_CHARACTERS * most
        encoded = zip(texts, self.encode([text[:read] for text in texts]), strict=True)
        return [(ids[:most], len(ids) > most or len(text) > read) for text, ids in encoded]

    def decode(self, ids: Sequence[int], spans: Mapping[str, str] = NO_SPANS) -> str:
        """Decode ids: control pieces give no text, an unknown piece gives ``⁇``, a placeholder its span."""
        text: str = self._processor.decode([int(i) for i in ids])
        return restored(text.strip(" "), spans)

    def pieces(self, ids: Sequence[int], spans: Mapping[str, str] = NO_SPANS) -> list[str]:
        """The pieces of the ids, as the model spells them, and spans in place of their placeholders."""
        spelled = {placeholder: MARK.join(span.split()) for placeholder, span in spans.items()}
        return [spelled.get(self._names[i], self._names[i]) for i in ids]


class BpeDropout:
    """Byte-pair encoding that leaves out each merge with probability ``dropout`` (Provilkov et al. 2020).

    A segmentation is a pure function of model, dropout, text and seed in every process. SentencePiece samples too, but
    its generator gives other pieces for the same seed in another process.
    """

    def __init__(self, tokenizer: Tokenizer, dropout: float) -> None:
        self._tokenizer, self._dropout = tokenizer, dropout
        self._scores = tokenizer.scores()
        self._ids = {piece: tokenizer.piece_id(piece) for piece in self._scores}

    def sample(self, text: str, seed: int) -> list[int]:
        """The ids of a sampled segmentation, without BOS and EOS."""
        uniform, unknown = random.Random(seed).random, self._tokenizer.unk_id
        words = WORD.findall(self._tokenizer.normalized(text))
        ids = [self._ids.get(symbol, unknown) for word in words for symbol in self._merged(word, uniform)]
        if unknown not in ids:
            return ids
        return [number for number, run in groupby(ids) for _ in ([number] if number == unknown else run)]

    def _merged(self, word: str, uniform: Callable[[], float]) -> list[str]:
        """Merge the characters of a word (algorithm 1): in each round the merge of the highest score that is drawn."""
        symbols = list(word)
        while merges := [
            (score, -place)
            for place, pair in enumerate(pairwise(symbols))
            if (score := self._scores.get("".join(pair))) is not None and uniform() >= self._dropout
        ]:
            place = -max(merges)[1]
            symbols[place : place + 2] = ["".join(symbols[place : place + 2])]
        return symbols


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of both sides: the same object twice where the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer
    reverse_source: bool = False
    """Whether the network reads the pieces of a source sentence last to first."""
    protection: Protection = field(default_factory=Protection)
    """Hides spans before a text is encoded."""
    to: str | None = None
    """The tag put before source texts that have none, except in training."""
    rough: bool = False
    """Whether a source in capitals is read as a sentence."""

    def used_as(self, config: schema.Config) -> Self:
        """The same models with the options that no model file has. Raises DataError for models without the pieces that
        ``data.protect`` or ``data.glossary`` needs."""
        data = config.data
        for side, tokenizer in self.sides() if data.protect else ():
            if not {*PLACEHOLDERS, MARK} <= tokenizer.scores().keys():
                problem = f"data.protect: the {side} tokenizer has no pieces U+E000 to U+E009"
                raise DataError(f"{problem}; learn one with data.protect, or leave it out")
        if data.glossary is not None and not {*TERM_MARKS} <= self.source.scores().keys():
            problem = "data.glossary: the source tokenizer has no marks of terms, U+E00A and U+E00B"
            raise DataError(f"{problem}; leave it out, or use it in the run of training.start_from, too")
        protection, rough = Protection(data.protect, data.tags), data.rough is not None
        reverse, to = data.reverse_source, config.decoding.to
        return replace(self, reverse_source=reverse, protection=protection, to=to, rough=rough)

    def hide(self, *texts: str, share: float = 0.0) -> Hidden:
        """Return what is encoded of a source, or of both sides of a pair, as :meth:`Protection.hide` does."""
        hidden = self.protection.hide(*texts, share=share)
        if not self.rough:
            return hidden
        tag, source = self.protection.parted(hidden.texts[0])
        return replace(hidden, texts=[tag + readable(source), *hidden.texts[1:]])

    @cached_property
    def tags(self) -> dict[int, list[int]]:
        """The source pieces that are tags of training corpora, and the ids of each as text, with the mark of a word."""
        return {self.source.piece_id(each): self.source.encode([each])[0] for each in self.protection.tags}

    def tagged(self, ids: list[int], tag: str | None) -> list[int]:
        """Begin the ids of a source text, if there are any, with the piece of the tag that the text begins with, or of
        ``tag``, as in training."""
        for own, typed in self.tags.items():
            if ids[: len(typed)] == typed:
                return [own, *ids[len(typed) :]]
        return ids if tag is None or not ids else [self.source.piece_id(tag), *ids]

    def sides(self) -> Iterator[tuple[str, Tokenizer]]:
        """Both sides by name, the source first."""
        yield "source", self.source
        yield "target", self.target

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of pieces of each side."""
        return self.source.size, self.target.size

    @property
    def sha256(self) -> dict[str, str]:
        """SHA-256 of each side's model, as the manifest of a run records them."""
        return {"source": self.source.sha256, "target": self.target.sha256}

    def save(self, folder: Path) -> None:
        """Write ``source.model`` and ``target.model``."""
        for side, tokenizer in self.sides():
            write_bytes(folder / f"{side}.model", tokenizer.model)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read ``source.model`` and ``target.model``."""
        return cls.of_files(folder / "source.model", folder / "target.model")

    @classmethod
    def of_files(cls, source_path: str | Path, target_path: str | Path) -> Self:
        """Read the models of both sides. Raises DataError or FileError as :meth:`Tokenizer.load` does."""
        source, target = Tokenizer.load(source_path), Tokenizer.load(target_path)
        return cls(source, source if source.sha256 == target.sha256 else target)


# --- learning ---------------------------------------------------------------------------------------------------------

LEARNING_THREADS = 4
"""Fixed, because the sums of another number of threads round differently: the same text gives the same model."""
MOST_PIECES, LEAST_PIECES, MOST_WORDS = 8_000, 100, 30_000
"""Bounds of a vocabulary whose size the configuration leaves open."""


def learn(
    config: schema.LearnedTokenizer, pairs: Iterable[Pair], tags: Sequence[str] = (), both: Sequence[str] = ()
) -> Tokenizers:
    """Learn the tokenizers of a configuration on ``pairs``.

    ``tags`` are pieces of the source vocabulary that no text needs to have, ``both`` such pieces of both vocabularies.

    The same configuration and pairs give the same models, byte for byte. SentencePiece skips lines longer than 4192
    bytes. ``bpe`` and ``unigram`` get exactly ``vocabulary`` pieces, ``word`` and ``character`` at most as many.

    Raises DataError if the text cannot fill ``vocabulary`` or needs more.
    """
    sample = sampled(pairs, config.most_pairs)
    if config.shared:
        shared = _learn_one(config, [text for pair in sample for text in pair], "both sides", [*tags, *both])
        return Tokenizers(shared, shared)
    return Tokenizers(
        _learn_one(config, [pair.source for pair in sample], "the source side", [*tags, *both]),
        _learn_one(config, [pair.target for pair in sample], "the target side", both),
    )


def _learn_one(config: schema.LearnedTokenizer, texts: Sequence[str], side: str, tags: Sequence[str]) -> Tokenizer:
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
    with progress_bar(f"learning the tokenizer of {side}", None, "texts read") as progress:
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
    smallest, largest = _bounds(message)
    if any(sign in message for sign in ("sentences_.empty()", "all_chars_count")) or largest == len(SPECIAL):
        text = f"tokenizer: no text to learn from on {side} of the training set"
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
