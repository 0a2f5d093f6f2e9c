"""SentencePiece (Kudo & Richardson 2018): text to pieces and back. Ids are read from the model, never assumed."""

import hashlib
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Self

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from nmt.data.corpus import unreadable
from nmt.errors import DataError
from nmt.files import require_regular_file, write_bytes

Ids = NDArray[np.int32]
"""Ids of pieces, or lengths in pieces."""
MARK = "▁"
"""SentencePiece's mark for the beginning of a word."""
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
        missing = [kind for kind in ("pad", "bos", "eos", "unk") if getattr(self, f"{kind}_id") < 0]
        if missing:
            remedy = "learn it with: spm_train --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3"
            raise DataError(f"{name}: the model has no special piece for {', '.join(missing)}; {remedy}")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a ``.model`` file. Raises DataError or FileError if it cannot be used."""
        try:
            if Path(path).exists():
                require_regular_file(Path(path), LARGEST_MODEL)
            return cls(Path(path).read_bytes(), str(path))
        except OSError as error:
            raise unreadable(path, error) from error

    def save(self, path: str | Path) -> None:
        """Write the ``.model`` file."""
        write_bytes(Path(path), self.model)

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
        special = self._processor.is_control, self._processor.is_unknown
        normal = (i for i in range(self.size) if not any(is_special(i) for is_special in special))
        return {self._names[i]: self._processor.get_score(i) for i in normal}

    def normalized(self, text: str) -> str:
        """The text that is cut into pieces: normalized, its spaces replaced by SentencePiece's mark."""
        normalized: str = self._processor.normalize(text)
        return normalized

    def encode_first(self, texts: Sequence[str], most: int) -> list[tuple[list[int], bool]]:
        """Encode the first ``most`` ids of each text; also return whether anything was left out.

        Time and memory do not grow with the rest of a long text.
        """
        read = MOST_CHARACTERS * most
        encoded = zip(texts, self.encode([text[:read] for text in texts]), strict=True)
        return [(ids[:most], len(ids) > most or len(text) > read) for text, ids in encoded]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids: control pieces (BOS, EOS, padding) give no text, an unknown piece gives ``⁇``."""
        text: str = self._processor.decode([int(i) for i in ids])
        return text.strip(" ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces of the ids, as the model spells them."""
        return [self._names[i] for i in ids]


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
        """Merge the characters of a word (algorithm 1).

        Each round draws which merges are left out, and makes the one of the highest score, the leftmost of equals.
        """
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
    """Whether the network reads the pieces of a source sentence last to first; no model file says so."""

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
        self.source.save(folder / "source.model")
        self.target.save(folder / "target.model")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read ``source.model`` and ``target.model``."""
        return cls.of_files(folder / "source.model", folder / "target.model")

    @classmethod
    def of_files(cls, source_path: str | Path, target_path: str | Path) -> Self:
        """Read the models of both sides. Raises DataError as :meth:`Tokenizer.load` does."""
        source, target = Tokenizer.load(source_path), Tokenizer.load(target_path)
        return cls(source, source if source.sha256 == target.sha256 else target)
