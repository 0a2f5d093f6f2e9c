"""A sentence under one system: its translation step by step, and where the attention looked.

Shapes: S source and T target pieces, end symbols included.
"""

import base64
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import compress

import numpy as np
import numpy.typing as npt
import torch

from nmt.data.batching import Specials, collate
from nmt.data.links import Link, piece_words
from nmt.data.tokenizer import Ids, Tokenizer
from nmt.evaluation.alignment import END
from nmt.evaluation.metrics import sentence_scores
from nmt.evaluation.writing import Unit, units
from nmt.model.multi_head import by_head
from nmt.pages.report.collecting import Collected
from nmt.pages.report.measuring import FAILURES, Measured
from nmt.pages.report.rendering import Reading, Words
from nmt.runs.loading import LoadedRun

TOP = 5
"""Candidates of each step, at most."""
LEAST, DECIMALS = 0.001, 3
"""Least probability of a candidate after the first, and decimals of a probability."""
MEAN, ONLY = "mean", "attention"
"""Names of the matrix that the network itself returns: the mean of several heads, or the only one."""
RANGE = 16.0
"""-ln of the largest weight that is packed as 0."""


@torch.inference_mode()
def read(run: LoadedRun, measured: Measured, index: int, collected: Collected, device: torch.device) -> Reading:
    """Let a system read its own translation of a sentence that is not blank: each step's candidates, and the attention.

    A translation that was cut off at its greatest length has no end symbol: T is one less then.
    """
    translation, reference = measured.translations[index], collected.references[index]
    source, target, specials = run.tokenizers.source, run.tokenizers.target, Specials.of(run.tokenizers)
    best, rows = translation.hypotheses[0], len(translation.pieces)
    batch = collate([_ids(source, translation.source_pieces)], [_ids(target, best.pieces)], specials).to(device)
    memory = run.model.encode(batch.source, batch.source_lengths)
    unroll = partial(run.model.unroll, batch.target_input, memory)
    (readouts, weights), heads = by_head(getattr(run.model.decoder, "attention", None), memory, unroll)
    log_probabilities = run.model.output(readouts)[0, :rows].float().log_softmax(-1)  # (T, V)
    chosen = log_probabilities.gather(1, batch.target_output[0, :rows, None]).squeeze(1)  # (T,)
    likeliest = log_probabilities.exp().topk(min(TOP, target.size))  # (T, TOP)
    steps = []
    for ids, probabilities in zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True):
        candidates = zip(target.pieces(ids), probabilities, strict=True)
        least = min(LEAST, probabilities[0])
        steps.append([[piece, round(each, DECIMALS)] for piece, each in candidates if each >= least])
    views = {} if weights is None else {MEAN if heads else ONLY: weights}
    several = len({layer for layer, _ in heads}) > 1
    views |= {(f"layer {layer} " if several else "") + f"head {head}": each for (layer, head), each in heads.items()}
    scores = sentence_scores(best.text, reference, collected.scoring.tokenizer)
    order = specials.order(len(translation.source_pieces))  # columns are in the order of the text
    return Reading(
        text=best.text,
        scores={label: round(score, DECIMALS) for label, score in scores.items()},
        log_probability=round(float(chosen.double().sum()), DECIMALS),
        failures=[name.replace("_", " ") for name in compress(FAILURES, measured.failing[index])],
        source_words=grouped(translation.source_pieces, translation.source, collected.scoring.source_unit)[0],
        target_words=grouped(best.pieces, best.text, collected.scoring.reference_unit)[0],
        steps=steps,
        chosen=[round(probability, DECIMALS) for probability in chosen.exp().tolist()],
        attention={name: packed(each[0, :rows].float().cpu().numpy()[:, order]) for name, each in views.items()},
    )


def _ids(tokenizer: Tokenizer, pieces: Sequence[str]) -> Ids:
    """The ids of pieces as the model spells them, without the end symbol."""
    ids = [tokenizer.piece_id(piece) for piece in pieces]
    return np.array(ids[:-1] if ids and ids[-1] == tokenizer.eos_id else ids, np.int32)


def packed(weights: npt.NDArray[np.floating]) -> str:
    """Weights (T, S) -> base64 of a byte for each, row by row: ``255 sqrt(-ln(a) / 16)``, which is fine for large
    weights and coarse for faint ones; 255 is 0."""
    with np.errstate(divide="ignore"):
        energies = np.clip(-np.log(weights.astype(np.float64)), 0.0, RANGE)
    return base64.b64encode(np.rint(255 * np.sqrt(energies / RANGE)).astype(np.uint8).tobytes()).decode("ascii")


def grouped(pieces: Sequence[str], text: str, unit: Unit) -> tuple[Words, list[int]]:
    """Join the pieces of each whitespace word of ``text``, in order; return them with the index of each one's word.

    Where the unit is characters, because the language has no spaces, each piece is a group of its own. The end symbol,
    if it is last, is a group without a word: -1.
    """
    ended = bool(pieces) and pieces[-1] == END
    inner = pieces[: len(pieces) - ended]
    groups: Words = []
    words: list[int] = []
    for piece, word in zip(inner, piece_words(inner, text), strict=True):
        if unit == "words" and words and words[-1] == word:
            groups[-1].append(piece)
        else:
            groups.append([piece])
            words.append(word)
    return ([*groups, [END]], [*words, -1]) if ended else (groups, words)


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
