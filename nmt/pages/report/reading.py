"""The sentences of the page under every system: their translations step by step, and where the attention looked.

Shapes: S source and T target pieces, end symbols included.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nmt.data.batching import Specials, collate, plan_by_length
from nmt.data.corpus import Pair
from nmt.data.links import Link, piece_words
from nmt.data.tokenizer import Ids, Tokenizer, Tokenizers
from nmt.evaluation.metrics import sentence_scores
from nmt.evaluation.writing import Unit, unit_of, units
from nmt.model.multi_head import by_head
from nmt.pages.report.collecting import Collected
from nmt.pages.report.measuring import failures_of
from nmt.pages.report.rendering import Reading, Sentence, Words
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
        attention = getattr(loaded.model.decoder, "attention", None)
        weights = by_head(attention, memory, partial(loaded.model.unroll, batch.target_input, memory))
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


RANGE = 16.0
"""-ln of the smallest weight that a byte can hold."""
ZERO = 255
Bytes = npt.NDArray[np.uint8]


def quantized(weights: Matrix) -> Bytes:
    """Weights (T, S) -> bytes (T, S): ``255 sqrt(-ln(a) / 16)``, which is fine for large weights and coarse for faint
    ones."""
    with np.errstate(divide="ignore"):
        energies = -np.log(weights.astype(np.float64))
    codes: Bytes = np.rint(ZERO * np.sqrt(np.clip(energies, 0.0, RANGE) / RANGE)).astype(np.uint8)
    return codes


def restored(codes: Bytes) -> npt.NDArray[np.float64]:
    """Invert :func:`quantized`, as the page does before it normalizes the rows."""
    return np.where(codes == ZERO, 0.0, np.exp(-RANGE * (codes / ZERO) ** 2))


def packed(weights: Matrix) -> str:
    """Weights (T, S) -> base64 of the bytes, row by row."""
    return base64.b64encode(quantized(weights).tobytes()).decode("ascii")


def grouped(pieces: Sequence[str], text: str, unit: Unit, end: str) -> tuple[Words, list[int]]:
    """Join the pieces of each whitespace word of ``text``, in order; return them with the index of each one's word.

    Where the unit is characters, because the language has no spaces, each piece is a group of its own. The symbol
    ``end``, if it is last, is a group without a word: -1.
    """
    ended = bool(pieces) and pieces[-1] == end
    inner = pieces[: len(pieces) - ended]
    groups: Words = []
    words: list[int] = []
    for piece, word in zip(inner, piece_words(inner, text), strict=True):
        if unit == "words" and words and words[-1] == word:
            groups[-1].append(piece)
        else:
            groups.append([piece])
            words.append(word)
    return ([*groups, [end]], [*words, -1]) if ended else (groups, words)


def gold_groups(links: Iterable[Link], words: Sequence[int], reference: str, unit: Unit) -> list[list[int]]:
    """Return links of whitespace words as links of source groups and reference words, sorted.

    ``words`` has the word of each source group. Where the unit of the target is characters, a link of a word is one of
    each of its characters. A word that was cut off has no group.
    """
    places: dict[int, list[int]] = {}
    for group, word in enumerate(words):
        places.setdefault(word, []).append(group)
    targets, begin = [], 0
    for text in reference.split():
        size = len(units(text, unit))
        targets.append(range(begin, begin + size))
        begin += size
    return sorted([group, target] for i, j in links for group in places.get(i, ()) for target in targets[j])


@dataclass(frozen=True)
class Readings:
    """What one system made of the sentences that are shown."""

    tokenizers: Tokenizers
    sentences: list[ReadSentence]

    @property
    def views(self) -> list[str]:
        """The names of the attention matrices, in order."""
        return list(dict.fromkeys(name for each in self.sentences for name in each.views))


def sentence_records(collected: Collected, shown: Sequence[int], readings: Sequence[Readings]) -> list[Sentence]:
    """Return a record of each sentence of the test set that is ``shown``, as every system read it."""
    data = collected.systems[0].config.data
    units_of = unit_of(data.source_language), unit_of(data.target_language)
    names = [system.name for system in collected.systems]
    records = []
    for place, index in enumerate(shown):
        pair = collected.pairs[index]
        words = [_source_words(each.tokenizers.source, each.sentences[place], units_of[0]) for each in readings]
        groups, indices = words[0]
        gold = None
        if collected.gold is not None:
            gold = gold_groups(collected.gold[index].possible, indices, pair.target, units_of[1])
        systems = {}
        for name, each, (own, _) in zip(names, readings, words, strict=True):
            systems[name] = _reading(
                each.sentences[place],
                pair,
                each.tokenizers.target,
                units_of[1],
                sentence_scores(each.sentences[place].translation.text, pair.target, collected.tokenizer),
                None if own == groups else own,
            )
        length = len(units(pair.source, units_of[0]))
        records.append(Sentence(index + 1, pair.source, pair.target, length, groups, gold, systems))
    return records


def _source_words(tokenizer: Tokenizer, sentence: ReadSentence, unit: Unit) -> tuple[Words, list[int]]:
    return grouped(sentence.translation.source_pieces, sentence.translation.source, unit, _end(tokenizer))


def _end(tokenizer: Tokenizer) -> str:
    return tokenizer.pieces([tokenizer.eos_id])[0]


def _reading(
    sentence: ReadSentence,
    pair: Pair,
    target: Tokenizer,
    unit: Unit,
    scores: dict[str, float],
    source_words: Words | None,
) -> Reading:
    best, forced = sentence.translation.hypotheses[0], sentence.forced
    rows = len(best.pieces)
    groups, _ = grouped(best.pieces, best.text, unit, _end(target))
    log_probabilities = forced.log_probabilities[:rows].astype(np.float64)
    return Reading(
        text=best.text,
        scores={label: round(score, DECIMALS) for label, score in scores.items()},
        log_probability=round(float(log_probabilities.sum()), DECIMALS),
        failures=failures_of(best.text, pair.target, unit),
        target_words=groups,
        source_words=source_words,
        steps=candidates(forced, target, rows),
        chosen=np.exp(log_probabilities).round(DECIMALS).tolist(),
        attention={name: packed(matrix) for name, matrix in sentence.views.items()} or None,
    )
