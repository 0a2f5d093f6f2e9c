"""Sentence scores, their differences by length, and the figure."""

import json
from pathlib import Path

import numpy as np
import pytest
from sacrebleu import sentence_bleu, sentence_chrf

from nmt.evaluation.gains import GainRow, Gains, SentenceMetric, format_gains, gains, sentence_scores
from nmt.evaluation.metrics import bleu_of_statistics, sentence_statistics
from nmt.evaluation.writing import BinnedBy
from nmt.plots.about import About
from nmt.plots.gains import Compared, draw_gains, write_gains
from nmt.plots.style import style

HYPOTHESES = ["the cat sleeps", "a dog", "", "it rains today ."]
REFERENCES = ["the cat sleeps", "the old dog barks", "nothing", "it snows today ."]
ABOUT = About("test.en", 200, BinnedBy("source", "words"), min_sentences=2)


def test_scores_are_those_of_sacrebleu() -> None:
    found = sentence_scores(HYPOTHESES, REFERENCES, "chrf", "13a")
    expected = [sentence_chrf(each, [reference]).score for each, reference in zip(HYPOTHESES, REFERENCES, strict=True)]
    np.testing.assert_allclose(found.values, expected)
    assert found.values[0] == pytest.approx(100) and found.values[2] == 0 and "nc:6" in found.signature
    found = sentence_scores(HYPOTHESES, REFERENCES, "bleu", "13a")
    expected = [sentence_bleu(each, [reference]).score for each, reference in zip(HYPOTHESES, REFERENCES, strict=True)]
    np.testing.assert_allclose(found.values, expected)
    statistics = sentence_statistics(HYPOTHESES, REFERENCES, "13a")
    np.testing.assert_allclose(found.values, bleu_of_statistics(statistics, effective_order=True))
    assert "eff:yes" in found.signature and "tok:13a" in found.signature


def test_gains_by_hand() -> None:
    """Lengths 2, 3 | 7, 8, 9: the second system gains 10 and nothing, then 30, -20 and 5."""
    first, second = np.array([50.0, 40, 10, 60, 20]), np.array([60.0, 40, 40, 40, 25])
    found = gains(first, second, np.array([2, 3, 7, 8, 9]), bins=[5], resamples=200)
    short, long = found.rows
    assert (short.low, short.high, short.n, short.gained, short.lost, short.mean) == (1, 5, 2, 1, 0, 5.0)
    assert (long.low, long.high, long.n, long.gained, long.lost, long.mean) == (6, 9, 3, 2, 1, 5.0)
    assert (found.whole.n, found.whole.gained, found.whole.lost, found.whole.mean) == (5, 3, 1, 5.0)
    assert short.mean_low == 0 and short.mean_high == 10  # each is drawn twice in a quarter of cases
    assert -20 <= long.mean_low < 5 < long.mean_high <= 30
    assert found.most(2) == ([2, 0], [3])
    assert found.most(0) == ([], [])
    back = gains(second, first, np.array([2, 3, 7, 8, 9]), bins=[5], resamples=200)
    np.testing.assert_array_equal(back.differences, -found.differences)
    assert (back.whole.gained, back.whole.lost) == (1, 3)


def test_the_interval_covers_the_mean_of_the_population() -> None:
    """About 95 in 100 times, for 100 samples of 60 differences with mean 1."""
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(100):
        differences = generator.normal(1.0, 5.0, 60)
        row = gains(np.zeros(60), differences, np.ones(60, np.int64), bins=[5], resamples=200).whole
        covered += row.mean_low <= 1.0 <= row.mean_high
    assert 88 <= covered <= 100


def test_equal_systems_gain_nothing() -> None:
    scores = np.array([10.0, 20, 30])
    found = gains(scores, scores + 1e-12, np.array([1, 1, 1]), bins=[5], resamples=10)
    assert (found.whole.gained, found.whole.lost) == (0, 0) and found.most(3) == ([], [])


def test_the_table() -> None:
    row = GainRow(1, 10, 1200, 700, 300, 1.25, 1.0, 1.5)
    table = format_gains([row], row, "source words", "chrf")
    assert table.splitlines()[0].split() == (
        ["source", "words", "sentences", "gained", "equal", "lost", "mean", "chrF", "difference", "[95%", "interval]"]
    )
    assert table.splitlines()[1].split() == ["1-10", "1,200", "700", "200", "300", "+1.25", "[+1.00,", "+1.50]"]
    assert table.splitlines()[2].split()[0] == "all"


def compared(sentences: int, metric: SentenceMetric = "chrf") -> Compared:
    generator = np.random.default_rng(1)
    lengths = generator.integers(1, 60, sentences)
    differences = generator.normal(3, 20, sentences).clip(-100, 100)
    found = gains(np.zeros(sentences), differences, lengths, bins=[10, 20, 30, 40, 50], resamples=50)
    return Compared("$none$", "Bahdanau", metric, "nrefs:1|version:2", lengths, found)


@pytest.mark.parametrize("sentences", [1, 7, 800])
def test_the_figure_shows_every_sentence_and_every_count(sentences: int) -> None:
    what = compared(sentences)
    with style():
        figure = draw_gains(what, about=ABOUT)
        figure.draw_without_rendering()
    upper, lower = figure.axes
    points = np.asarray(upper.lines[0].get_ydata())
    np.testing.assert_array_equal(points, what.gains.differences)
    low, high = upper.get_ylim()
    assert low < min(0, points.min()) and high > max(0, points.max())
    heights = [patch.get_height() for container in lower.containers for patch in container]
    assert heights == [row.gained for row in what.gains.rows] + [-row.lost for row in what.gains.rows]
    assert upper.get_ylabel() == "Difference in chrF of a sentence"
    assert "nrefs:1|version:2" in figure.get_supxlabel() and f"All {sentences:,} sentences" in figure.get_supxlabel()
    [legend] = figure.legends
    assert legend.get_title().get_text() == "Bahdanau minus $none$"


def test_all_files_are_written(tmp_path: Path) -> None:
    paths = write_gains(compared(40, "bleu"), tmp_path / "gains", about=ABOUT, title="Title")
    assert [path.suffix for path in paths] == [".png", ".svg", ".json"]
    found = json.loads(paths[2].read_text("utf-8"))
    assert (found["metric"], len(found["differences"]), found["all"]["n"]) == ("BLEU", 40, 40)
    assert sum(row["n"] for row in found["by_length"]) == 40


def test_empty_gains_are_not_most() -> None:
    row = GainRow(1, 1, 1, 0, 0, 0.0, 0.0, 0.0)
    assert Gains(np.zeros(1), (row,), row).most(5) == ([], [])
