"""Lexical shortlists learned from attention, and what they are worth.

A network with attention reads a parallel text. Each target piece counts as a translation of the source piece that it
looks at most.

Shapes: N links, T target pieces.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.data.corpus import Pair
from nmt.data.tokenizer import Ids, Tokenizer, Tokenizers
from nmt.model import Network
from nmt.translation.forced import BATCH_TOKENS, ForcedDecoding, force_ids
from nmt.translation.shortlist import Shortlist
from nmt.translation.windows import FIRST_WINDOW, WINDOW, windows


class Links:
    """How often each target piece is linked to each source piece."""

    def __init__(self, tokenizers: Tokenizers) -> None:
        self.tokenizers = tokenizers
        self.keys, self.counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
        """Ascending pairs, source * V + target, and their counts."""
        self.frequency = np.zeros(tokenizers.target.size, np.int64)

    def add(self, sources: NDArray[Any], targets: NDArray[Any]) -> None:
        """Count links: ids of source pieces and of the target pieces that they are linked to, both (N,)."""
        size = len(self.frequency)
        self.frequency += np.bincount(targets, minlength=size)
        found, counts = np.unique(sources.astype(np.int64) * size + targets, return_counts=True)
        keys, inverse = np.unique(np.concatenate((self.keys, found)), return_inverse=True)
        total = np.zeros(len(keys), np.int64)
        np.add.at(total, inverse, np.concatenate((self.counts, counts)))
        self.keys, self.counts = keys, total

    def shortlist(self, best: int, frequent: int) -> Shortlist:
        """Keep the ``best`` most counted target pieces of each source piece, and the ``frequent`` most counted of all.

        Of those that are counted as often, the one with the lower id comes first.
        """
        size = len(self.frequency)
        sources, targets = np.divmod(self.keys, size)
        order = np.lexsort((targets, -self.counts, sources))
        sources, targets = sources[order], targets[order]
        rank = np.arange(len(sources)) - np.searchsorted(sources, sources)  # within its source piece
        sources, targets = sources[rank < best], targets[rank < best]
        offsets = np.searchsorted(sources, np.arange(self.tokenizers.source.size + 1))
        often = np.argsort(-self.frequency, kind="stable")[:frequent]
        often = often[self.frequency[often] > 0]
        return Shortlist(
            offsets.astype(np.int32),
            targets.astype(np.int32),
            np.sort(often).astype(np.int32),
            self.tokenizers.sha256,
        )


def count_links(
    network: Network,
    tokenizers: Tokenizers,
    pairs: Iterable[Pair],
    device: torch.device,
    *,
    max_pieces: int = 1000,
    batch_tokens: int = BATCH_TOKENS,
) -> Links:
    """Link each target piece of the pairs to the source piece, EOS among them, that it looks at most.

    The network, in evaluation mode, must have attention. Pairs with a blank side are left out; of a longer side the
    first ``max_pieces`` are read.
    """
    links = Links(tokenizers)
    for sources, targets in _encoded(tokenizers, pairs, max_pieces):
        forced = force_ids(network, tokenizers, sources, targets, device, batch_tokens=batch_tokens)
        linked = [
            np.append(source, tokenizers.source.eos_id)[_looked_at(each)]
            for source, each in zip(sources, forced, strict=True)
        ]
        if linked:
            links.add(np.concatenate(linked), np.concatenate(targets))
    return links


def _looked_at(forced: ForcedDecoding) -> NDArray[np.int64]:
    """The source position that each target piece, without EOS, looks at most: (T,)."""
    assert forced.attention is not None
    places: NDArray[np.int64] = forced.attention[:-1].argmax(1)
    return places


def _encoded(tokenizers: Tokenizers, pairs: Iterable[Pair], most: int) -> Iterator[tuple[list[Ids], list[Ids]]]:
    """Windows of pairs without blank sides, as ids of both sides."""

    def first(tokenizer: Tokenizer, texts: list[str]) -> list[Ids]:
        return [np.array(ids, np.int32) for ids, _ in tokenizer.encode_first(texts, most)]

    for window in windows(pairs, FIRST_WINDOW, WINDOW, lambda pair: len(pair.source) + len(pair.target)):
        sources = first(tokenizers.source, [pair.source for pair in window])
        targets = first(tokenizers.target, [pair.target for pair in window])
        both = [
            (source, target) for source, target in zip(sources, targets, strict=True) if len(source) and len(target)
        ]
        yield [source for source, _ in both], [target for _, target in both]


# --- what a list is worth ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recall:
    """How many pieces of given translations are in the lists of their sentences."""

    sentences: int
    pieces: int
    """Target pieces, without EOS."""
    found: int
    """Those that are in their sentence's list."""
    listed: int
    """Pieces of all lists."""

    @property
    def share(self) -> float:
        """Pieces found, of all."""
        return self.found / max(self.pieces, 1)

    @property
    def mean_list(self) -> float:
        """Pieces of a list."""
        return self.listed / max(self.sentences, 1)


def recall(shortlist: Shortlist, tokenizers: Tokenizers, pairs: Iterable[Pair], *, max_pieces: int = 1000) -> Recall:
    """Look up the target pieces of the pairs in the lists of their sources; pairs with a blank side are left out."""
    sentences = pieces = found = listed = 0
    for sources, targets in _encoded(tokenizers, pairs, max_pieces):
        for source, target in zip(sources, targets, strict=True):
            own = shortlist.of(source.tolist(), (), tokenizers)
            sentences, pieces, listed = sentences + 1, pieces + len(target), listed + len(own)
            found += int(np.isin(target, own).sum())
    return Recall(sentences, pieces, found, listed)
