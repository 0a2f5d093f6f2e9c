"""What nmt-translate writes for a hypothesis of a line: text, score, alignment, attention."""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.translation.translator import TranslatedHypothesis, Translation


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
    weights = hypothesis.attention.numpy()
    words = word_weights(weights, translation.source_pieces, hypothesis.pieces, translation.source, hypothesis.text)
    return format_pharaoh(likeliest_links(words))


def format_attention(translation: "Translation", hypothesis: "TranslatedHypothesis | None") -> str:
    """Return a JSON object: source pieces, target pieces, and a row of weights for each target piece."""
    pieces = [] if hypothesis is None else hypothesis.pieces
    weights = [] if hypothesis is None or hypothesis.attention is None else hypothesis.attention.tolist()
    rows = [[round(weight, 4) for weight in row] for row in weights]
    return json.dumps({"source": translation.source_pieces, "target": pieces, "weights": rows}, ensure_ascii=False)
