"""The metrics, and the sufficient statistics of BLEU for resampling.

Logs, the choice of the best checkpoint, tables, figures and pages iterate over ``METRICS``. To add a metric, write a
:class:`Metric` and call :func:`register`.

Scores of text are sacreBLEU's (Post 2018): detokenized hypotheses are compared with raw references, one per sentence,
with its defaults: cased, exponential smoothing, no effective order. :mod:`nmt.evaluation.writing` chooses the tokenizer
of a language. Every such score comes with its signature, which names the tokenizer.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config.schema import BleuTokenizer
from nmt.errors import ConfigError, nearest
from nmt.messages import counted

if TYPE_CHECKING:  # slow to import, and nmt-translate scores nothing
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ORDERS = 4
"""Number of n-gram orders of BLEU."""
STATISTICS = 2 + 2 * ORDERS
"""Per sentence: hypothesis length, reference length, matches of each order, n-grams of each order."""


class Score(NamedTuple):
    """The value of a metric, and the signature of its settings."""

    value: float
    signature: str = ""


@dataclass(frozen=True)
class Evidence:
    """All that metrics may read: the translations of a set of sentences, and measurements of the model on them."""

    hypotheses: Sequence[str]
    references: Sequence[str]
    tokenizer: BleuTokenizer
    loss: float | None = None
    """Negative log-likelihood in nats per real target token, without label smoothing."""
    alignment_error_rate: float | None = None
    """The alignment error rate of the attention, if there are gold links."""


@dataclass(frozen=True)
class Metric:
    """A measure of the quality of a system."""

    name: str
    """In configurations and files: ``bleu``."""
    label: str
    """In tables, figures and pages: ``BLEU``."""
    compute: Callable[[Evidence], Score | None]
    """None if the evidence lacks what the metric reads."""
    higher_is_better: bool = True
    decimals: int = 2
    of_sentence: Callable[[str, str, BleuTokenizer], float] | None = None
    """Scores one hypothesis against its reference; None if the metric means little for a single sentence."""

    @property
    def meaning(self) -> str:
        """The meaning of a value and the perfect one, for readers of a page: the docstring of ``compute``."""
        return inspect.getdoc(self.compute) or ""

    def merit(self, value: float) -> float:
        """Convert a value to a number that is higher for a better system; NaN is worse than any other value."""
        if math.isnan(value):
            return -math.inf
        return value if self.higher_is_better else -value

    def format(self, value: float) -> str:
        """Format a value for people."""
        return f"{value:.{self.decimals}f}" if value < 1e6 else f"{value:.1e}"  # perplexity, when training diverges


METRICS: dict[str, Metric] = {}
"""Every metric by its name, in the order of tables."""


def register(metric: Metric) -> None:
    """Add a metric, which ``training.validation.metric`` may then name. Raises ValueError for a name in use."""
    if metric.name in METRICS:
        raise ValueError(f"metric '{metric.name}' is taken by {METRICS[metric.name]}")
    METRICS[metric.name] = metric


def metric_of(name: str) -> Metric:
    """Return the metric of this name, the value of ``training.validation.metric``. Raises ConfigError without one."""
    if name not in METRICS:
        own = "a metric of your own is known where its module has been imported: NMT_IMPORT=MODULE"
        hints = [f"{name!r} is not one of {', '.join(METRICS)}", *nearest(name, METRICS), own]
        raise ConfigError(f"training.validation.metric: {'; '.join(hints)}")
    return METRICS[name]


def scores_of(evidence: Evidence) -> dict[str, Score]:
    """Compute every metric that the evidence allows, by name. Raises TypeError for a metric that returns no Score."""
    scores = {name: metric.compute(evidence) for name, metric in METRICS.items()}
    for name, score in scores.items():
        if not isinstance(score, Score | None):
            raise TypeError(f"metric '{name}': found {score!r}; compute must return Score(value, signature) or None")
    return {name: score._replace(value=float(score.value)) for name, score in scores.items() if score is not None}


def format_values(values: Mapping[str, Any]) -> str:
    """Format the metrics among these values, by name: ``BLEU 31.20  chrF 55.00``."""
    found = [(metric, value) for name, metric in METRICS.items() if (value := values.get(name)) is not None]
    return "  ".join(f"{metric.label} {metric.format(value)}" for metric, value in found)


def bleu_of(tokenizer: BleuTokenizer, *, effective_order: bool = False) -> "BLEU":
    """Make sacreBLEU's BLEU."""
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415

    return BLEU(tokenize=tokenizer, effective_order=effective_order)


def of_sacrebleu(metric: "BLEU | CHRF", evidence: Evidence) -> Score:
    """Score the translations by a metric of sacreBLEU."""
    hypotheses, references = list(evidence.hypotheses), list(evidence.references)
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")  # sacreBLEU would zip them
    value = float(metric.corpus_score(hypotheses, [references]).score)
    return Score(value, str(metric.get_signature()))


def sentence_scores(hypothesis: str, reference: str, tokenizer: BleuTokenizer) -> dict[str, float]:
    """Score one hypothesis by every metric that suits a sentence, by the label of the metric."""
    return {
        metric.label: metric.of_sentence(hypothesis, reference, tokenizer)
        for metric in METRICS.values()
        if metric.of_sentence is not None
    }


def _loss(evidence: Evidence) -> Score | None:
    """How improbable the system finds the reference, in nats per piece; 0 is certain."""
    return None if evidence.loss is None else Score(evidence.loss)


def _perplexity(evidence: Evidence) -> Score | None:
    """Among how many equally probable pieces the system seems to choose at each step; 1 is certain."""
    return None if evidence.loss is None else Score(math.exp(min(evidence.loss, 700)))


def bleu(evidence: Evidence) -> Score:
    """How many word sequences of the reference a translation has; 100 is the reference (Papineni et al. 2002)."""
    return of_sacrebleu(bleu_of(evidence.tokenizer), evidence)


def _sentence_bleu(hypothesis: str, reference: str, tokenizer: BleuTokenizer) -> float:
    """BLEU of one sentence, with effective order (Lin & Och 2004)."""
    return float(bleu_of(tokenizer, effective_order=True).sentence_score(hypothesis, [reference]).score)


def _chrf(evidence: Evidence) -> Score:
    """How many character sequences of the reference a translation has; 100 is the reference (Popović 2015)."""
    from sacrebleu.metrics.chrf import CHRF  # noqa: PLC0415

    return of_sacrebleu(CHRF(), evidence)


def _sentence_chrf(hypothesis: str, reference: str, tokenizer: BleuTokenizer) -> float:
    return _chrf(Evidence([hypothesis], [reference], tokenizer)).value


def _alignment_error_rate(evidence: Evidence) -> Score | None:
    """The alignment error rate of the attention against word links that people drew (Och & Ney 2003); 0 is perfect."""
    return None if evidence.alignment_error_rate is None else Score(evidence.alignment_error_rate)


register(Metric("loss", "loss", _loss, higher_is_better=False, decimals=3))
register(Metric("perplexity", "perplexity", _perplexity, higher_is_better=False))
register(Metric("bleu", "BLEU", bleu, of_sentence=_sentence_bleu))
register(Metric("chrf", "chrF", _chrf, of_sentence=_sentence_chrf))
register(Metric("aer", "AER", _alignment_error_rate, higher_is_better=False, decimals=3))


# --- the sufficient statistics of BLEU --------------------------------------------------------------------------------


def sentence_statistics(hypotheses: Sequence[str], references: Sequence[str], tokenizer: BleuTokenizer) -> Integers:
    """Compute the sufficient statistics of BLEU, (sentences, STATISTICS): the sum of any rows determines their BLEU."""
    # effective_order silences a warning; it changes the score of a sentence, which is unused, not its statistics
    metric = bleu_of(tokenizer, effective_order=True)
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


def has_bleu(statistics: Integers) -> bool:
    """Whether any reference has n-grams of every order, given statistics (..., STATISTICS): otherwise not even the
    references would have any BLEU."""
    return bool((statistics[..., 1] >= ORDERS).any())


def bootstrap_bleu(statistics: Integers, resamples: int, seed: int | Sequence[int]) -> Floats:
    """Compute BLEU of ``resamples`` samples with replacement of the sentences (Koehn 2004), (resamples, ...).

    Statistics are (..., sentences, STATISTICS). The samples depend only on the seed and the number of sentences, so
    that a resample has the same sentences for all systems, in every call.
    """
    sentences = statistics.shape[-2]
    table = np.moveaxis(statistics, -2, 0).reshape(sentences, -1).astype(np.float64)  # exact, and fast products
    drawn = counted(draws(sentences, resamples, seed), "bootstrap", resamples, "resamples")
    sums = np.stack([draw @ table for draw in drawn]).astype(np.int64)
    return bleu_of_statistics(sums.reshape(resamples, *statistics.shape[:-2], STATISTICS))


def draws(size: int, resamples: int, seed: int | Sequence[int]) -> Iterator[Integers]:
    """Yield ``resamples`` bootstrap samples: how often each of ``size`` sentences is drawn, (size,). They depend only
    on the seed and the size."""
    generator = np.random.default_rng(seed)
    for _ in range(resamples):
        yield np.bincount(generator.integers(size, size=size), minlength=size)
