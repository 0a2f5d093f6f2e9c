"""The length curve of one validation, as a small picture."""

import io
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.image import imread

from nmt.evaluation.by_length import MIN_SENTENCES, LengthRow
from nmt.plots.bins import centers, draw_counts, draw_points, label_lengths, spans_of
from nmt.plots.style import png, series, style

DPI = 80


def bleu_by_length_image(rows: Sequence[LengthRow], axis: str, title: str) -> npt.NDArray[np.uint8]:
    """Render :func:`draw_bleu_by_length`: RGB pixels, (height, width, 3)."""
    shares = imread(io.BytesIO(png(draw_bleu_by_length(rows, axis, title), DPI)), format="png")[..., :3]
    return np.round(shares * 255).astype(np.uint8)


def draw_bleu_by_length(rows: Sequence[LengthRow], axis: str, title: str) -> Figure:
    """Draw BLEU in each bin of lengths, and the number of sentences; bins of few sentences as in every figure.

    The axis of BLEU always goes from 0 to 100, so that the pictures of several validations compare.
    """
    bins, counts = [(row.low, row.high) for row in rows], [row.n for row in rows]
    spans, solid = spans_of(bins), np.array(counts) >= MIN_SENTENCES
    note = "" if solid.all() else f"\nHollow points: fewer than {MIN_SENTENCES} sentences"
    with style():
        figure = Figure(figsize=(6, 4))
        figure.subplots_adjust(left=0.12, right=0.97, top=0.92, bottom=0.18 if note else 0.14, hspace=0.08)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        bleu = np.array([row.bleu for row in rows])
        draw_points(upper, centers(spans, 0, 1), bleu, solid, series(0))
        upper.set(ylabel="BLEU (0 to 100)", ylim=(0, 100), title=title)
        upper.tick_params(labelbottom=False, length=0)
        draw_counts(lower, counts, spans)
        label_lengths(lower, bins, spans, axis + note)
    return figure
