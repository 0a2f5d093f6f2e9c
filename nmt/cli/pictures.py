"""Attention of translations as pictures: labels by language, and a directory with one picture per line."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.cli.common import say
from nmt.config import Config
from nmt.config.schema import TransformerAttention, TransformerDecoder
from nmt.evaluation import writing
from nmt.evaluation.alignment import Weights, labelled_weights
from nmt.plots.files import make_folder, write_all

if TYPE_CHECKING:  # slow to import, and most translations are not drawn
    from nmt.plots.attention import AttentionMap, Side
    from nmt.translation.results import Translation

MOST_PICTURES = 100
"""Maximum number of pictures of --attention-plot."""


def has_words(config: Config, source: str, target: str) -> tuple[bool, bool]:
    """Whether source and target are labelled with words."""
    data = config.data
    return writing.has_words(data.source_language, source), writing.has_words(data.target_language, target)


def attention_map(
    attention: Weights,
    source_pieces: list[str],
    target_pieces: list[str],
    source: str,
    target: str,
    *,
    config: Config,
    pieces: bool = False,
) -> "AttentionMap":
    """Label the attention (T, S) of a translation with words, or with pieces: if the user wants them, and for a
    language without spaces between words."""
    from nmt.plots.attention import AttentionMap  # noqa: PLC0415

    words = (False, False) if pieces else has_words(config, source, target)
    labelled = labelled_weights(attention, source_pieces, target_pieces, source, target, words=words)
    units: tuple[Side, Side] = ("words" if words[0] else "pieces", "words" if words[1] else "pieces")
    return AttentionMap(*labelled, units=units)


def layers_and_heads(config: Config) -> tuple[int, int]:
    """Return how many layers and heads the attention to the source has."""
    decoder = config.model.decoder
    if isinstance(decoder, TransformerDecoder):
        return decoder.layers, decoder.heads
    return 1, getattr(config.model.attention, "heads", 1)


def which_weights(config: Config) -> str:
    """Say which weights a system shows that has several heads or layers; "" for a single attention."""
    attention, (layers, heads) = config.model.attention, layers_and_heads(config)
    if isinstance(attention, TransformerAttention):
        layer = attention.layer or max(layers - 1, 1)
        head = f"mean of {heads} heads" if attention.head is None else f"head {attention.head} of {heads}"
        return f"layer {layer} of {layers}, {head}"
    return f"mean of {heads} heads" if heads > 1 else ""


def about_words(maps: "Iterable[AttentionMap]") -> list[str]:
    """Say what a weight between words is, if any map shows words."""
    if not any("words" in each.units for each in maps):
        return []
    return ["Weights of pieces are added over a source word and averaged over a target word."]


class PicturesOfLines:
    """``--attention-plot``: a picture of each of the first MOST_PICTURES lines, in a directory that is made.

    Args:
        folder: the directory.
        config: of the run that translates; of the first of an ensemble.

    Raises DataError if the directory cannot be made.
    """

    def __init__(self, folder: str, config: Config) -> None:
        self.folder, self.config = Path(folder), config
        self.lines = 0
        make_folder(self.folder / "line")

    def add(self, translation: "Translation") -> None:
        """Draw the best translation of the next line, as ``line-001.png`` and .svg; a blank line has no picture.

        Raises DataError if a file cannot be written.
        """
        from nmt.plots.attention import draw_attention  # noqa: PLC0415
        from nmt.plots.style import png, svg  # noqa: PLC0415

        self.lines += 1
        best = translation.hypotheses[0]
        if self.lines > MOST_PICTURES or best.attention is None or not best.pieces:
            return
        drawn = attention_map(
            best.attention,
            translation.source_pieces,
            best.pieces,
            translation.source,
            best.text,
            config=self.config,
        )
        drawn = replace(drawn, note=which_weights(self.config))
        figure = draw_attention([drawn], caption=[" ".join([f"Line {self.lines}.", *about_words([drawn])])])
        write_all(self.folder / f"line-{self.lines:03}", {".png": png(figure), ".svg": svg(figure)})

    def end(self, command: str) -> None:
        """Warn if there were too many lines."""
        if (left := self.lines - MOST_PICTURES) > 0:
            say(f"{command}: warning: --attention-plot draws {MOST_PICTURES} lines; {left:,} more are left out")
