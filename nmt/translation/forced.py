"""Forced decoding: the probability and the attention of each piece of a given translation."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from nmt.config.schema import Decoding
from nmt.data.batching import Specials, collate, plan_by_length
from nmt.data.corpus import Pair
from nmt.data.tokenizer import Ids, Tokenizer, Tokenizers
from nmt.evaluation.alignment import Weights, word_weights
from nmt.messages import counted, silent
from nmt.model import Network
from nmt.search.interface import penalty
from nmt.translation.searching import FIRST_WINDOW, WINDOW, longest, side_by_side, windows

BATCH_TOKENS = 4096
"""The most pieces of either side of a batch, padding included; each has as many probabilities as there are pieces in
the vocabulary."""
WarnOfSide = Callable[[str, int, str], None]
"""Receives a side, ``source`` or ``target``, the number of a pair, from 1, and what is wrong with that side of it."""


@dataclass(frozen=True)
class ForcedDecoding:
    """One pair: S source and T target pieces, the end symbols included."""

    source_pieces: list[str]
    target_pieces: list[str]
    log_probabilities: np.ndarray[tuple[int], np.dtype[np.float32]]
    """(T,) of each target piece, given the source and the pieces before it; nats."""
    attention: np.ndarray[tuple[int, int], np.dtype[np.float32]] | None
    """(T, S), a row for each target piece; None for a model without attention."""

    @property
    def log_probability(self) -> float:
        """The sum over the target pieces; nats."""
        return float(self.log_probabilities.sum(dtype=np.float64))

    @property
    def per_piece(self) -> float:
        """The mean over the target pieces; nats."""
        return self.log_probability / max(len(self.target_pieces), 1)

    def score(self, alpha: float) -> float:
        """The log-probability divided by the length penalty of exponent ``alpha``, as search ranks translations."""
        return self.log_probability / penalty(len(self.target_pieces), alpha)


BLANK = ForcedDecoding([], [], np.zeros(0, np.float32), None)
"""A blank translation of a blank line, which no model reads."""


def force(
    network: Network,
    tokenizers: Tokenizers,
    pairs: Iterable[Pair],
    device: torch.device,
    *,
    limits: Decoding | None = None,
    keep_attention: bool = True,
    warn: WarnOfSide = silent,
) -> Iterator[tuple[Pair, ForcedDecoding]]:
    """Read pairs as they come in, no more than a window of them at a time, with a network in evaluation mode, in fp32.

    A blank side is only the end symbol. Of a source at most ``limits.max_source`` pieces are read, of a translation as
    many as search may write for them, followed by the end symbol; ``warn`` is called for each side that is cut off, and
    for a source that begins with a tag that was not trained. ``limits.to`` is the tag of a source without one. With
    ``keep_attention`` the attention is returned, if the network has any.
    """
    limits = limits or Decoding()
    max_source, max_target = limits.max_source, longest(limits.max_source, limits.max_length_factor)
    read = partial(_read, network, tokenizers, device, keep_attention=keep_attention)
    first = 1
    for window in windows(pairs, FIRST_WINDOW, WINDOW, lambda pair: len(pair.source) + len(pair.target)):
        for number, pair in enumerate(window, first):
            if unknown := tokenizers.protection.unknown_tag(pair.source):
                warn("source", number, unknown)
        hidden = [tokenizers.hide(*pair) for pair in window]
        source_texts, target_texts = zip(*(each.texts for each in hidden), strict=True)
        read_ids = _encoded("source", tokenizers.source, source_texts, max_source, first, warn)
        written_ids = _encoded("target", tokenizers.target, target_texts, max_target, first, warn)
        sources = [np.array(tokenizers.tagged(ids, limits.to or tokenizers.to), np.int32) for ids in read_ids]
        targets = [np.array(ids, np.int32) for ids in written_ids]
        source_lengths, target_lengths = (np.array([len(ids) for ids in each], np.int32) for each in (sources, targets))
        plan = plan_by_length(source_lengths, target_lengths, BATCH_TOKENS)
        batches = [[(sources[row], targets[row], hidden[row].spans) for row in rows] for rows in plan]
        found: dict[int, ForcedDecoding] = {}
        with side_by_side(device, len(plan)) as each:
            results = counted(each(read, batches), "forced decoding", len(plan), "batches")
            for rows, batch in zip(plan, results, strict=True):
                found |= zip(rows.tolist(), batch, strict=True)
        yield from ((pair, found[row]) for row, pair in enumerate(window))
        first += len(window)


def _encoded(
    side: str, tokenizer: Tokenizer, texts: Sequence[str], most: int, first: int, warn: WarnOfSide
) -> list[list[int]]:
    encoded = tokenizer.encode_first(texts, most)
    for number, (_, cut) in enumerate(encoded, first):
        if cut:
            warn(side, number, f"too long: only its first {most} pieces are read")
    return [ids for ids, _ in encoded]


@torch.inference_mode()
def _read(
    network: Network,
    tokenizers: Tokenizers,
    device: torch.device,
    pairs: Sequence[tuple[Ids, Ids, Mapping[str, str]]],
    *,
    keep_attention: bool,
) -> list[ForcedDecoding]:
    """Read a batch of B pairs with up to S source and T target pieces, end symbols included."""
    specials = Specials.of(tokenizers)
    batch = collate([pair[0] for pair in pairs], [pair[1] for pair in pairs], specials).to(device)
    readouts, weights = network.unroll(batch.target_input, network.encode(batch.source, batch.source_lengths))
    logits = network.output(readouts).float()  # (B, T, V)
    every = torch.log_softmax(logits, -1, out=logits)  # in place: half the memory
    chosen = every.gather(2, batch.target_output.unsqueeze(2)).squeeze(2).cpu().numpy()  # (B, T)
    attention = None if weights is None or not keep_attention else weights.float().cpu().numpy()  # (B, T, S)
    found = []
    for place, (source, target, spans) in enumerate(pairs):
        # columns of the attention are in the order of the text
        order, length = specials.order(len(source) + 1), len(target) + 1
        read = tokenizers.source.pieces([*source.tolist(), specials.source_eos], spans)
        written = tokenizers.target.pieces([*target.tolist(), specials.target_eos], spans)
        looked = None if attention is None else attention[place, :length][:, order]
        found.append(ForcedDecoding(read, written, chosen[place, :length], looked))
    return found


def word_attention(
    network: Network,
    tokenizers: Tokenizers,
    pairs: Iterable[Pair],
    device: torch.device,
    limits: Decoding,
) -> list[Weights]:
    """Return the attention between the words of each pair, (J, I), under forced decoding; the network must attend."""
    weights = []
    for pair, each in force(network, tokenizers, pairs, device, limits=limits):
        assert each.attention is not None
        weights.append(word_weights(each.attention, each.source_pieces, each.target_pieces, *pair))
    return weights
