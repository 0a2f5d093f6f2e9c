"""BLEU and chrF are sacreBLEU's own, and so is what the bootstrap adds up."""

import math
from functools import partial

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from nmt.errors import ConfigError
from nmt.evaluation import metrics

REFERENCES = ["The cat sat on the mat.", "It's 3,000 km away!", "Une phrase « entre guillemets ».", "yes", ""]
HYPOTHESES = ["The cat sat on a mat.", "It is 3,000 km away.", "Une phrase « entre guillemets ».", "", "spurious"]
FULL = metrics.Evidence(HYPOTHESES, REFERENCES, "13a", loss=math.log(4), alignment_error_rate=0.25)


def test_a_model_is_measured_too() -> None:
    values = {name: score.value for name, score in metrics.scores_of(FULL).items()}
    assert (values["loss"], values["aer"]) == (math.log(4), 0.25) and values["perplexity"] == pytest.approx(4)
    assert metrics.format_values(values).split("  ")[:2] == ["loss 1.386", "perplexity 4.00"]


@pytest.mark.parametrize("metric", metrics.METRICS.values(), ids=metrics.METRICS)
def test_a_better_value_has_more_merit(metric: metrics.Metric) -> None:
    perfect = metrics.Evidence(REFERENCES, REFERENCES, "13a", loss=0.0, alignment_error_rate=0.0)
    better, worse = (metric.compute(each) for each in (perfect, FULL))
    assert better is not None and worse is not None
    assert metric.merit(better.value) > metric.merit(worse.value) > metric.merit(math.nan)


def test_a_metric_that_is_registered_is_measured_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "METRICS", dict(metrics.METRICS))
    lines = metrics.Metric("lines", "lines", lambda evidence: metrics.Score(len(evidence.hypotheses)), decimals=0)
    metrics.register(lines)
    assert metrics.format_values({"bleu": 1.0, "lines": 5.0}) == "BLEU 1.00  lines 5"
    assert metrics.format_values({"perplexity": 1e300}) == "perplexity 1.0e+300"
    value = metrics.scores_of(FULL)["lines"].value
    assert value == len(HYPOTHESES) and isinstance(value, float), "training.json keeps it as a float"
    with pytest.raises(
        ConfigError, match=r"'blau' is not one of .+; nearest: bleu; a metric of your own is known where"
    ):
        metrics.metric_of("blau")
    with pytest.raises(ValueError, match="metric 'lines' is taken by"):
        metrics.register(metrics.Metric("lines", "lines", metrics.bleu))
    metrics.register(metrics.Metric("bare", "bare", lambda _: 0.5))  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match=r"metric 'bare': found 0.5; compute must return Score"):
        metrics.scores_of(FULL)


@pytest.mark.parametrize(("hypotheses", "references"), [(["a"], ["a", "b"]), ([], [])])
def test_what_does_not_pair_is_not_scored(hypotheses: list[str], references: list[str]) -> None:
    with pytest.raises(ValueError, match=f"{len(hypotheses)} hypotheses for {len(references)} references"):
        metrics.bleu(metrics.Evidence(hypotheses, references, "13a"))


def test_statistics_by_hand() -> None:
    [row] = metrics.sentence_statistics(["the cat the cat sat"], ["the cat sat down."], "13a").tolist()
    # the reference has 5 tokens, the full stop being one; "the cat" and its words count once, as they do there
    assert row == [5, 5, 3, 2, 1, 0, 5, 4, 3, 2]
    expected = 100 * math.exp((math.log(3 / 5) + math.log(2 / 4) + math.log(1 / 3) + math.log(1 / 2 / 2)) / 4)
    assert metrics.bleu_of_statistics(np.array(row)) == pytest.approx(expected)


def test_many_corpora_at_once_are_scored_as_sacrebleu_scores_each() -> None:
    generator = np.random.default_rng(0)
    totals = np.sort(generator.integers(0, 6, (500, 4)))[:, ::-1]
    matches = generator.integers(0, totals + 1)
    lengths = generator.integers(0, 6, (500, 2))
    sums = np.concatenate([lengths, matches, totals], axis=1)
    sums[:, 0] = totals[:, 0]  # as many unigrams as tokens
    rows = sums.tolist()
    score = partial(BLEU.compute_bleu, smooth_method="exp")
    expected = [score(row[2:6], row[6:], row[0], row[1]).score for row in rows]
    np.testing.assert_allclose(metrics.bleu_of_statistics(sums), expected, rtol=1e-12, atol=1e-12)
    effective = [score(row[2:6], row[6:], row[0], row[1], effective_order=True).score for row in rows]
    found = metrics.bleu_of_statistics(sums, effective_order=True)
    np.testing.assert_allclose(found, effective, rtol=1e-12, atol=1e-12)
    assert metrics.bleu_of_statistics(sums.reshape(5, 100, metrics.STATISTICS)).shape == (5, 100)
    assert 0 < np.count_nonzero(expected) < 500
