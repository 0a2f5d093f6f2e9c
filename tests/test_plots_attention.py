"""Heat maps of attention."""

from collections.abc import Sequence

import numpy as np
import pytest
from matplotlib.figure import Figure

from nmt.evaluation.alignment import LabelledWeights
from nmt.evaluation.figures.attention import draw_attention
from nmt.evaluation.figures.style import plain, png
from tests.figures import IGNORE_BOXES, NASTY, boxes, on_the_page


@IGNORE_BOXES
def test_attention_shows_each_weight_under_its_pieces() -> None:
    weights = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    figure = draw_attention(LabelledWeights(weights, ["▁a", "$b_", "</s>"], ["▁x", NASTY]))
    axes = figure.axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["▁a", "$b_", "</s>"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["▁x", plain(NASTY, 24)]
    assert {"Source pieces", "Target pieces", "Attention weight"} <= {text for text, _ in boxes(figure)}
    assert png(figure).startswith(b"\x89PNG")


def drawn(source: Sequence[str], target: Sequence[str], caption: Sequence[str] = ()) -> Figure:
    weights = np.random.default_rng(1).dirichlet(np.ones(len(source)), len(target))
    return draw_attention(LabelledWeights(weights, source, target), caption=caption)


@pytest.mark.parametrize(("source", "target"), [(12, 10), (1, 1), (3, 150), (150, 3)])
def test_cells_are_squares_and_nothing_is_cut_off(source: int, target: int) -> None:
    figure = drawn([f"word{k}" for k in range(source)], [f"Wort{k}" for k in range(target)], ["A caption. " * 20])
    on_the_page(figure)
    shown = figure.axes[0].bbox
    assert shown.width / source == pytest.approx(shown.height / target)
    assert max(figure.get_size_inches()) < 11


def test_a_source_from_right_to_left_runs_so() -> None:
    shown = drawn(["البدء", "خلق"], ["beginning", "created"]).axes[0]
    left, right = shown.get_xlim()
    assert left > right
    assert shown.get_xlabel() == "Source pieces, right to left"
    shown = drawn(["beginning", "created"], ["البدء", "خلق"]).axes[0]
    assert shown.get_xlim()[0] < shown.get_xlim()[1]


@IGNORE_BOXES
def test_east_asian_labels_stand_upright() -> None:
    figure = drawn(["▁", "我们", "。", "</s>"], ["x"])
    shown = figure.axes[0]
    labels = [(label.get_text(), label.get_rotation()) for label in shown.get_xticklabels()]
    assert labels == [("▁", 90), ("我\n们", 0), ("。", 0), ("</s>", 90)]
    png(figure)
