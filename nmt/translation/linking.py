"""Lexical shortlists learned from attention, and what they are worth.

A network with attention reads a parallel text. At each step the pieces that it finds likeliest count, by their
probabilities, as translations of the source piece that it looks at most. The piece of the text itself does not: a list
is to have what the network would write.

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

PREDICTED = 10
"""Pieces that are linked at each step: the likeliest."""


class Links:
    """How often each target piece is linked to each source piece, in sums of probabilities."""

    def __init__(self, tokenizers: Tokenizers) -> None:
        self.tokenizers = tokenizers
        self.keys: NDArray[np.int64] = np.zeros(0, np.int64)
        self.counts: NDArray[np.float64] = np.zeros(0)
        """Ascending pairs, source * V + target, and their counts."""
        self.frequency = np.zeros(tokenizers.target.size)

    def add(self, sources: NDArray[Any], targets: NDArray[Any], probabilities: NDArray[Any]) -> None:
        """Count links: ids of source pieces and of the target pieces that they are linked to, all (N,)."""
        size = len(self.frequency)
        self.frequency += np.bincount(targets, probabilities, minlength=size)
        keys = np.concatenate((self.keys, sources.astype(np.int64) * size + targets))
        self.keys, places = np.unique(keys, return_inverse=True)
        summed = np.bincount(places, np.concatenate((self.counts, probabilities)), minlength=len(self.keys))
        self.counts = summed.astype(np.float64)

    def shortlist(self, best: int, frequent: int) -> Shortlist:
        """Keep the ``frequent`` most counted target pieces for every line, and of the others the ``best`` most counted
        of each source piece.

        Of those that are counted as often, the one with the lower id comes first.
        """
        size = len(self.frequency)
        often = np.argsort(-self.frequency, kind="stable")[:frequent]
        often = np.sort(often[self.frequency[often] > 0])
        sources, targets = np.divmod(self.keys, size)
        rare = np.isin(targets, often, invert=True)
        sources, targets, counts = sources[rare], targets[rare], self.counts[rare]
        order = np.lexsort((targets, -counts, sources))
        sources, targets = sources[order], targets[order]
        kept = np.arange(len(sources)) - np.searchsorted(sources, sources) < best  # rank within its source piece
        offsets = np.searchsorted(sources[kept], np.arange(self.tokenizers.source.size + 1))
        arrays = [each.astype(np.int32) for each in (offsets, targets[kept], often)]
        return Shortlist(arrays[0], arrays[1], arrays[2], self.tokenizers.sha256)


def count_links(
    network: Network,
    tokenizers: Tokenizers,
    pairs: Iterable[Pair],
    device: torch.device,
    *,
    max_pieces: int = 1000,
    batch_tokens: int = BATCH_TOKENS,
) -> Links:
    """Link the pieces that the network predicts while it reads the pairs to the source pieces, EOS among them, that it
    looks at.

    The network, in evaluation mode, must have attention. Pairs with a blank side are left out; of a longer side the
    first ``max_pieces`` are read.
    """
    links = Links(tokenizers)
    for sources, targets in _encoded(tokenizers, pairs, max_pieces):
        forced = force_ids(network, tokenizers, sources, targets, device, batch_tokens=batch_tokens, top=PREDICTED)
        if forced:
            found = [_predicted(*each, tokenizers.source.eos_id) for each in zip(sources, forced, strict=True)]
            links.add(*(np.concatenate(column) for column in zip(*found, strict=True)))
    return links


def _predicted(source: Ids, forced: ForcedDecoding, eos: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return source pieces, the target pieces that are linked to them, and the probabilities of these."""
    assert forced.attention is not None and forced.likeliest is not None
    looked_at = np.append(source, eos)[forced.attention.argmax(1)]  # (T,)
    ids = forced.likeliest.ids  # (T, PREDICTED)
    return np.repeat(looked_at, ids.shape[1]), ids.ravel(), np.exp(forced.likeliest.log_probabilities).ravel()


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
