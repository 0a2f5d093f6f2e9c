"""A system on the whole test set: its translations, its scores by length, and the reasons for them; and which sentences
the page shows.

Shapes: N sentences.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt
import torch

from nmt.evaluation.alignment import likeliest, score_alignments, word_weights
from nmt.evaluation.by_length import SystemScores, score_system
from nmt.evaluation.diagnosis import failure, most_frequent, sentence_measures
from nmt.evaluation.metrics import Floats, Integers, bleu_of_statistics
from nmt.evaluation.writing import Unit, unit_of
from nmt.report.collecting import Collected, kept_translations
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
    device: torch.device,
) -> Measured:
    """Translate, unless the translations are there, and score; force the references for the reasons.

    ``lengths`` are those of the sources, (N,).
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
    if kept and scores and (kept.bleu is None or abs(kept.bleu - scores.bleu.value) <= SAME):
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


Booleans = npt.NDArray[np.bool_]
SEED = 1
"""Of the random sentences: the same test set gives the same sentences."""
TELLING = 0.5
"""Share of the sentences that are chosen for what happens in them; the others are random, as many of each length."""


@dataclass(frozen=True)
class Selection:
    """Sentences of a test set."""

    indices: list[int]
    """Ascending, from 0."""
    described: str
    """How they were chosen, in words."""


def choose(
    count: int,
    lengths: Integers,
    bins: Sequence[Sequence[int]],
    bleu: Floats,
    failing: Booleans,
) -> Selection:
    """Choose ``count`` sentences, the same at each call.

    Args:
        count: how many; all if there are no more.
        lengths: of each of N sources, (N,); a blank source is left out.
        bins: the sentences of each bin of length.
        bleu: sentence-level BLEU of each system, (systems, N).
        failing: whether the translation stops early, runs on or repeats itself, (systems, N).
    """
    usable = np.flatnonzero(lengths > 0)
    total = len(lengths)
    if len(usable) <= count:
        blank = "" if len(usable) == total else " that are not blank"
        return Selection(usable.tolist(), f"all {len(usable):,} sentences{blank}")
    generator = np.random.default_rng(SEED)
    shuffled = [generator.permutation([each for each in members if lengths[each]]).tolist() for members in bins]
    chosen: dict[int, None] = {}
    random = count - round(TELLING * count)
    _take(chosen, _in_turn(shuffled), random)
    _take(chosen, _in_turn([list(_in_turn(kind)) for kind in _telling(usable, lengths, bleu, failing)]), count)
    several = len(bleu) > 1
    described = (
        f"{count:,} of {total:,} sentences: {random:,} at random, as many of each length (seed {SEED}), and "
        f"{count - random:,} whose translations fail, are the worst or the best by sentence BLEU"
        + (", or differ most between two systems" if several else "")
    )
    return Selection(sorted(chosen), described)


def _telling(usable: Integers, lengths: Integers, bleu: Floats, failing: Booleans) -> Iterator[list[list[int]]]:
    """Rank the sentences by each reason to show them: failures, worst, best, and differences, each once for a system or
    a pair of systems. Of equal sentences the longer comes first."""

    def ranked(values: Floats, among: Integers) -> list[int]:
        order = np.lexsort((among, -lengths[among], -values[among]))
        return [int(each) for each in among[order]]

    yield [ranked(-one, usable[fails[usable]]) for one, fails in zip(bleu, failing, strict=True)]
    yield [ranked(-one, usable) for one in bleu]
    yield [ranked(one, usable) for one in bleu]
    yield [ranked(one - other, usable[(one > other)[usable]]) for one, other in permutations(bleu, 2)]


def _in_turn(lists: Sequence[Sequence[int]]) -> Iterator[int]:
    """Yield the first of each list, then the second of each, and so on."""
    for place in range(max(map(len, lists), default=0)):
        yield from (each[place] for each in lists if place < len(each))


def _take(chosen: dict[int, None], candidates: Iterable[int], count: int) -> None:
    """Add candidates until there are ``count``."""
    for each in candidates:
        if len(chosen) >= count:
            return
        chosen[each] = None
