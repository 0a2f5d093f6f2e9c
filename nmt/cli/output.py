"""What nmt-translate and nmt-score read and write: streams of lines, their forms, and pictures of attention."""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from nmt.cli.common import say
from nmt.cli.files import writing
from nmt.config import Config
from nmt.config.schema import TransformerAttention, TransformerDecoder
from nmt.data.lines import OPENERS, decode_lines, read_lines, unreadable
from nmt.errors import NmtWarning
from nmt.evaluation.alignment import LabelledWeights, format_pharaoh, labelled_weights, likeliest_links, word_weights
from nmt.evaluation.writing import has_words
from nmt.plots.files import make_folder, write_all

if TYPE_CHECKING:  # slow to import
    from nmt.plots.attention import Side
    from nmt.translation.results import TranslatedHypothesis, Translation

PROMPT = "> "


def open_input(path: str | None) -> tuple[str, Iterator[str]]:
    """Return the name for messages and the lines of a file, of standard input without one.

    Raises DataError at once for a file that cannot be read.
    """
    if path is None:
        return "standard input", standard_input()
    lines = read_lines(path)
    first = next(lines, None)
    return path, iter(()) if first is None else chain([first], lines)


def with_prompt(lines: Iterator[str]) -> Iterator[str]:
    """Yield lines that a person types, with a prompt on standard error before each."""
    say("type a line to translate; press Ctrl-D to end")
    while True:
        print(PROMPT, end="", file=sys.stderr, flush=True)
        line = next(lines, None)
        if line is None:
            say("")
            return
        yield line


def count_lines(path: str | None) -> int | None:
    """Count the lines of a file, to know how long it takes; None without a regular file."""
    if path is None or not Path(path).is_file():
        return None
    if Path(path).suffix in OPENERS:
        return sum(1 for _ in read_lines(path))
    with Path(path).open("rb") as file:
        return sum(1 for _ in file)


def standard_input() -> Iterator[str]:
    """Yield the lines of standard input. Raises DataError if it cannot be read."""
    try:
        yield from decode_lines(sys.stdin.buffer, "standard input")
    except OSError as error:  # it is closed or a directory
        raise unreadable("standard input", error) from error


class Output:
    """A file or stream of UTF-8 lines in any locale; each line is flushed.

    ``form`` makes a line from whatever the command writes a line for.
    """

    def __init__(self, name: str, stream: BinaryIO, form: Callable[..., str]) -> None:
        self.name, self.stream, self.format = name, stream, form
        self.old = False
        """Whether the file still has its previous content."""

    @classmethod
    def create(cls, path: str, form: Callable[..., str], stack: ExitStack) -> Self:
        """Open a file that the stack closes; its old content is kept until the first line is written."""
        with writing(path):
            output = cls(path, Path(path).open("ab"), form)  # noqa: SIM115  (the stack closes it)
        output.old = Path(path).is_file()  # not a pipe or device
        stack.callback(output.close)
        return output

    def write(self, lines: list[str]) -> None:
        """Write lines. Raises DataError if that fails, BrokenPipeError if the reader is gone."""
        with writing(self.name):
            if self.old:
                self.stream.truncate(0)
                self.old = False
            self.stream.write("".join(f"{line}\n" for line in lines).encode())
            self.stream.flush()

    def close(self) -> None:
        """Close the file. Raises DataError if pending output cannot be written."""
        with writing(self.name):
            self.stream.close()


def open_outputs(
    output: tuple[str | None, Callable[..., str]], *others: tuple[str | None, Callable[..., str]], stack: ExitStack
) -> list[Output]:
    """Open the output of a command, standard output if its path is None, and the others that have a path.

    Each is a path and a form. Raises DataError for a file that cannot be written.
    """
    standard = [Output("standard output", sys.stdout.buffer, output[1])] if output[0] is None else []
    return standard + [Output.create(path, form, stack) for path, form in (output, *others) if path is not None]


# --- forms ------------------------------------------------------------------------------------------------------------

Form = Callable[["Translation", "TranslatedHypothesis | None"], str]
"""Makes the line of a hypothesis of a translation; None stands for one that was not found."""


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


FORMS: dict[str, Form] = {
    "output": format_text,
    "scores": format_scored,
    "alignments": format_alignment,
    "attention": format_attention,
}
"""What nmt-translate can write for a hypothesis."""


# --- pictures ---------------------------------------------------------------------------------------------------------

MOST_PICTURES = 100
"""Lines of which --pictures draws the attention."""


def attention_of_words(translation: "Translation", config: Config) -> tuple[LabelledWeights, tuple[bool, bool]]:
    """Label the attention of the best translation: weights, source and target labels; and whether the labels of each
    side are words, or pieces, as for a language without spaces between words."""
    data, source, best = config.data, translation.source, translation.hypotheses[0]
    assert best.attention is not None
    words = has_words(data.source_language, source), has_words(data.target_language, best.text)
    pieces = translation.source_pieces, best.pieces
    return labelled_weights(best.attention, *pieces, source, best.text, words=words), words


def which_weights(config: Config) -> str:
    """Say which weights a system shows that has several heads or layers; "" for a single attention."""
    attention, decoder = config.model.attention, config.model.decoder
    heads = decoder.heads if isinstance(decoder, TransformerDecoder) else getattr(attention, "heads", 1)
    if isinstance(attention, TransformerAttention) and isinstance(decoder, TransformerDecoder):
        layer = attention.layer or max(decoder.layers - 1, 1)
        head = f"mean of {heads} heads" if attention.head is None else f"head {attention.head} of {heads}"
        return f"layer {layer} of {decoder.layers}, {head}"
    return f"mean of {heads} heads" if heads > 1 else ""


class Pictures:
    """``--pictures``: a picture of each of the first MOST_PICTURES lines, in a directory that is made.

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
        from nmt.plots.attention import AttentionMap, draw_attention  # noqa: PLC0415
        from nmt.plots.style import png, svg  # noqa: PLC0415

        self.lines += 1
        best = translation.hypotheses[0]
        if self.lines > MOST_PICTURES or best.attention is None or not best.pieces:
            return
        labelled, words = attention_of_words(translation, self.config)
        units: tuple[Side, Side] = ("words" if words[0] else "pieces", "words" if words[1] else "pieces")
        drawn = AttentionMap(*labelled, note=which_weights(self.config), units=units)
        about = [f"Line {self.lines}."]
        if any(words):
            about.append("Weights of pieces are added over a source word and averaged over a target word.")
        figure = draw_attention([drawn], caption=[" ".join(about)])
        write_all(self.folder / f"line-{self.lines:03}", {".png": png(figure), ".svg": svg(figure)})

    def end(self) -> None:
        """Warn if there were too many lines."""
        if (left := self.lines - MOST_PICTURES) > 0:
            message = f"--pictures draws {MOST_PICTURES} lines; {left:,} more are left out"
            warnings.warn(message, NmtWarning, stacklevel=2)
