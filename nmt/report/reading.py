"""The translations of the sentences of the page step by step, and where the attention looked.

Shapes: S source and T target pieces, end symbols included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nmt.data.batching import Specials, collate, plan_by_length
from nmt.data.tokenizer import Ids, Tokenizer
from nmt.model.by_head import by_head
from nmt.runs.loading import LoadedRun
from nmt.translation.forced import BATCH_TOKENS, ForcedDecoding, force_ids
from nmt.translation.results import Translation

TOP = 5
"""Candidates of each step, at most."""
LEAST, DECIMALS = 0.001, 3
"""Least probability of a candidate, and decimals of a probability."""
MEAN, ONLY = "mean", "attention"
"""Names of the matrix that the network itself returns: the mean of several heads, or the only one."""
Matrix = npt.NDArray[np.floating]


@dataclass(frozen=True)
class ReadSentence:
    """A sentence that a system has translated."""

    translation: Translation
    forced: ForcedDecoding
    """The system reading its own translation; T pieces."""
    views: dict[str, Matrix]
    """Attention by name, each (T, S)."""


def read(loaded: LoadedRun, translations: Sequence[Translation], device: torch.device) -> list[ReadSentence]:
    """Read the translations of lines, none of them blank, again: each step's candidates, and the attention.

    A translation that was cut off at its greatest length has no end symbol: T is one less then.
    """
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    sources = [_ids(source, each.source_pieces) for each in translations]
    targets = [_ids(target, each.hypotheses[0].pieces) for each in translations]
    forced = force_ids(loaded.network, loaded.tokenizers, sources, targets, device, top=TOP)
    heads = _heads(loaded, sources, targets, device)
    return [
        ReadSentence(translation, each, _views(each, of_heads, len(translation.hypotheses[0].pieces)))
        for translation, each, of_heads in zip(translations, forced, heads, strict=True)
    ]


def _ids(tokenizer: Tokenizer, pieces: Sequence[str]) -> Ids:
    """The ids of pieces as the model spells them, without the end symbol."""
    ids = [tokenizer.piece_id(piece) for piece in pieces]
    return np.array(ids[:-1] if ids and ids[-1] == tokenizer.eos_id else ids, np.int32)


def _views(forced: ForcedDecoding, heads: Mapping[str, Matrix], rows: int) -> dict[str, Matrix]:
    if forced.attention is None:
        return {}
    views = {MEAN: forced.attention, **heads} if heads else {ONLY: forced.attention}
    return {name: matrix[:rows] for name, matrix in views.items()}


@torch.inference_mode()
def _heads(
    loaded: LoadedRun, sources: Sequence[Ids], targets: Sequence[Ids], device: torch.device
) -> list[dict[str, Matrix]]:
    """The attention of each head, for each sentence; nothing where there is one head."""
    specials = Specials.of(loaded.tokenizers)
    found: dict[int, dict[str, Matrix]] = {}
    source_lengths, target_lengths = (np.array([len(ids) for ids in side], np.int32) for side in (sources, targets))
    for rows in plan_by_length(source_lengths, target_lengths, BATCH_TOKENS):
        batch = collate([sources[row] for row in rows], [targets[row] for row in rows], specials).to(device)
        memory = loaded.model.encode(batch.source, batch.source_lengths)
        weights = by_head(loaded.model, memory, batch.target_input)
        layers = {layer for layer, _ in weights}
        for place, row in enumerate(rows.tolist()):
            order, steps = specials.order(len(sources[row]) + 1), len(targets[row]) + 1
            found[row] = {
                (f"layer {layer} " if len(layers) > 1 else "") + f"head {head}": matrix[place, :steps][:, order]
                .float()
                .cpu()
                .numpy()
                for (layer, head), matrix in weights.items()
            }
        if not weights:
            return [{} for _ in sources]
    return [found[row] for row in range(len(sources))]


def candidates(forced: ForcedDecoding, target: Tokenizer, rows: int) -> list[list[list[Any]]]:
    """Return for each of the first ``rows`` steps the likeliest pieces, each with its probability.

    Of those below ``LEAST`` only the first is kept.
    """
    assert forced.likeliest is not None
    steps = []
    for ids, log_probabilities in zip(forced.likeliest.ids, forced.likeliest.log_probabilities, strict=True):
        probabilities = np.exp(log_probabilities).tolist()
        kept = max(1, sum(each >= LEAST for each in probabilities))
        pieces = target.pieces(ids[:kept].tolist())
        steps.append([[piece, round(each, DECIMALS)] for piece, each in zip(pieces, probabilities, strict=False)])
    return steps[:rows]
