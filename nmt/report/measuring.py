"""A system on the whole test set: its translations, its scores by length, and the reasons for them.

Shapes: N sentences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from nmt.evaluation.alignment import word_weights
from nmt.evaluation.by_length import Bin, LengthRow, SystemScores, bins_by_length, length_rows, score_system
from nmt.evaluation.diagnosis import MEASURES, display_factor, failure, mean, most_frequent, sentence_measures
from nmt.evaluation.links import likeliest, score_alignments
from nmt.evaluation.metrics import Floats, bleu_of_statistics
from nmt.evaluation.writing import Unit, unit_of
from nmt.report.collecting import Collected, kept_translations
from nmt.report.records import Row
from nmt.report.systems import Trained
from nmt.runs.loading import LoadedRun
from nmt.translation.forced import force
from nmt.translation.options import SearchOptions
from nmt.translation.results import Translation
from nmt.translation.translator import Translator

SAME = 1e-6
"""Difference up to which a BLEU that was written is that of the translations beside it."""
FAILURES = ("stops early", "runs on", "repeats")
"""What is visible in the form of a translation, in the order of ``nmt.evaluation.diagnosis.Failure``."""


@dataclass(frozen=True)
class Measured:
    """What the whole test set says about a system."""

    hypotheses: list[str]
    """N."""
    translations: list[Translation] | None
    """N, with their pieces; None where the hypotheses were there before, as text."""
    scores: SystemScores
    pieces: list[LengthRow]
    """Scores by source pieces."""
    bleu: Floats
    """Of each sentence, (N,): exponential smoothing, effective order."""
    failures: list[list[str]]
    """Of each sentence."""
    measures: Floats
    """The columns of ``nmt.evaluation.diagnosis.MEASURES`` for each sentence, (N, MEASURES)."""
    aer: float | None
    """Alignment error rate of the attention, forced to read the references; None without attention or gold links."""


def measure(
    system: Trained,
    loaded: LoadedRun,
    collected: Collected,
    lengths: npt.NDArray[np.int64],
    pieces: npt.NDArray[np.int64],
    device: torch.device,
) -> Measured:
    """Translate, unless the translations are there, and score; force the references for the reasons.

    ``lengths`` and ``pieces`` are those of the sources, (N,).
    """
    test, bins, resamples = collected.test, collected.bins, collected.resamples

    def score(lines: list[str]) -> SystemScores:
        return score_system(
            system.name,
            lengths,
            lines,
            test.references,
            tokenizer=collected.tokenizer,
            bins=bins,
            resamples=resamples,
        )

    kept, translations = kept_translations(system, test), None
    scores = score(kept.lines) if kept else None
    if kept and scores and (kept.bleu is None or abs(kept.bleu - scores.scores[0].value) <= SAME):
        hypotheses = kept.lines
    else:  # there are none, or a text or the scoring has changed
        translations = translated(loaded, test.sources, device)
        hypotheses = [each.text for each in translations]
        scores = score(hypotheses)
    unit = unit_of(system.config.data.target_language)
    measures, aer = _forced(loaded, collected, hypotheses, unit, device)
    return Measured(
        hypotheses,
        translations,
        scores,
        length_rows(system.name, scores.statistics, bins_by_length(pieces, bins), resamples),
        bleu_of_statistics(scores.statistics[0], effective_order=True),
        [failures_of(*each, unit) for each in zip(hypotheses, test.references, strict=True)],
        measures,
        aer,
    )


def translated(loaded: LoadedRun, sources: Sequence[str], device: torch.device) -> list[Translation]:
    """Translate lines as the run's own decoding options say."""
    translator = Translator.of(loaded, device, torch.float32)
    return list(translator.translate(sources, SearchOptions.from_config(translator.decoding)))


def failures_of(hypothesis: str, reference: str, unit: Unit) -> list[str]:
    """Name what is wrong with the form of a translation."""
    return [name for name, found in zip(FAILURES, failure(hypothesis, reference, unit), strict=True) if found]


def diagnosis(measured: Measured, bins: Mapping[int, Bin]) -> list[Row]:
    """Average the measures in each bin, in the units that the page shows; None for an undefined one."""
    rows = []
    for each in bins.values():
        means = mean(measured.measures[each.members])
        values = {
            name: None if np.isnan(one) else float(one) * display_factor(name)
            for name, one in zip(MEASURES, means, strict=True)
        }
        rows.append({"low": each.low, "high": each.high, "n": len(each.members), **values})
    return rows


def _forced(
    loaded: LoadedRun, collected: Collected, hypotheses: Sequence[str], unit: Unit, device: torch.device
) -> tuple[Floats, float | None]:
    """Let the network read the references: the measures of each sentence, and the error rate of its alignments."""
    test, measures, weights = collected.test, [], []
    function_words = most_frequent(test.references, unit=unit)
    forced = force(loaded.network, loaded.tokenizers, test.pairs, device)
    for pair, each, hypothesis in zip(test.pairs, forced, hypotheses, strict=True):
        log_probabilities = each.log_probabilities[:-1]
        measures.append(
            sentence_measures(log_probabilities, each.attention, hypothesis, pair.target, function_words, unit)
        )
        if each.attention is not None and test.gold is not None:
            weights.append(word_weights(each.attention, each.source_pieces, each.target_pieces, *pair))
    aer = score_alignments(test.gold, likeliest(weights)).error_rate if test.gold and weights else None
    return np.stack(measures), aer
