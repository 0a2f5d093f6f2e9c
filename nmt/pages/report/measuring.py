"""A system on the whole test set: its translations, its scores by length, and the reasons for them.

Shapes: N sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from nmt.evaluation.alignment import likeliest, score_alignments, word_weights
from nmt.evaluation.by_length import SystemScores, score_system
from nmt.evaluation.diagnosis import failure, most_frequent, sentence_measures
from nmt.evaluation.metrics import Floats, Integers, bleu_of_statistics
from nmt.evaluation.writing import Unit, unit_of
from nmt.pages.report.collecting import Collected, Trained
from nmt.runs.loading import LoadedRun
from nmt.translation.forced import force
from nmt.translation.options import SearchOptions
from nmt.translation.results import Translation
from nmt.translation.translator import Translator

FAILURES = ("stops early", "runs on", "repeats")
"""What is visible in the form of a translation, in the order of ``nmt.evaluation.diagnosis.Failure``."""
SEED = 1
"""Seed of the random sentences: the same test set gives the same sentences."""


@dataclass(frozen=True)
class Measured:
    """The scores of a system on the whole test set."""

    translations: list[Translation]
    """N."""
    scores: SystemScores
    bleu: Floats
    """BLEU of each sentence, (N,): exponential smoothing, effective order."""
    failing: list[bool]
    """Whether each translation stops early, runs on or repeats itself."""
    measures: Floats
    """The columns of ``nmt.evaluation.diagnosis.MEASURES`` for each sentence, (N, MEASURES)."""
    aer: float | None
    """Alignment error rate of the attention, forced to read the references; None without attention or gold links."""


def measure(
    system: Trained, loaded: LoadedRun, collected: Collected, lengths: Integers, device: torch.device
) -> Measured:
    """Translate the test set with the run's own decoding options, and score it; force the references for the reasons.

    ``lengths`` are those of the sources, (N,).
    """
    translator = Translator.of([loaded], device, torch.float32)
    translations = list(translator.stream(collected.sources, SearchOptions.from_config(translator.decoding)))
    hypotheses = [each.text for each in translations]
    scores = score_system(
        system.name,
        lengths,
        hypotheses,
        collected.references,
        tokenizer=collected.tokenizer,
        bins=collected.bins,
        resamples=collected.resamples,
    )
    unit = unit_of(system.config.data.target_language)
    measures, aer = _forced(loaded, collected, hypotheses, unit, device)
    return Measured(
        translations,
        scores,
        bleu_of_statistics(scores.statistics[0], effective_order=True),
        [bool(failures_of(*each, unit)) for each in zip(hypotheses, collected.references, strict=True)],
        measures,
        aer,
    )


def failures_of(hypothesis: str, reference: str, unit: Unit) -> list[str]:
    """Name what is wrong with the form of a translation."""
    return [name for name, found in zip(FAILURES, failure(hypothesis, reference, unit), strict=True) if found]


def _forced(
    loaded: LoadedRun, collected: Collected, hypotheses: Sequence[str], unit: Unit, device: torch.device
) -> tuple[Floats, float | None]:
    """Let the network read the references: the measures of each sentence, and the error rate of its alignments."""
    measures, weights = [], []
    function_words = most_frequent(collected.references, unit=unit)
    forced = force(loaded.network, loaded.tokenizers, collected.pairs, device)
    for (pair, each), hypothesis in zip(forced, hypotheses, strict=True):
        log_probabilities = each.log_probabilities[:-1]
        measures.append(
            sentence_measures(log_probabilities, each.attention, hypothesis, pair.target, function_words, unit)
        )
        if each.attention is not None and collected.gold is not None:
            weights.append(word_weights(each.attention, each.source_pieces, each.target_pieces, *pair))
    aer = score_alignments(collected.gold, likeliest(weights)).error_rate if collected.gold and weights else None
    return np.stack(measures), aer


# --- the sentences that the page shows --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """Sentences of a test set."""

    indices: list[int]
    """Ascending, from 0."""
    described: str
    """How they were chosen, in words."""


def choose(count: int, lengths: Integers, bins: Sequence[Integers], measured: Sequence[Measured]) -> Selection:
    """Choose ``count`` sentences, the same at each call: half of them at random, as many of each length, and half that
    fail, differ most between the systems, or are the worst or the best by sentence BLEU.

    Args:
        count: all sentences if there are no more.
        lengths: of each of N sources, (N,); a blank source is left out.
        bins: the sentences of each bin of length.
        measured: of each system.
    """
    usable = np.flatnonzero(lengths > 0)
    if len(usable) <= count:
        blank = "" if len(usable) == len(lengths) else " that are not blank"
        return Selection(usable.tolist(), f"all {len(usable):,} sentences{blank}")
    generator = np.random.default_rng(SEED)
    by_length = [generator.permutation(np.intersect1d(members, usable)) for members in bins]
    bleu = np.stack([each.bleu for each in measured])
    least, most = bleu.min(axis=0), bleu.max(axis=0)
    failing = np.flatnonzero(np.any([each.failing for each in measured], axis=0) & (lengths > 0))
    telling = [
        failing[np.argsort(least[failing], kind="stable")],
        *(usable[np.argsort(values[usable], kind="stable")] for values in (least - most, least, -most)),
    ]
    random = count - count // 2
    chosen: dict[int, None] = {}
    _take(chosen, by_length, random)
    _take(chosen, telling, count)
    return Selection(
        sorted(chosen),
        f"{count:,} of {len(lengths):,} sentences: {random:,} at random, as many of each length (seed {SEED}), and "
        f"{count - random:,} that fail, differ most between systems, or are the worst or the best by sentence BLEU",
    )


def _take(chosen: dict[int, None], lists: Sequence[Integers], count: int) -> None:
    """Add the first of each list, then the second of each, and so on, until ``count`` are chosen."""
    for place in range(max(map(len, lists))):
        for each in lists:
            if len(chosen) < count and place < len(each):
                chosen[int(each[place])] = None
