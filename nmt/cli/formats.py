"""What nmt-translate writes for a hypothesis of a line: text, score, alignment, attention."""

import argparse
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.translation.results import TranslatedHypothesis, Translation

Form = Callable[["Translation", "TranslatedHypothesis | None"], str]
"""Makes the line of a hypothesis of a translation; None stands for one that was not found."""


def forms(arguments: argparse.Namespace) -> dict[str, tuple[str | None, Form]]:
    """Return, by option, the file and the form of each thing that ``nmt-translate`` can write; the first has a default
    file, the others are written if they have one."""
    return {
        "output": (arguments.output, format_scored if arguments.scores else format_text),
        "alignments": (arguments.alignments, format_alignment),
        "attention": (arguments.attention, format_attention),
    }


def rows(translation: "Translation", form: Form, n_best: int) -> list[str]:
    """Return ``n_best`` lines for a line of input."""
    hypotheses = [*translation.hypotheses, *[None] * (n_best - len(translation.hypotheses))]
    return [form(translation, hypothesis) for hypothesis in hypotheses]


def format_text(translation: "Translation", hypothesis: "TranslatedHypothesis | None") -> str:
    """Return the translation."""
    return "" if hypothesis is None else hypothesis.text


def format_scored(translation: "Translation", hypothesis: "TranslatedHypothesis | None") -> str:
    """Return score, tab and translation; only the tab without a hypothesis."""
    return "\t" if hypothesis is None else f"{hypothesis.score:.4f}\t{hypothesis.text}"


def format_alignment(translation: "Translation", hypothesis: "TranslatedHypothesis | None") -> str:
    """Return links between whitespace words: ``i-j`` joins source word i and target word j."""
    from nmt.evaluation.alignment import format_pharaoh, likeliest_links, word_weights  # noqa: PLC0415

    if hypothesis is None or hypothesis.attention is None:
        return ""
    weights = hypothesis.attention
    words = word_weights(weights, translation.source_pieces, hypothesis.pieces, translation.source, hypothesis.text)
    return format_pharaoh(likeliest_links(words))


def format_attention(translation: "Translation", hypothesis: "TranslatedHypothesis | None") -> str:
    """Return a JSON object: source pieces, target pieces, and a row of weights for each target piece."""
    pieces = [] if hypothesis is None else hypothesis.pieces
    weights = [] if hypothesis is None or hypothesis.attention is None else hypothesis.attention.tolist()
    rows = [[round(weight, 4) for weight in row] for row in weights]
    return json.dumps({"source": translation.source_pieces, "target": pieces, "weights": rows}, ensure_ascii=False)
