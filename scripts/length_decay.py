"""Draw the length curves of docs/length-decay.md and docs/results.md again, from their numbers in docs/figures.

Color says which attention a system has, the line how long its training sentences are, in both figures.
"""

import csv
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from nmt.cli.command import Command
from nmt.evaluation.by_length import MIN_SENTENCES
from nmt.evaluation.figures.length_curve import centers, draw_counts, draw_points, label_lengths, spans_of
from nmt.evaluation.figures.style import COLORS, GREY, LINES, png, style, write_caption
from nmt.files import write_bytes

FIGURES = Path(__file__).parent.parent / "docs/figures"
LOOKS = {
    "rnnencdec": (COLORS[1], "s"),
    "rnnsearch": (COLORS[3], "D"),
    "luong": (COLORS[4], "v"),
    "transformer": (COLORS[5], "<"),
    "ssru": (COLORS[2], "^"),
    "sutskever": (COLORS[6], "o"),
}
"""Color and marker of the systems that share an attention and a network."""
LENGTHS = {"50": LINES[0], "30": LINES[2]}
"""Line of the systems trained on sentences of up to so many words."""
CURVES = {
    "length_decay_test_lenstrat": ["length_decay_test_lenstrat"],
    "length_decay_family": ["length_decay_test_lenstrat", "length_decay_family"],
}
"""The files of numbers of each figure; where there are several, only of systems trained on the longer sentences."""


def draw(rows: list[dict[str, str]]) -> bytes:
    """Draw BLEU and length ratio of each system by bin."""
    systems = {name: list(each) for name, each in groupby(rows, lambda row: row["system"])}
    bins = next(iter(systems.values()))
    lengths, counts = [(int(row["low"]), int(row["high"])) for row in bins], [int(row["n"]) for row in bins]
    spans, solid = spans_of(lengths), np.array(counts) >= MIN_SENTENCES
    with style():
        figure = Figure(figsize=(7.5, 6.8), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
        upper, middle, lower = figure.subplots(3, 1, sharex=True, height_ratios=(4, 1.3, 1))
        ends = {name.rpartition("-")[2] for name in systems}
        for end in ends:
            for axes in (upper, middle):
                axes.axvline(float(end) + 0.5, color=GREY, linewidth=0.8)
        for number, (name, each) in enumerate(systems.items()):
            kind, _, longest = name.rpartition("-")
            look: dict[str, Any] = {"linestyle": LENGTHS[longest]}
            look["color"], look["marker"] = LOOKS[kind]
            places = centers(spans, number, len(systems))
            columns = ("bleu", "bleu_low", "bleu_high", "length_ratio")
            bleu, low, high, ratio = (np.array([float(row[column]) for row in each]) for column in columns)
            draw_points(upper, places, bleu, solid, look, (low, high))
            draw_points(middle, places, ratio, solid, look | {"markersize": 4})
            last = places[-1], bleu[-1]
            upper.annotate(name, last, (7, -3), textcoords="offset points", color=look["color"], fontsize=9)
        upper.set(ylabel="BLEU (0 to 100)", ylim=(0, None))
        middle.set(ylabel="Length ratio")
        for axes in (upper, middle):
            axes.tick_params(labelbottom=False, length=0)
        draw_counts(lower, counts, spans)
        label_lengths(lower, lengths, spans, "words")
        figure.align_ylabels()
        trained = "30 words (dotted systems) or 50 (solid)" if len(ends) > 1 else f"{min(ends)} words"
        caption = f"Vertical lines: the longest training sentences, {trained}. One seed each."
        bands = "Bands: 95% bootstrap intervals over sentences."
        write_caption(figure, [f"test_lenstrat.en: {sum(counts):,} sentences. {caption} {bands}"])
        return png(figure)


def length_decay() -> None:
    """Draw both figures."""
    for name, sources in CURVES.items():
        rows = [row for source in sources for row in csv.DictReader((FIGURES / f"{source}.csv").open(encoding="utf-8"))]
        longest = [row for row in rows if row["system"].endswith("-50")]
        write_bytes(FIGURES / f"{name}.png", draw(longest if len(sources) > 1 else rows))


main = Command(length_decay, "length_decay.py")

if __name__ == "__main__":
    sys.exit(main())
