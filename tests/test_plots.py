"""Figures: whole files, nothing clipped or overlapping, any text, and no global state changed."""

import csv
import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from nmt.errors import DataError
from nmt.evaluation.by_length import COLUMNS, Bin, LengthRow, SystemScores
from nmt.evaluation.diagnosis import MEASURES, Diagnosis, shown
from nmt.evaluation.metrics import STATISTICS, Score
from nmt.evaluation.significance import Comparison
from nmt.evaluation.writing import BinnedBy
from nmt.plots.about import About, Origin
from nmt.plots.alignment import draw_error_rates
from nmt.plots.attention import AttentionMap, attention_image, draw_attention, write_attention
from nmt.plots.diagnosis import FIGURES, draw_diagnosis
from nmt.plots.files import stem_of
from nmt.plots.learning import Curve, Learning, draw_learning
from nmt.plots.length_curve import draw_length_curve, write_length_curve
from nmt.plots.style import looks, plain, png, series, style

SCORES = (Score("BLEU", 31.234, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"), Score("chrF", 55.5, "c"))
DECADES = [(1, 10), (11, 20), (21, 30), (31, 40), (41, 50), (51, 60), (61, 70), (71, 98)]
WORDS = BinnedBy("source", "words")
ABOUT = About("test_lenstrat", 1000, WORDS)
IGNORE_BOXES = pytest.mark.filterwarnings("ignore:no font for")
"""For tests whose characters may have no font on this machine."""
NASTY = "$x^2_{a$ & <b> \\frac \x00\n 漢字 🙂 \u202e%s"


def system(name: str, bins: Sequence[tuple[int, int]] = DECADES, best: float = 40.0, n: int = 400) -> SystemScores:
    rows = [
        LengthRow(name, low, high, n, best / (1 + k / 9), best / (1 + k / 9) - 2, best / (1 + k / 9) + 2, 0.98765432)
        for k, (low, high) in enumerate(bins)
    ]
    return SystemScores(name, SCORES, tuple(rows), np.zeros((1, 0, STATISTICS), np.int64))


def systems(count: int, bins: Sequence[tuple[int, int]] = DECADES) -> list[SystemScores]:
    return [system(f"RNNsearch-{k}0", bins, 50.0 - 7 * k) for k in range(count)]


def draw(several: Sequence[SystemScores], title: str | None = "A title", about: About = ABOUT) -> Figure:
    return draw_length_curve(several, about=about, title=title)


def boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every visible text of a figure, and the pixels it covers."""
    with style():
        figure.draw_without_rendering()
        beyond = {  # tick labels outside the limits: matplotlib keeps them, but does not draw them
            label
            for axes in figure.axes
            for axis in (axes.xaxis, axes.yaxis)
            for tick in axis.get_major_ticks()
            if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
            for label in (tick.label1, tick.label2)
        }
        texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text() and text not in beyond]
        return [(text.get_text(), text.get_window_extent()) for text in texts]


@pytest.mark.parametrize(
    "several",
    [
        systems(1),
        systems(2),
        systems(6),
        systems(3, [(k, k + 1) for k in range(1, 80, 2)]),
        systems(2, [(1, 3), (4, 5), (6, 70), (71, 412)]),
        systems(2, [(k, k) for k in range(1, 9)] + [(9, 900)]),
        systems(4, [(7, 7)]),
        [system("a rather long name of a system, longer than a line", n=1), system("b", n=1)],
        [system("no attention"), system("Bahdanau"), system("Luong")],
        [system("漢" * 50), system("W" * 50)],
    ],
    ids=["one", "two", "six", "narrow", "uneven", "outlier", "single bin", "long names", "demo", "wide names"],
)
def test_nothing_is_clipped_and_no_text_overlaps(several: list[SystemScores]) -> None:
    figure = draw(several)
    found = boxes(figure)
    whole = Bbox.from_extents(0, 0, figure.bbox.width, figure.bbox.height)
    for text, box in found:
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1, text
    for k, (one, box) in enumerate(found):
        for other, another in found[k + 1 :]:
            assert not box.overlaps(another), (one, other)
    [legend] = figure.legends
    with style():
        assert not legend.get_window_extent().overlaps(figure.axes[0].bbox)


def test_what_the_figure_says() -> None:
    texts = [text for text, _ in boxes(draw(systems(2)))]
    for text in ("BLEU (0 to 100)", "Source length (words)", "Sentences", "A title", "1–10", "71–98", "400"):
        assert text in texts
    assert "RNNsearch-00 (BLEU 31.2)" in texts
    [caption] = [text for text in texts if "sacreBLEU" in text]
    assert caption == (
        "test_lenstrat: 3,200 sentences.\nBands: 95% bootstrap intervals (1,000 resamples).\n"
        "sacreBLEU nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    )


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


def inside(figure: Figure) -> None:
    """Every marker lies between the ends of its axes; at the lower end it may stand out, unclipped."""
    with style():
        figure.draw_without_rendering()
    for axes in figure.axes:
        for line in axes.get_lines():
            if line.get_marker() not in ("None", ""):
                heights = axes.transData.transform(np.array(line.get_xydata(), np.float64))[:, 1]
                radius = line.get_markersize() / 2 * figure.dpi / 72
                assert np.nanmax(heights, initial=0) + radius <= axes.bbox.y1
                assert not line.get_clip_on() or np.nanmin(heights, initial=np.inf) - radius >= axes.bbox.y0


def test_no_marker_is_clipped() -> None:
    perfect = system("perfect", best=100.0)
    inside(draw([replace(perfect, seeds=((100.0,) * 8, (99.5,) * 8)), system("bad", best=0.0)]))
    worst = reasons("a", DECADES)
    means = np.tile([[0.0], [1.0]], (4, len(MEASURES)))
    for name, values in (("recall", means), ("attention", 0.25 + 0.02 * means), ("failures", 0 * means)):
        inside(
            draw_diagnosis([replace(worst, means=values, lows=values, highs=values)], name, about=ABOUT, unit="words")
        )


FEW = [400, 300, 200, 100, 50, 29, 30, 2]
"""Sentences of the decades; the sixth and the last bin have too few."""


def with_few(each: SystemScores) -> SystemScores:
    rows = [replace(row, n=n) for row, n in zip(each.rows, FEW, strict=True)]
    rows[-1] = replace(rows[-1], bleu=60.0, bleu_low=5.0, bleu_high=98.0)
    return replace(each, rows=tuple(rows))


def test_bins_of_few_sentences_are_hollow() -> None:
    figure = draw([with_few(each) for each in systems(2)])
    upper, middle, _ = figure.axes
    for axes in (upper, middle):
        hollow = [line for line in axes.get_lines() if line.get_markerfacecolor() == "white"]
        joined = [line for line in axes.get_lines() if len(np.asarray(line.get_xdata())) == 8]
        assert [line.get_color() for line in hollow] == [line.get_color() for line in joined]
        for points, line in zip(hollow, joined, strict=True):
            assert points.get_linestyle() == "None" and points.get_markeredgecolor() == points.get_color()
            assert np.asarray(points.get_xdata()).tolist() == [55.5, centre_of_last(figure)]
            assert np.isnan(np.asarray(line.get_ydata(), np.float64)).tolist() == [n < 30 for n in FEW]
    for band in upper.collections:
        assert band.get_datalim(upper.transData).y1 < 60, "neither a band nor an upright line where few are"
    assert 60 < upper.get_ylim()[1] < 70, "the point counts, its interval does not"
    [caption] = [text for text, _ in boxes(figure) if "sacreBLEU" in text]
    assert "Hollow points: fewer than 30 sentences, no interval." in caption
    figure = draw([with_few(each) for each in systems(2)], about=replace(ABOUT, min_sentences=2))
    assert not any(line.get_markerfacecolor() == "white" for axes in figure.axes for line in axes.get_lines())
    assert not any("Hollow" in text for text, _ in boxes(figure))


def centre_of_last(figure: Figure) -> float:
    bar = figure.axes[-1].patches[-1]
    return float(bar.get_x() + bar.get_width() / 2)  # type: ignore[attr-defined]


def test_a_narrow_bin_leaves_the_others_their_counts() -> None:
    figure = draw([system("a", [(1, 10), (11, 20), (21, 21)])])
    assert [text.get_text() for text in figure.axes[-1].texts] == ["400", "400", ""]


def test_the_table_keeps_what_is_drawn_hollow(tmp_path: Path) -> None:
    paths = write_length_curve([with_few(system("a"))], tmp_path / "x", about=ABOUT)
    last = paths[3].read_text("utf-8").splitlines()[-1]
    assert last == "a,71,98,2,60.0,5.0,98.0,0.9877"


def test_all_bins_may_be_hollow() -> None:
    figure = draw([system("a", n=3), system("b", DECADES, n=3)])
    assert len([line for line in figure.axes[0].get_lines() if line.get_markerfacecolor() == "white"]) == 2


def test_reasons_of_few_sentences_are_hollow() -> None:
    few = replace(
        reasons("a", DECADES),
        bins=tuple(Bin(low, high, np.arange(n)) for (low, high), n in zip(DECADES, FEW, strict=True)),
    )
    figure = draw_diagnosis([few], "recall", about=ABOUT, unit="words")
    for axes in figure.axes[:3]:
        hollow, joined = axes.get_lines()
        assert hollow.get_markerfacecolor() == "white" and len(np.asarray(hollow.get_xdata())) == 2
        assert np.isnan(np.asarray(joined.get_ydata(), np.float64)).tolist() == [n < 30 for n in FEW]
    assert any("Hollow points: fewer than 30" in text for text, _ in boxes(figure))


def test_a_system_looks_the_same_in_every_figure() -> None:
    several = [reasons("none", DECADES, attention=False), reasons("Bahdanau", DECADES), reasons("Luong", DECADES)]
    for name in FIGURES:
        figure = draw_diagnosis(several, name, about=ABOUT, unit="words")
        [legend] = figure.legends
        for line, text in zip(legend.get_lines(), legend.get_texts(), strict=True):
            look = looks(["none", "Bahdanau", "Luong"])[text.get_text()]
            assert (line.get_color(), line.get_marker()) == (look["color"], look["marker"])
    assert looks(["a", "b", "a"]) == {"a": series(0), "b": series(1)}


def test_the_caption_tells_what_is_known_of_the_runs() -> None:
    run = Origin("en", "fr", 5, 1.0, 20000)
    about = replace(ABOUT, origins={"a": [run, run], "b": [run]})
    assert about.caption([40, 60])[0] == (
        "test_lenstrat: 100 sentences. From en to fr. Search: beam 5, length penalty 1. Updates: 20,000."
    )
    about = replace(ABOUT, origins={"a": [run, replace(run, updates=500)], "b": [replace(run, beam_size=12)], "c": []})
    assert about.caption([100])[0].endswith(
        "From en to fr (a, b). Search: beam 5, length penalty 1 (a); beam 12, length penalty 1 (b). "
        "Updates: 20,000 and 500 (a); 20,000 (b)."
    )
    about = replace(ABOUT, origins={"a": [replace(run, updates=None)], "b": [run]})
    assert about.caption([100])[0].endswith("length penalty 1. Updates: 20,000 (b).")
    about = replace(ABOUT, origins={"a": [replace(run, search_options="coverage penalty 0.2")]})
    assert "Search: beam 5, length penalty 1, coverage penalty 0.2. Updates" in about.caption([100])[0]
    assert replace(ABOUT, origins={"a": [], "b": []}).caption([100])[0] == "test_lenstrat: 100 sentences."
    several = [replace(each, name=f"{each.name} {'W' * 20}") for each in systems(6)]
    origins = {each.name: [replace(run, updates=10 ** (k + 1))] for k, each in enumerate(several)}
    figure = draw(several, about=replace(ABOUT, origins=origins))
    for text, box in boxes(figure):
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, text


def test_the_axis_says_what_is_counted() -> None:
    about = replace(ABOUT, binned_by=BinnedBy("source", "characters"))
    assert "Source length (characters)" in [text for text, _ in boxes(draw(systems(1), about=about))]
    texts = [
        text for text, _ in boxes(draw_diagnosis([reasons("a", DECADES)], "failures", about=about, unit="characters"))
    ]
    assert {"Source length (characters)", "The same four characters 3 times"} <= set(texts)


@pytest.mark.parametrize("ending", ["", ".png", ".svg", ".json", ".csv", ".PNG"])
def test_the_name_of_one_file_names_them_all(ending: str) -> None:
    assert stem_of(f"out/curve.v2{ending}") == "out/curve.v2"


def test_every_seed_is_drawn_beside_their_mean() -> None:
    one, other = systems(2)
    seeds = tuple(tuple(row.bleu + change for row in one.rows) for change in (-1.0, 12.0))
    figure = draw([replace(one, seeds=seeds), other])
    drawn = [np.asarray(line.get_ydata()).tolist() for line in figure.axes[0].get_lines()]
    assert drawn == [list(seeds[0]), list(seeds[1]), [row.bleu for row in one.rows], [row.bleu for row in other.rows]]
    assert figure.axes[0].get_ylim()[1] > max(seeds[1])
    assert any("thin lines: each seed" in text for text, _ in boxes(figure))
    assert not any("thin lines" in text for text, _ in boxes(draw([one, other])))


def test_colors_markers_and_lines_differ() -> None:
    looks = [series(number) for number in range(28)]
    assert len({str(look) for look in looks}) == 28
    for one, other in pairwise(looks):
        assert all(one[key] != other[key] for key in ("color", "marker", "linestyle"))


def test_the_four_files(tmp_path: Path) -> None:
    stem = tmp_path / "new" / "folder" / "curve.v2"
    compared = Comparison("RNNsearch-00", "RNNsearch-10", 1, 10, 400, 1.5, 0.25)
    paths = write_length_curve(systems(2), stem, about=ABOUT, comparisons=[compared])
    assert [path.name for path in paths] == ["curve.v2.png", "curve.v2.svg", "curve.v2.json", "curve.v2.csv"]
    assert sorted(stem.parent.iterdir()) == sorted(paths)

    width, height = struct.unpack(">II", paths[0].read_bytes()[16:24])
    assert (width, height) == (1500, 1360)
    assert paths[1].read_text("utf-8").startswith("<?xml")

    assert (
        paths[3].read_bytes().startswith(b"system,low,high,n,bleu,bleu_low,bleu_high,length_ratio\nRNNsearch-00,1,10,")
    )
    with paths[3].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    assert list(rows[9].values()) == ["RNNsearch-10", "11", "20", "400", "38.7", "36.7", "40.7", "0.9877"]

    numbers = json.loads(paths[2].read_text("utf-8"))
    assert numbers["binned_by"] == "whitespace words of the raw source line"
    assert (numbers["test_set"], numbers["sentences"]) == ("test_lenstrat", 3200)
    assert numbers["signature"] == SCORES[0].signature
    assert numbers["interval"] == {"level": 0.95, "method": "percentile bootstrap", "resamples": 1000, "seed": 1}
    assert numbers["comparisons"] == [asdict(compared)]
    assert numbers["systems"]["RNNsearch-10"]["chrF"] == {"score": 55.5, "signature": "c"}
    assert tuple(numbers["systems"]["RNNsearch-00"]["by_length"][0]) == COLUMNS


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (
        [path.read_bytes() for path in write_length_curve(systems(2), tmp_path / name, about=ABOUT)]
        for name in ("a", "b")
    )
    assert first == second
    assert b"<dc:date>" not in first[1]


def test_files_that_cannot_be_written_are_named_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "curve.json").mkdir()
    with pytest.raises(DataError, match=r"curve\.json: cannot be written: Is a directory"):
        write_length_curve(systems(1), tmp_path / "curve", about=ABOUT)
    assert not [path.name for path in tmp_path.iterdir() if path.name.endswith(".new")]
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"file: the directory cannot be created: File exists"):
        write_length_curve(systems(1), tmp_path / "file" / "curve", about=ABOUT)


@IGNORE_BOXES
def test_any_text_is_shown_as_it_is(tmp_path: Path) -> None:
    several = [system(NASTY), system("_hidden"), system("$")]
    texts = [text for text, _ in boxes(draw(several, title=NASTY))]
    for name in ("$x^2_{a$ & <b> \\frac ·· 漢字 🙂 ·%s", "_hidden", "$"):
        assert f"{name} (BLEU 31.2)" in texts
    write_length_curve(several, tmp_path / "x", about=About(NASTY, 10, WORDS), title=NASTY)


def test_plain() -> None:
    assert plain("a\tb\u2028c\ud800", 10) == "a·b·c·"
    assert plain("abcdefgh", 5) == "abcd…"
    assert plain("abcde", 5) == "abcde"


@IGNORE_BOXES
def test_attention_shows_each_weight_under_its_pieces() -> None:
    weights = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    figure = draw_attention([AttentionMap(weights, ["▁a", "$b_", "</s>"], ["▁x", NASTY])])
    axes = figure.axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["▁a", "$b_", "</s>"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["▁x", plain(NASTY, 24)]
    assert {"Source pieces", "Target pieces", "Attention weight"} <= {text for text, _ in boxes(figure)}
    assert png(figure).startswith(b"\x89PNG")


def test_attention_as_pixels() -> None:
    pixels = attention_image(np.array([[1.0, 0.0]]), ["▁a", "</s>"], ["▁x"])
    assert pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3
    assert (pixels == 0).all(axis=2).sum() > 100  # a black cell: weight 1
    assert (pixels[0] == 255).all()


@pytest.mark.parametrize("size", [1, 130])
def test_attention_of_any_length_stays_an_image(size: int) -> None:
    pixels = attention_image(np.full((size, size), 1 / size), ["▁piece"] * size, ["▁x"] * size)
    assert max(pixels.shape) < 1600


@pytest.mark.parametrize("shape", [(2, 3), (0, 2)])
def test_attention_must_fit_its_pieces(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="for 2 target and 2 source pieces"):
        AttentionMap(np.zeros(shape), ["a", "b"], ["c", "d"])


def maps(
    count: int, source: Sequence[str] = tuple("abcdef"), target: Sequence[str] = tuple("xyz")
) -> list[AttentionMap]:
    weights = np.random.default_rng(1).dirichlet(np.ones(len(source)), len(target))
    return [AttentionMap(weights, source, target, f"system {k}", "layer 1 of 2") for k in range(count)]


def heat_maps(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.images]


@pytest.mark.parametrize(("count", "source", "target"), [(1, 6, 3), (5, 12, 10), (9, 1, 1), (2, 60, 58), (2, 3, 150)])
def test_systems_stand_side_by_side(count: int, source: int, target: int) -> None:
    """In rows, from left to right, without overlaps, each cell a square of the same size; nothing is cut off."""
    drawn = maps(count, [f"word{k}" for k in range(source)], [f"Wort{k}" for k in range(target)])
    with style():
        figure = draw_attention(drawn, title="Title", caption=["A caption. " * 20])
        figure.draw_without_rendering()
        whole = [axes.get_tightbbox() for axes in heat_maps(figure)]
    assert len(whole) == count
    width, height = figure.bbox.width, figure.bbox.height
    for box in whole:
        assert box is not None and box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height
    assert not any(Bbox.intersection(one, other) for k, one in enumerate(whole) for other in whole[:k] if one and other)
    order = [(-round(axes.get_position().y1, 3), axes.get_position().x0) for axes in heat_maps(figure)]
    assert order == sorted(order)
    cells = {
        round(side, 3)
        for axes in heat_maps(figure)
        for side in (axes.bbox.width / source / figure.dpi, axes.bbox.height / target / figure.dpi)
    }
    assert len(cells) == 1
    assert figure.get_size_inches()[0] < 11


def test_labels_of_neighbors_do_not_touch() -> None:
    [shown] = heat_maps(draw_attention(maps(1, ["word"] * 90, ["Wort"] * 90)))
    with style():
        boxes = [label.get_window_extent() for label in shown.get_yticklabels()]
    assert all(lower.y1 <= upper.y0 + 1 for upper, lower in pairwise(boxes))


def test_a_source_from_right_to_left_runs_so() -> None:
    [shown] = heat_maps(draw_attention(maps(1, ["البدء", "خلق"], ["beginning", "created"])))
    left, right = shown.get_xlim()
    assert left > right
    assert "Source pieces, right to left" in [each.get_text() for each in shown.texts]
    [shown] = heat_maps(draw_attention(maps(1, ["beginning", "created"], ["البدء", "خلق"])))
    assert shown.get_xlim()[0] < shown.get_xlim()[1]


@IGNORE_BOXES
def test_east_asian_labels_stand_upright() -> None:
    figure = draw_attention(maps(1, ["▁", "我们", "。", "</s>"], ["x"]))
    [shown] = heat_maps(figure)
    labels = [(label.get_text(), label.get_rotation()) for label in shown.get_xticklabels()]
    assert labels == [("▁", 90), ("我\n们", 0), ("。", 0), ("</s>", 90)]
    png(figure)


def test_attention_is_written_with_its_numbers(tmp_path: Path) -> None:
    paths = write_attention(maps(2), tmp_path / "a", facts={"source": "a b c"})
    assert [path.suffix for path in paths] == [".png", ".svg", ".json"]
    found = json.loads(paths[2].read_text("utf-8"))
    assert found["source"] == "a b c" and [each["system"] for each in found["systems"]] == ["system 0", "system 1"]
    np.testing.assert_allclose(found["systems"][0]["weights"], maps(1)[0].weights, atol=1e-4)


# --- learning curves --------------------------------------------------------------------------------------------------


def learning(name: str, points: int = 5, hours: bool = True, bleu: bool = True) -> Learning:
    updates = np.arange(1, points + 1).astype(np.float64) * 100
    at = updates / 50 if hours else None
    curves = {
        "loss": Curve(updates, at, np.log(updates)),
        "perplexity": Curve(updates, at, 900 / np.sqrt(updates)),
        "bleu": Curve(updates, at, 40 - np.abs(updates / 100 - points / 2)),
    }
    return Learning(name, curves if bleu else {"loss": curves["loss"]})


@pytest.mark.parametrize(("count", "points"), [(1, 1), (5, 30), (9, 400)])
def test_learning_curves_show_every_point_by_update_and_hour(count: int, points: int) -> None:
    runs = [learning(f"$run {k}", points) for k in range(count)]
    figure = draw_learning(runs, title="Title", caption=["A caption."])
    with style():
        figure.draw_without_rendering()
    panels = np.array(figure.axes).reshape(3, 2)
    for row, measure in zip(panels, ("loss", "perplexity", "bleu"), strict=True):
        for axes, places in zip(row, ("updates", "hours"), strict=True):
            lines = [line for line in axes.get_lines() if line.get_linestyle() != "None"]
            for line, run in zip(lines, runs, strict=True):
                np.testing.assert_array_equal(line.get_xdata(), getattr(run.curves[measure], places))
                np.testing.assert_array_equal(line.get_ydata(), run.curves[measure].values)
    rings = [line for line in panels[2, 0].get_lines() if line.get_linestyle() == "None"]
    assert [float(ring.get_ydata()[0]) for ring in rings] == [run.curves["bleu"].values.max() for run in runs]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [run.label for run in runs]


def test_learning_curves_without_hours_or_bleu() -> None:
    assert len(draw_learning([learning("a", hours=False)]).axes) == 3
    mixed = draw_learning([learning("a", hours=False, bleu=False), learning("b")])
    assert [len(axes.get_lines()) for axes in mixed.axes] == [2, 1, 1, 1, 2, 2]
    assert learning("a", bleu=False).label == "a" and learning("b").label == "b (best BLEU 39.5)"


def test_matplotlib_is_left_as_it_was() -> None:
    before = dict(matplotlib.rcParams)
    png(draw(systems(1)))
    assert dict(matplotlib.rcParams) == before


# --- the reasons, and alignment ---------------------------------------------------------------------------------------


def reasons(name: str, bins: Sequence[tuple[int, int]], attention: bool = True) -> Diagnosis:
    means = np.linspace(0.1, 0.9, len(bins) * len(MEASURES)).reshape(len(bins), -1)
    for measure in ("entropy", "distance_from_diagonal") if not attention else ():
        means[:, MEASURES.index(measure)] = np.nan
    each = tuple(Bin(low, high, np.arange(40)) for low, high in bins)
    return Diagnosis(name, each, means, means - 0.05, means + 0.05)


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("bins", [DECADES, DECADES[:1]], ids=["decades", "one bin"])
def test_the_reasons_are_drawn_where_they_belong(name: str, bins: Sequence[tuple[int, int]]) -> None:
    several = [reasons("RNNencdec-50", bins, attention=False), reasons("RNNsearch-50", bins)]
    figure = draw_diagnosis(several, name, about=ABOUT, unit="words")
    _, measures = FIGURES[name]
    panels, bars = figure.axes[: len(measures)], figure.axes[len(measures) :]
    assert [axes.get_title() for axes in panels] == [heading.format(unit="words") for heading in measures.values()]
    for axes, measure in zip(panels, measures, strict=True):
        drawn = several if name != "attention" else several[1:]
        lines = [line.get_ydata() for line in axes.get_lines()]
        np.testing.assert_equal(lines, [each.means[:, MEASURES.index(measure)] * shown(measure) for each in drawn])
        assert len(axes.collections) == len(drawn) * (2 if len(bins) == 1 else 1), "a band, and alone an upright line"
    for axes in bars:
        assert [bar.get_height() for bar in axes.patches] == [40] * len(bins)  # type: ignore[attr-defined]
    whole = figure.bbox
    for text, box in boxes(figure):
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1, text


def test_error_rates_are_drawn_against_their_thresholds() -> None:
    rows = [{"threshold": k / 10, "error_rate": 1 / k} for k in range(1, 10)]
    report: dict[str, Any] = {"thresholds": rows, "likeliest": {"error_rate": 0.4}, "diagonal": {"error_rate": 0.6}}
    report |= {"gold": {"pairs": 447, "sure": 4038, "possible": 17438}}
    figure = draw_error_rates({"a": report, NASTY: report}, test_set="Hansards")
    [axes] = figure.axes
    curves = [line for line in axes.get_lines() if len(line.get_xdata()) == 9]  # type: ignore[arg-type]
    for line in curves:
        drawn = np.array([line.get_xdata(), line.get_ydata()], np.float64)
        np.testing.assert_allclose(drawn, np.transpose([list(row.values()) for row in rows]))
    assert len(curves) == 2 and len(axes.get_lines()) == 2 + 2 + 1
    texts = {text for text, _ in boxes(figure)}
    assert {"a", "diagonal"} <= texts
    assert any(text.startswith("Hansards: 447 pairs, 17,438 links, 4,038 of them sure.") for text in texts)
    inside(figure)
