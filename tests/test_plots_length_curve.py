"""The length curve: nothing clipped or overlapping, every number in its place, weak evidence hollow."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nmt.evaluation.by_length import UNTRAINED, SystemScores
from nmt.evaluation.figures.style import style
from tests.figures import ABOUT, FEW, boxes, draw, inside, on_the_page, system, systems, with_few


@pytest.mark.parametrize(
    "several",
    [
        systems(6),
        systems(3, [(k, k + 1) for k in range(1, 80, 2)]),
        systems(2, [(k, k) for k in range(1, 9)] + [(9, 900)]),
        systems(4, [(7, 7)]),
        [system("漢" * 50), system("W" * 50)],
    ],
    ids=["six", "narrow", "outlier", "single bin", "wide names"],
)
def test_nothing_is_clipped_and_no_text_overlaps(several: Sequence[SystemScores]) -> None:
    figure = draw(several)
    found = on_the_page(figure)
    for k, (one, box) in enumerate(found):
        for other, another in found[k + 1 :]:
            assert not box.overlaps(another), (one, other)
    [legend] = figure.legends
    with style():
        assert not legend.get_window_extent().overlaps(figure.axes[0].bbox)


def test_what_the_figure_says() -> None:
    texts = [text for text, _ in boxes(draw(systems(2)))]
    for text in ("BLEU (0 to 100)", "Source length (words)", "Sentences", "1–10", "71–98", "400"):
        assert text in texts
    assert "RNNsearch-00 (BLEU 31.2)" in texts
    [caption] = [text for text in texts if "sacreBLEU" in text]
    assert caption == (
        "test_lenstrat: 3,200 sentences.\nBands: 95% bootstrap intervals over sentences, not seeds (1,000 resamples).\n"
        "sacreBLEU nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    )
    for n, shown in ((30, "Upright lines: 95%"), (29, "Hollow points")):
        [caption] = [text for text, _ in boxes(draw([system("a", [(7, 7)], n=n)])) if "sacreBLEU" in text]
        assert shown in caption and caption.count("\n") == 2 and ("95%" in caption) == (n == 30)
    about = replace(ABOUT, unit="characters")
    assert "Source length (characters)" in [text for text, _ in boxes(draw(systems(1), about=about))]


def test_the_curve_goes_through_the_numbers() -> None:
    several = systems(2)
    upper, middle, lower = draw(several).axes
    for line, each in zip(upper.get_lines(), several, strict=True):
        assert np.asarray(line.get_ydata()).tolist() == [row.bleu for row in each.rows]
        assert np.asarray(line.get_xdata()).tolist()[:3] == [5.5, 15.5, 25.5]
    one, *ratios = middle.get_lines()
    assert np.asarray(one.get_ydata()).tolist() == [1, 1]
    for line, each in zip(ratios, several, strict=True):
        assert np.asarray(line.get_ydata()).tolist() == [row.length_ratio for row in each.rows]
    low, high = middle.get_ylim()
    assert all(low < row.length_ratio < high for each in several for row in each.rows)
    heights = [bar.get_window_extent().height / lower.bbox.height for bar in lower.patches]
    assert heights == pytest.approx([1 / 1.4] * 8)
    assert upper.get_ylim()[0] == 0


def test_no_marker_is_clipped() -> None:
    inside(draw([replace(system("perfect", best=100.0), seeds=((100.0,) * 8, (99.5,) * 8)), system("bad", best=0.0)]))


def test_untrained_systems_look_equally_bad() -> None:
    assert draw([system("bad", best=0.5), system("worse", best=0.1)]).axes[0].get_ylim() == (0, 10)


def test_bins_of_few_sentences_are_hollow() -> None:
    figure = draw([with_few(each) for each in systems(2)])
    upper, middle, lower = figure.axes
    last: Any = lower.patches[-1]
    for axes in (upper, middle):
        hollow = [line for line in axes.get_lines() if line.get_markerfacecolor() == "white"]
        joined = [line for line in axes.get_lines() if len(np.asarray(line.get_xdata())) == 8]
        assert [line.get_color() for line in hollow] == [line.get_color() for line in joined]
        for points, line in zip(hollow, joined, strict=True):
            assert points.get_linestyle() == "None" and points.get_markeredgecolor() == points.get_color()
            assert np.asarray(points.get_xdata()).tolist() == [55.5, last.get_x() + last.get_width() / 2]
            assert np.isnan(np.asarray(line.get_ydata(), np.float64)).tolist() == [n < 30 for n in FEW]
    for band in upper.collections:
        assert band.get_datalim(upper.transData).y1 < 60, "neither a band nor an upright line where few are"
    assert 60 < upper.get_ylim()[1] < 70, "the point counts, its interval does not"
    [caption] = [text for text, _ in boxes(figure) if "sacreBLEU" in text]
    assert "Hollow points: fewer than 30 sentences, no interval." in caption


def test_the_caption_names_systems_that_are_not_trained_enough() -> None:
    texts = [text for text, _ in boxes(draw([system("good"), system("bad")], about=replace(ABOUT, untrained=["bad"])))]
    assert f"bad: {UNTRAINED}." in " ".join(" ".join(texts).split())


def test_every_seed_is_drawn_beside_their_mean() -> None:
    one, other = systems(2)
    seeds = tuple(tuple(row.bleu + change for row in one.rows) for change in (-1.0, 12.0))
    figure = draw([replace(one, seeds=seeds), other])
    drawn = [np.asarray(line.get_ydata()).tolist() for line in figure.axes[0].get_lines()]
    assert drawn == [list(seeds[0]), list(seeds[1]), [row.bleu for row in one.rows], [row.bleu for row in other.rows]]
    assert figure.axes[0].get_ylim()[1] > max(seeds[1])
    assert any("thin lines: each seed" in text for text, _ in boxes(figure))
    assert not any("thin lines" in text for text, _ in boxes(draw([one, other])))
