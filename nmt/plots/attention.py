"""Heat maps of attention."""

import io
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from nmt.plots.style import plain, png, style

CELL = 0.24
"""Inches per piece."""
MOST_LABELS = 60
"""Maximum number of labels on a side; a longer sentence has smaller cells, and only some of its pieces a label."""
LONGEST_LABEL = 24
IMAGE_DPI = 80


def draw_attention(
    weights: npt.NDArray[np.floating], source_pieces: Sequence[str], target_pieces: Sequence[str]
) -> Figure:
    """Draw the weights, (T, S) in [0, 1], as a heat map: source pieces along the top, target pieces down the side."""
    expected = len(target_pieces), len(source_pieces)
    if weights.shape != expected or not weights.size:
        raise ValueError(f"attention of shape {weights.shape} for {expected[0]} target and {expected[1]} source pieces")
    cell = CELL * min(1.0, MOST_LABELS / max(expected))
    with style():
        figure = Figure(figsize=(2.6 + cell * expected[1], 1.6 + cell * expected[0]), layout="constrained")
        axes = figure.add_subplot()
        image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
        axes.grid(False)
        axes.spines[:].set_visible(True)
        axes.xaxis.set_ticks_position("top")
        axes.xaxis.set_label_position("top")
        _label(axes, "x", source_pieces, "Source pieces", rotation=90)
        _label(axes, "y", target_pieces, "Target pieces", rotation=0)
        bar = figure.colorbar(image, ax=axes, fraction=0.08, pad=0.02, aspect=30)
        bar.set_label("Attention weight")
        bar.outline.set_visible(False)
    return figure


def attention_image(
    weights: npt.NDArray[np.floating], source_pieces: Sequence[str], target_pieces: Sequence[str]
) -> npt.NDArray[np.uint8]:
    """Render :func:`draw_attention` as RGB pixels, (height, width, 3)."""
    image = png(draw_attention(weights, source_pieces, target_pieces), IMAGE_DPI)
    shares = imread(io.BytesIO(image), format="png")[..., :3]
    return np.round(shares * 255).astype(np.uint8)


def _label(axes: Axes, side: str, pieces: Sequence[str], name: str, rotation: float) -> None:
    places = range(0, len(pieces), -(-len(pieces) // MOST_LABELS))
    axes.set(**{f"{side}label": name})
    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_ticks(
        places, labels=[plain(pieces[place], LONGEST_LABEL) for place in places], rotation=rotation, fontsize=9
    )
    axis.set_tick_params(length=0)
