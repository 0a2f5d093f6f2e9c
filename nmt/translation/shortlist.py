"""Lexical shortlists: for each source piece the target pieces that it is usually translated by.

A sentence's list has those of its pieces, the most frequent target pieces, and the special ones. Search that considers
no others is faster and may find other translations (Jean et al. 2015, section 3.3; L'Hostis et al. 2016).
``nmt.translation.linking`` learns them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from nmt.data.tokenizer import Ids, Tokenizers
from nmt.errors import ConfigError, DataError
from nmt.foundation.files import require_regular_file, write_bytes

LARGEST_FILE = 1 << 30
"""Bytes."""
ARRAYS = ("offsets", "pieces", "always")
SIDES = ("source", "target")


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The target pieces of each of V source pieces, and of every sentence. Raises DataError if they do not fit."""

    offsets: Ids
    """(V + 1,): the translations of source piece i are ``pieces[offsets[i]:offsets[i + 1]]``."""
    pieces: Ids
    always: Ids
    """Pieces that every sentence has, whatever its own are."""
    sha256: dict[str, str]
    """Of the tokenizer of each side, ``source`` and ``target``."""

    def of(self, source: Sequence[int], begin: Sequence[int], tokenizers: Tokenizers) -> NDArray[np.int64]:
        """Return the list of a sentence, ascending: ids of source pieces, without EOS, and of a prefix, which it has,
        too."""
        target = tokenizers.target
        listed = np.zeros(target.size, np.bool_)
        listed[[target.pad_id, target.bos_id, target.eos_id, target.unk_id, *begin]] = True
        listed[self.always] = True
        for piece in {*source, tokenizers.source.eos_id}:
            listed[self.pieces[self.offsets[piece] : self.offsets[piece + 1]]] = True
        return np.flatnonzero(listed)

    def save(self, path: str | Path) -> None:
        """Write a safetensors file."""
        metadata = {"tokenizers": " ".join(self.sha256[side] for side in SIDES)}  # several keys have no fixed order
        write_bytes(Path(path), save({name: getattr(self, name) for name in ARRAYS}, metadata))

    @classmethod
    def load(cls, path: str | Path, tokenizers: Tokenizers) -> Self:
        """Read a shortlist for these tokenizers.

        Raises DataError for a file that cannot be read or holds something else, ConfigError for a list of other pieces.
        """
        require_regular_file(Path(path), LARGEST_FILE)
        try:
            with safe_open(path, framework="np") as file:
                known = file.metadata() or {}
                arrays = [file.get_tensor(name) for name in ARRAYS]
        except (OSError, SafetensorError, TypeError) as error:
            raise DataError(f"{path}: not a shortlist of nmt-shortlist ({error})") from None
        offsets, pieces, always = arrays
        digests = known.get("tokenizers", "").split()
        if len(digests) != len(SIDES):
            raise DataError(f"{path}: not a shortlist of nmt-shortlist (it names no tokenizers)")
        found = cls(offsets, pieces, always, dict(zip(SIDES, digests, strict=True)))
        found.refuse_other(tokenizers, str(path))
        found._refuse_misfit(str(path), tokenizers)
        return found

    def refuse_other(self, tokenizers: Tokenizers, name: str = "shortlist") -> None:
        """Raise ConfigError, which names the list, if its pieces are not those of the tokenizers."""
        problems = [
            f"{name}: its {side} tokenizer (SHA-256 {self.sha256[side][:12]}) is not that of the run "
            f"({digest[:12]}); make the list with a run that has the same tokenizers"
            for side, digest in tokenizers.sha256.items()
            if self.sha256[side] != digest
        ]
        if problems:
            raise ConfigError(*problems)

    def _refuse_misfit(self, name: str, tokenizers: Tokenizers) -> None:
        """Raise DataError for arrays that are damaged: nothing else is read from the file."""
        source, target = tokenizers.source.size, tokenizers.target.size
        flat = all(each.ndim == 1 and each.dtype == np.int32 for each in (self.offsets, self.pieces, self.always))
        fits = flat and self.offsets.shape == (source + 1,) and self.offsets[0] == 0
        fits = fits and bool((self.offsets[1:] >= self.offsets[:-1]).all()) and self.offsets[-1] == len(self.pieces)
        ids = (self.pieces, self.always)
        if not fits or not all(((each >= 0) & (each < target)).all() for each in ids):
            raise DataError(f"{name}: a damaged shortlist; make it again with nmt-shortlist")
