"""A translation as HTML, for notebooks: text, and the heat map of the attention as a table; all text is escaped."""

from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

MOST_CELLS = 4096
"""Cells of a heat map; a larger one would slow down the notebook that holds it."""
DARK = 0.55
"""Weight from which a cell is so dark that it needs light text."""


def translation_html(
    source: str,
    translations: Sequence[tuple[float, str]],
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    attention: npt.NDArray[np.float32] | None,
) -> str:
    """Return a source line, its translations with their scores, and the attention of the first.

    Args:
        source: the line.
        translations: scores and texts, best first.
        source_pieces: S pieces.
        target_pieces: T pieces of the first translation.
        attention: (T, S), or None for no heat map.
    """
    rows = "".join(f"<tr><td>{score:.4f}</td><td>{escape(text)}</td></tr>" for score, text in translations)
    texts = f"<p>{escape(source)}</p><table><tr><th>score</th><th>translation</th></tr>{rows}</table>"
    if attention is None or not attention.size:
        return texts
    if attention.size > MOST_CELLS:
        size = "&times;".join(map(str, attention.shape))
        return f"{texts}<p>attention: {size} weights, too many for a table</p>"
    return texts + heat_map(source_pieces, target_pieces, attention)


def heat_map(source_pieces: Sequence[str], target_pieces: Sequence[str], attention: npt.NDArray[np.float32]) -> str:
    """Return a table: a row for each of T target pieces, a column for each of S source pieces, weights (T, S) as grey.

    A cell says its weight when the pointer rests on it.
    """
    head = "".join(f'<th scope="col">{escape(piece)}</th>' for piece in source_pieces)
    rows = [
        f'<tr><th scope="row">{escape(piece)}</th>{"".join(map(_cell, weights))}</tr>'
        for piece, weights in zip(target_pieces, attention.tolist(), strict=True)
    ]
    caption = "<caption>attention: rows write, columns are read</caption>"
    look = 'style="border-collapse:collapse;text-align:center"'
    return f"<table {look}>{caption}<tr><td></td>{head}</tr>{''.join(rows)}</table>"


def _cell(weight: float) -> str:
    level = round(255 * (1 - min(max(weight, 0.0), 1.0)))
    color = "white" if weight > DARK else "black"
    shown = f"{weight:.2f}".removeprefix("0")
    style = f"background:rgb({level},{level},{level});color:{color}"
    return f'<td title="{weight:.4f}" style="{style}">{shown}</td>'
