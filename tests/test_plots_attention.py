"""Heat maps of attention."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from nmt.plots.attention import AttentionMap, attention_image, draw_attention, write_attention
from nmt.plots.style import plain, png, style
from tests.figures import IGNORE_BOXES, NASTY, boxes


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


@pytest.mark.parametrize(("count", "source", "target"), [(5, 12, 10), (9, 1, 1), (2, 3, 150)])
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
    assert shown.get_xlabel() == "Source pieces, right to left"
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
