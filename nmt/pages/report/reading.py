"""A system on the test set: measured on the whole of it, and reading some of its sentences step by step.

Shapes: N sentences; S source and T target pieces, end symbols included.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress

import numpy as np
import numpy.typing as npt
import torch

from nmt.data.batching import Specials, collate
from nmt.data.corpus import Pair
from nmt.data.links import Link, piece_words
from nmt.data.tokenizer import END
from nmt.evaluation.alignment import likeliest_links, score_alignments, without_end, word_weights
from nmt.evaluation.by_length import SystemScores
from nmt.evaluation.diagnosis import MEASURES, most_frequent, sentence_measures
from nmt.evaluation.metrics import Floats, Integers, sentence_scores
from nmt.evaluation.writing import Unit, units
from nmt.messages import progress_bar
from nmt.model.multi_head import by_head
from nmt.pages.report.collecting import Collected
from nmt.pages.report.rendering import Reading, Words
from nmt.runs.loading import LoadedRun
from nmt.translation.forced import force
from nmt.translation.results import Translation
from nmt.translation.translator import Translator

FAILURES = MEASURES[-3:]
"""The measures that say what is wrong with the form of a translation: 1 where it is."""
SEED = 1
"""Seed of the random sentences: the same test set gives the same sentences."""
TOP = 5
"""Candidates of each step, at most."""
LEAST, DECIMALS = 0.001, 3
"""Least probability of a candidate after the first, and decimals of a probability."""
MEAN, ONLY = "mean", "attention"
"""Names of the matrix that the network itself returns: the mean of several heads, or the only one."""
RANGE = 16.0
"""-ln of the weight at which the codes end."""


@dataclass(frozen=True)
class Measured:
    """The scores of a system on the whole test set."""

    translations: list[Translation]
    """N."""
    scores: SystemScores
    measures: Floats
    """The columns of ``nmt.evaluation.diagnosis.MEASURES`` for each sentence, (N, MEASURES)."""
    aer: float | None
    """Alignment error rate of the attention, forced to read the references; None without attention or gold links."""

    @property
    def failing(self) -> npt.NDArray[np.bool_]:
        """Whether each translation stops early, runs on or repeats itself, (N, FAILURES)."""
        return self.measures[:, -len(FAILURES) :] > 0


def measure(name: str, run: LoadedRun, collected: Collected, device: torch.device) -> Measured:
    """Translate the test set with the run's own decoding options and score it; force the references for the reasons."""
    translator = Translator.of([run], device, torch.float32)
    options = translator.options()
    with progress_bar(f"{name}: translating", len(collected.sources), "sentences") as progress:
        translations = list(translator.stream(collected.sources, options, progress=progress))
    hypotheses = [each.text for each in translations]
    references, unit = collected.scoring.references, collected.scoring.reference_unit
    scores = collected.scoring.score(name, hypotheses)
    pairs = [Pair(*both) for both in zip(collected.sources, references, strict=True)]
    function_words = most_frequent(references, unit=unit)
    measures, weights = [], []
    forced = force(run.network, run.tokenizers, pairs, device, limits=run.config.decoding)
    for (pair, each), hypothesis in zip(forced, hypotheses, strict=True):
        log_probabilities = each.log_probabilities[:-1]
        found = sentence_measures(log_probabilities, each.attention, hypothesis, pair.target, function_words, unit)
        measures.append(found)
        if each.attention is not None and collected.gold is not None:
            weights.append(word_weights(each.attention, each.source_pieces, each.target_pieces, *pair))
    links = list(map(likeliest_links, weights))
    aer = score_alignments(collected.gold, links).error_rate if collected.gold and links else None
    return Measured(translations, scores, np.stack(measures), aer)


# --- the sentences that the page shows --------------------------------------------------------------------------------


def choose(
    count: int, lengths: Integers, bins: Sequence[Integers], bleu: Floats, failing: npt.NDArray[np.bool_]
) -> tuple[list[int], str]:
    """Choose ``count`` sentences, the same at each call: half of them at random, as many of each length, and half that
    fail, differ most between the systems, or are the worst or the best by sentence BLEU.

    Args:
        count: all sentences if there are no more.
        lengths: of each source, (N,); a blank source, of length 0, is left out.
        bins: the sentences of each bin of length.
        bleu: of each translation of each system, (systems, N).
        failing: whether any system fails, (N,).

    Returns their indices, ascending, and says in words how they were chosen.
    """
    usable = np.flatnonzero(lengths > 0)
    if len(usable) <= count:
        blank = "" if len(usable) == len(lengths) else " that are not blank"
        return usable.tolist(), f"all {len(usable):,} sentences{blank}"
    generator = np.random.default_rng(SEED)
    by_length = [generator.permutation(np.intersect1d(members, usable)) for members in bins]
    least, most = bleu.min(axis=0), bleu.max(axis=0)
    failed = np.flatnonzero(failing & (lengths > 0))
    telling = [
        failed[np.argsort(least[failed], kind="stable")],
        *(usable[np.argsort(values[usable], kind="stable")] for values in (least - most, least, -most)),
    ]
    random = count - count // 2
    chosen: dict[int, None] = {}
    _take(chosen, by_length, random)
    _take(chosen, telling, count)
    return sorted(chosen), (
        f"{count:,} of {len(lengths):,} sentences: {random:,} at random, as many of each length (seed {SEED}), and "
        f"{count - random:,} that fail, differ most between systems, or are the worst or the best by sentence BLEU"
    )


def _take(chosen: dict[int, None], lists: Sequence[Integers], count: int) -> None:
    """Add the first of each list, then the second of each, and so on, until ``count`` are chosen."""
    for place in range(max(map(len, lists))):
        for each in lists:
            if len(chosen) < count and place < len(each):
                chosen[int(each[place])] = None


# --- a sentence, step by step -----------------------------------------------------------------------------------------


@torch.inference_mode()
def read(run: LoadedRun, measured: Measured, index: int, collected: Collected, device: torch.device) -> Reading:
    """Let a system read its own translation of a sentence that is not blank: each step's candidates, and the attention.

    A translation that was cut off at its greatest length has no end symbol: T is one less then.
    """
    translation, reference = measured.translations[index], collected.scoring.references[index]
    target, specials = run.tokenizers.target, Specials.of(run.tokenizers)
    best, rows = translation.hypotheses[0], len(translation.pieces)
    ids = translation.source_ids[:-1], [each for each in best.ids if each != target.eos_id]
    sources, targets = ([np.array(each, np.int32)] for each in ids)
    batch = collate(sources, targets, specials).to(device)
    memory = run.model.encode(batch.source, batch.source_lengths)
    unroll = partial(run.model.unroll, batch.target_input, memory)
    (readouts, weights), heads = by_head(getattr(run.model.decoder, "attention", None), memory, unroll)
    log_probabilities = run.model.output(readouts)[0, :rows].float().log_softmax(-1)  # (T, V)
    chosen = log_probabilities.gather(1, batch.target_output[0, :rows, None]).squeeze(1)  # (T,)
    top = log_probabilities.exp().topk(min(TOP, target.size))  # (T, TOP)
    steps = []
    for ids, probabilities in zip(top.indices.tolist(), top.values.tolist(), strict=True):
        candidates = zip(target.pieces(ids, translation.spans), probabilities, strict=True)
        least = min(LEAST, probabilities[0])
        steps.append([[piece, round(each, DECIMALS)] for piece, each in candidates if each >= least])
    views = {} if weights is None else {MEAN if heads else ONLY: weights}
    several = len({layer for layer, _ in heads}) > 1
    views |= {(f"layer {layer} " if several else "") + f"head {head}": each for (layer, head), each in heads.items()}
    scores = sentence_scores(best.text, reference, collected.scoring.tokenizer)
    order = specials.order(len(translation.source_pieces))  # columns are in the order of the text
    source_words, words = grouped(translation.source_pieces, translation.source, collected.scoring.source_unit)
    links = [] if collected.gold is None else collected.gold[index].possible
    return Reading(
        text=best.text,
        scores={label: round(score, DECIMALS) for label, score in scores.items()},
        log_probability=round(float(chosen.double().sum()), DECIMALS),
        failures=[name.replace("_", " ") for name in compress(FAILURES, measured.failing[index])],
        source_words=source_words,
        target_words=grouped(best.pieces, best.text, collected.scoring.reference_unit)[0],
        steps=steps,
        chosen=[round(probability, DECIMALS) for probability in chosen.exp().tolist()],
        attention={name: packed(each[0, :rows].float().cpu().numpy()[:, order]) for name, each in views.items()},
        gold=gold_groups(links, words, reference, collected.scoring.reference_unit),
    )


def packed(weights: npt.NDArray[np.floating]) -> str:
    """Weights (T, S) -> base64 of a byte for each, row by row: ``255 sqrt(-ln(a) / 16)``, which is fine for large
    weights and coarse for faint ones; 255 is 0."""
    with np.errstate(divide="ignore"):
        energies = np.clip(-np.log(weights.astype(np.float64)), 0.0, RANGE)
    codes = np.rint(255 * np.sqrt(energies / RANGE)).astype(np.uint8)
    return base64.b64encode(codes.tobytes()).decode("ascii")


def grouped(pieces: Sequence[str], text: str, unit: Unit) -> tuple[Words, list[int]]:
    """Join the pieces of each whitespace word of ``text``, in order; return them with the index of each one's word.

    Where the unit is characters, because the language has no spaces, each piece is a group of its own. The end symbol,
    if it is last, is a group without a word: -1.
    """
    inner = without_end(pieces)
    groups: Words = []
    words: list[int] = []
    for piece, word in zip(inner, piece_words(inner, text), strict=True):
        if unit == "words" and words and words[-1] == word:
            groups[-1].append(piece)
        else:
            groups.append([piece])
            words.append(word)
    return ([*groups, [END]], [*words, -1]) if len(inner) < len(pieces) else (groups, words)


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
