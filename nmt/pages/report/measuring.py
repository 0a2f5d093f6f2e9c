"""A system on the whole test set: its translations, its scores by length, and the reasons for them.

Shapes: N sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from nmt.data.corpus import Pair
from nmt.evaluation.alignment import likeliest, score_alignments, word_weights
from nmt.evaluation.by_length import SystemScores
from nmt.evaluation.diagnosis import MEASURES, most_frequent, sentence_measures
from nmt.evaluation.metrics import Floats, Integers
from nmt.pages.report.collecting import Collected
from nmt.runs.loading import LoadedRun
from nmt.translation.forced import force
from nmt.translation.options import SearchOptions
from nmt.translation.results import Translation
from nmt.translation.translator import Translator

FAILURES = MEASURES[-3:]
"""The measures that say what is wrong with the form of a translation: 1 where it is."""
SEED = 1
"""Seed of the random sentences: the same test set gives the same sentences."""


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
    """Translate the test set with the run's own decoding options, and score it; force the references for the reasons.

    ``name`` is that of the system.
    """
    translator = Translator.of([run], device, torch.float32)
    translations = list(translator.stream(collected.sources, SearchOptions.from_config(translator.decoding)))
    hypotheses = [each.text for each in translations]
    references, unit = collected.references, collected.scoring.reference_unit
    scores = collected.scoring.score(name, hypotheses)
    pairs = [Pair(*both) for both in zip(collected.sources, references, strict=True)]
    function_words = most_frequent(references, unit=unit)
    measures, weights = [], []
    forced = force(run.network, run.tokenizers, pairs, device)
    for (pair, each), hypothesis in zip(forced, hypotheses, strict=True):
        log_probabilities = each.log_probabilities[:-1]
        measures.append(
            sentence_measures(log_probabilities, each.attention, hypothesis, pair.target, function_words, unit)
        )
        if each.attention is not None and collected.gold is not None:
            weights.append(word_weights(each.attention, each.source_pieces, each.target_pieces, *pair))
    aer = score_alignments(collected.gold, likeliest(weights)).error_rate if collected.gold and weights else None
    return Measured(translations, scores, np.stack(measures), aer)


# --- the sentences that the page shows --------------------------------------------------------------------------------


def choose(
    count: int, lengths: Integers, bins: Sequence[Integers], bleu: Floats, failing: npt.NDArray[np.bool_]
) -> tuple[list[int], str]:
    """Choose ``count`` sentences, the same at each call: half of them at random, as many of each length, and half that
    fail, differ most between the systems, or are the worst or the best by sentence BLEU.

    Args:
        count: all sentences if there are no more.
        lengths: of each source, (N,); a blank source is left out.
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
