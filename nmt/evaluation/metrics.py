"""Corpus BLEU and chrF through sacreBLEU (Post 2018), and the sufficient statistics that BLEU is resampled from.

Detokenized hypotheses against untouched references, one reference a sentence, sacreBLEU's defaults: cased, exponential
smoothing, no effective order. :mod:`nmt.evaluation.writing` says which tokenizer suits a language. A score is always
accompanied by its signature, which names the tokenizer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.config.schema import BleuTokenizer

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ORDERS = 4
"""N-gram orders of BLEU."""
STATISTICS = 2 + 2 * ORDERS
"""Of a sentence: hypothesis length, reference length, matches of each order, n-grams of each order."""


@dataclass(frozen=True)
class Score:
    """A metric's value, 0 to 100, and the signature that says how it was computed."""

    name: str
    value: float
    signature: str


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenizer: BleuTokenizer) -> Score:
    """Corpus BLEU (Papineni et al. 2002)."""
    return _score(BLEU(tokenize=tokenizer), "BLEU", hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus chrF (Popović 2015)."""
    return _score(CHRF(), "chrF", hypotheses, references)


def _score(metric: BLEU | CHRF, name: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")  # sacreBLEU would zip them
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Score(name, float(value), str(metric.get_signature()))


def sentence_statistics(hypotheses: Sequence[str], references: Sequence[str], tokenizer: BleuTokenizer) -> Integers:
    """What BLEU is made of, (sentences, STATISTICS); the BLEU of any set of sentences follows from the sum of its rows.

    Lengths are counted in the tokens of ``tokenizer``.
    """
    # effective_order keeps sacreBLEU from warning; it changes a sentence's score, which is not used, not its statistics
    metric = BLEU(tokenize=tokenizer, effective_order=True)
    rows = np.zeros((len(references), STATISTICS), np.int64)
    for row, hypothesis, reference in zip(rows, hypotheses, references, strict=True):
        score = metric.sentence_score(hypothesis, [reference])
        row[:] = [score.sys_len, score.ref_len, *score.counts, *score.totals]
    return rows


def bleu_of_statistics(sums: Integers) -> Floats:
    """BLEU of summed statistics, (..., STATISTICS) -> (...): what sacreBLEU computes, for many corpora at once."""
    hypothesis_length, reference_length = np.maximum(sums[..., 0], 1), sums[..., 1]
    matches, totals = sums[..., 2 : 2 + ORDERS], sums[..., 2 + ORDERS :]
    # exponential smoothing: the k-th order that has no match is given 1 / 2^k of one
    smoothed = np.where(matches > 0, matches, 0.5 ** np.cumsum(matches == 0, axis=-1))
    precision = np.exp(np.log(smoothed / np.maximum(totals, 1)).mean(axis=-1))
    brevity = np.exp(np.minimum(0.0, 1.0 - reference_length / hypothesis_length))
    undefined = (totals == 0).any(axis=-1) | (matches == 0).all(axis=-1)
    return np.asarray(np.where(undefined, 0.0, 100.0 * brevity * precision))


def bootstrap_bleu(statistics: Integers, resamples: int, seed: int | Sequence[int]) -> Floats:
    """BLEU of ``resamples`` corpora drawn with replacement from the sentences (Koehn 2004), (resamples, ...).

    Statistics are (..., sentences, STATISTICS). The draws depend on the seed and the number of sentences alone: all
    systems, in this call and in others, have the same sentences in a resample.
    """
    sentences, table = sentences_first(statistics)
    sums = np.stack([draw @ table for draw in draws(sentences, resamples, seed)])
    return bleu_of_statistics(as_statistics(sums, statistics))


def sentences_first(statistics: Integers) -> tuple[int, Floats]:
    """The number of sentences, and (..., sentences, STATISTICS) as one matrix (sentences, ... x STATISTICS).

    It is a matrix of floats, whose products are fast; whole numbers of this size stay exact.
    """
    sentences = statistics.shape[-2]
    return sentences, np.moveaxis(statistics, -2, 0).reshape(sentences, -1).astype(np.float64)


def as_statistics(sums: Floats, statistics: Integers) -> Integers:
    """The way back from sums of rows of :func:`sentences_first`: (n, ... x STATISTICS) -> (n, ..., STATISTICS)."""
    return sums.astype(np.int64).reshape(len(sums), *statistics.shape[:-2], STATISTICS)


def draws(size: int, resamples: int, seed: int | Sequence[int]) -> Iterator[Integers]:
    """How often each of ``size`` sentences is drawn, (size,), when as many are drawn with replacement; ``resamples`` of
    them. They depend on the seed and the size alone."""
    generator = np.random.default_rng(seed)
    for _ in range(resamples):
        yield np.bincount(generator.integers(size, size=size), minlength=size)
