"""Sentence-level chrF and BLEU of every pair of a few texts, as minimum Bayes risk decoding needs them.

The values are those of sacreBLEU's ``sentence_score``. sacreBLEU would count the n-grams of both texts again for each
pair. Here they are counted once for each text, and the matches of all pairs are one matrix product: the k-th occurrence
of an n-gram is an item of its own, so that the clipped matches of two texts are the items that both have.

Shapes: U texts.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.config.schema import BleuTokenizer
from nmt.evaluation.metrics import ORDERS, Floats, bleu_of_statistics

Utility = Callable[[Sequence[str]], Floats]
"""Texts -> (U, U): row h and column r have the utility, 0 to 100, of text h as a translation if text r is right."""

BLOCK = 1 << 14
"""Items that are compared at a time; they bound the memory."""
TIE = 9
"""Decimals in which expected utilities are compared: the order of a sum must not decide between equal ones."""


def expected_utility(samples: Sequence[str], utility: Utility) -> Floats:
    """Compute the mean utility of each of N samples against the N - 1 others, (N,).

    Equal samples are compared once and count as often as they are drawn. A single sample has expected utility 0.
    """
    counts = Counter(samples)  # in the order of their first appearance
    utilities = utility(list(counts))
    times = np.array(list(counts.values()), np.float64)
    means = (utilities @ times - utilities.diagonal()) / max(len(samples) - 1, 1)
    of_text = dict(zip(counts, means.round(TIE), strict=True))
    return np.array([of_text[sample] for sample in samples])


def sentence_chrf(texts: Sequence[str]) -> Floats:
    """Compute chrF (Popović 2015) of every pair, (U, U), with sacreBLEU's defaults: 6 orders, beta 2, no spaces.

    A text without characters has chrF 0, against itself too.
    """
    characters = ["".join(text.split()) for text in texts]
    precision, recall = np.zeros((2, len(texts), len(texts)))
    orders = np.zeros_like(precision)
    for order in range(1, CHRF.CHAR_ORDER + 1):
        matches = clipped_matches([_ngrams(text, order) for text in characters])
        totals = matches.diagonal()
        counted = (totals > 0)[:, None] & (totals > 0)
        divisor = np.maximum(totals, 1)
        precision += np.where(counted, matches / divisor[:, None], 0.0)
        recall += np.where(counted, matches / divisor, 0.0)
        orders += counted
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    weight = CHRF.BETA**2
    denominator = weight * precision + recall
    score = (1 + weight) * precision * recall / np.where(denominator > 0, denominator, 1.0)
    return np.asarray(100.0 * score)


@dataclass(frozen=True)
class SentenceBleu:
    """BLEU (Papineni et al. 2002) of every pair, with the smoothing and the effective order of sacreBLEU's sentences.

    A text without tokens has BLEU 0, against itself too.
    """

    tokenizer: BleuTokenizer = "13a"

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Texts -> (U, U)."""
        tokenize = BLEU(tokenize=self.tokenizer, effective_order=True).tokenizer
        tokens = [tuple(tokenize(text.rstrip()).split()) for text in texts]
        matches = np.stack([clipped_matches([_ngrams(text, n) for text in tokens]) for n in range(1, ORDERS + 1)], -1)
        lengths = np.array([len(text) for text in tokens])
        hypothesis, reference = np.broadcast_arrays(lengths[:, None], lengths[None, :])
        totals = np.broadcast_to(matches.diagonal().T[:, None, :], matches.shape)  # n-grams of the hypothesis
        statistics = np.concatenate((hypothesis[..., None], reference[..., None], matches, totals), -1)
        return bleu_of_statistics(statistics, effective_order=True)


def clipped_matches(ngrams: Sequence[Sequence[Hashable]]) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Count the n-grams that each two of U texts share, (U, U); one that stands k and l times counts min(k, l) times.

    The diagonal has the number of n-grams of each text.
    """
    places: dict[Hashable, int] = {}
    rows, columns = [], []
    for row, of_text in enumerate(ngrams):
        seen: Counter[Hashable] = Counter()
        for ngram in of_text:
            seen[ngram] += 1
            rows.append(row)
            columns.append(places.setdefault((ngram, seen[ngram]), len(places)))
    row_of, column_of = np.array(rows, np.int64), np.array(columns, np.int64)
    matches = np.zeros((len(ngrams), len(ngrams)), np.int64)
    for first in range(0, len(places), BLOCK):
        block = (column_of >= first) & (column_of < first + BLOCK)
        has = np.zeros((len(ngrams), min(BLOCK, len(places) - first)), np.float32)
        has[row_of[block], column_of[block] - first] = 1.0
        matches += (has @ has.T).astype(np.int64)  # whole numbers below 2^24: exact in fp32
    return matches


def _ngrams(sequence: Sequence[Hashable], order: int) -> list[Hashable]:
    return [sequence[first : first + order] for first in range(len(sequence) - order + 1)]
