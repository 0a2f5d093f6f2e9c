"""Forced decoding: the probability and the attention of each piece of a given translation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from nmt.data.batching import Specials, collate, plan_by_length
from nmt.data.corpus import Pair
from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.evaluation.alignment import Weights, word_weights
from nmt.model import Network


@dataclass(frozen=True)
class ForcedDecoding:
    """One pair: S source and T target pieces, the end symbols included."""

    source_pieces: list[str]
    target_pieces: list[str]
    log_probabilities: np.ndarray[tuple[int], np.dtype[np.float32]]
    """(T,) of each target piece, given the source and the pieces before it; nats."""
    attention: np.ndarray[tuple[int, int], np.dtype[np.float32]] | None
    """(T, S), a row for each target piece; None for a model without attention."""


@torch.inference_mode()
def force(
    network: Network,
    tokenizers: Tokenizers,
    pairs: Sequence[Pair],
    device: torch.device,
    *,
    max_source: int = 1000,
    batch_tokens: int = 4096,
) -> list[ForcedDecoding]:
    """Read every pair with a network in evaluation mode, in fp32; return results in the order of the pairs.

    Only the first ``max_source`` pieces of a side are read. A blank side is the end symbol alone.
    """
    specials = Specials.of(tokenizers)
    sources = _first(tokenizers.source, [pair.source for pair in pairs], max_source)
    targets = _first(tokenizers.target, [pair.target for pair in pairs], max_source)
    source_lengths, target_lengths = (np.array([len(ids) for ids in side], np.int32) for side in (sources, targets))
    results: dict[int, ForcedDecoding] = {}
    for rows in plan_by_length(source_lengths, target_lengths, batch_tokens):
        batch = collate([sources[row] for row in rows], [targets[row] for row in rows], specials).to(device)
        memory = network.encode(batch.source, batch.source_lengths)
        readouts, attention = network.unroll(batch.target_input, memory)
        log_probabilities = (
            network.output(readouts)
            .float()
            .log_softmax(-1)
            .gather(2, batch.target_output.unsqueeze(2))
            .squeeze(2)
            .cpu()
        )
        for place, row in enumerate(rows.tolist()):
            order, target = specials.order(len(sources[row]) + 1), len(targets[row]) + 1
            results[row] = ForcedDecoding(
                _pieces(tokenizers.source, sources[row]),
                _pieces(tokenizers.target, targets[row]),
                log_probabilities[place, :target].numpy(),
                None if attention is None else attention[place, :target][:, order].float().cpu().numpy(),
            )
    return [results[row] for row in range(len(pairs))]


def word_attention(
    network: Network, tokenizers: Tokenizers, pairs: Sequence[Pair], device: torch.device
) -> list[Weights]:
    """Return the attention between the words of each pair while the network reads it, (J, I); see
    :func:`~nmt.evaluation.alignment.word_weights`. The network must have attention."""
    weights = []
    for pair, each in zip(pairs, force(network, tokenizers, pairs, device), strict=True):
        assert each.attention is not None
        weights.append(word_weights(each.attention, each.source_pieces, each.target_pieces, *pair))
    return weights


def _first(tokenizer: Tokenizer, texts: Sequence[str], most: int) -> "list[np.ndarray[tuple[int], np.dtype[np.int32]]]":
    return [np.array(ids, np.int32) for ids, _ in tokenizer.encode_first(texts, most)]


def _pieces(tokenizer: Tokenizer, ids: "np.ndarray[tuple[int], np.dtype[np.int32]]") -> list[str]:
    return tokenizer.pieces([*ids.tolist(), tokenizer.eos_id])
