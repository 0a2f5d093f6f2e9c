"""Corpus BLEU and chrF through sacreBLEU (Post 2018), and the sufficient statistics of BLEU for resampling.

Detokenized hypotheses are compared with raw references, one per sentence, with sacreBLEU's defaults: cased, exponential
smoothing, no effective order. :mod:`nmt.evaluation.writing` chooses the tokenizer of a language. Every score comes with
its signature, which names the tokenizer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.config.schema import BleuTokenizer
from nmt.foundation.messages import counted

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ORDERS = 4
"""Number of n-gram orders of BLEU."""
STATISTICS = 2 + 2 * ORDERS
"""Per sentence: hypothesis length, reference length, matches of each order, n-grams of each order."""


@dataclass(frozen=True)
class Score:
    """The value of a metric, 0 to 100, and the signature of its settings."""

    name: str
    value: float
    signature: str


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenizer: BleuTokenizer) -> Score:
    """Compute corpus BLEU (Papineni et al. 2002)."""
    return _score(BLEU(tokenize=tokenizer), "BLEU", hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Compute corpus chrF (Popović 2015)."""
    return _score(CHRF(), "chrF", hypotheses, references)


def _score(metric: BLEU | CHRF, name: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")  # sacreBLEU would zip them
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Score(name, float(value), str(metric.get_signature()))


def sentence_statistics(hypotheses: Sequence[str], references: Sequence[str], tokenizer: BleuTokenizer) -> Integers:
    """Compute the sufficient statistics of BLEU, (sentences, STATISTICS): the sum of any rows determines their BLEU.

    Lengths are counted in the tokens of ``tokenizer``.
    """
    # effective_order silences a warning; it changes the score of a sentence, which is unused, not its statistics
    metric = BLEU(tokenize=tokenizer, effective_order=True)
    rows = np.zeros((len(references), STATISTICS), np.int64)
    for row, hypothesis, reference in zip(rows, hypotheses, references, strict=True):
        score = metric.sentence_score(hypothesis, [reference])
        row[:] = [score.sys_len, score.ref_len, *score.counts, *score.totals]
    return rows


def bleu_of_statistics(sums: Integers, *, effective_order: bool = False) -> Floats:
    """Compute BLEU from summed statistics, (..., STATISTICS) -> (...), as sacreBLEU does, for many corpora at once.

    ``effective_order``, for single sentences: leave out the orders of which the hypothesis has no n-grams.
    """
    hypothesis_length, reference_length = np.maximum(sums[..., 0], 1), sums[..., 1]
    matches, totals = sums[..., 2 : 2 + ORDERS], sums[..., 2 + ORDERS :]
    # exponential smoothing: the k-th order without a match counts 1 / 2^k matches
    smoothed = np.where(matches > 0, matches, 0.5 ** np.cumsum(matches == 0, axis=-1))
    orders = np.maximum((totals > 0).sum(axis=-1), 1) if effective_order else ORDERS
    logs = np.where(totals > 0, np.log(smoothed / np.maximum(totals, 1)), 0.0)
    precision = np.exp(logs.sum(axis=-1) / orders)
    brevity = np.exp(np.minimum(0.0, 1.0 - reference_length / hypothesis_length))
    undefined = (matches == 0).all(axis=-1)
    if not effective_order:
        undefined |= (totals == 0).any(axis=-1)
    return np.asarray(np.where(undefined, 0.0, 100.0 * brevity * precision))


def bootstrap_bleu(statistics: Integers, resamples: int, seed: int | Sequence[int]) -> Floats:
    """Compute BLEU of ``resamples`` samples with replacement of the sentences (Koehn 2004), (resamples, ...).

    Statistics are (..., sentences, STATISTICS). The samples depend only on the seed and the number of sentences, so
    that a resample has the same sentences for all systems, in every call.
    """
    sentences, table = sentences_first(statistics)
    drawn = counted(draws(sentences, resamples, seed), "bootstrap", resamples, "resamples")
    sums = np.stack([draw @ table for draw in drawn])
    return bleu_of_statistics(as_statistics(sums, statistics))


def sentences_first(statistics: Integers) -> tuple[int, Floats]:
    """Return the number of sentences, and (..., sentences, STATISTICS) as a matrix (sentences, ... x STATISTICS)."""
    sentences = statistics.shape[-2]
    return sentences, np.moveaxis(statistics, -2, 0).reshape(sentences, -1).astype(np.float64)  # exact, fast products


def as_statistics(sums: Floats, statistics: Integers) -> Integers:
    """Invert :func:`sentences_first` for sums of rows: (n, ... x STATISTICS) -> (n, ..., STATISTICS)."""
    return sums.astype(np.int64).reshape(len(sums), *statistics.shape[:-2], STATISTICS)


def draws(size: int, resamples: int, seed: int | Sequence[int]) -> Iterator[Integers]:
    """Yield ``resamples`` bootstrap samples: how often each of ``size`` sentences is drawn, (size,). They depend only
    on the seed and the size."""
    generator = np.random.default_rng(seed)
    for _ in range(resamples):
        yield np.bincount(generator.integers(size, size=size), minlength=size)
