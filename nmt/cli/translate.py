"""``nmt-translate``: raw lines in, raw lines out, in order, from a file or a pipe."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from nmt.cli.common import (
    DEVICE_OPTIONS,
    SEARCH_OPTIONS,
    add_decoding_options,
    command,
    given,
    importing,
    number,
    refuse_overwriting,
    refuse_unwritable,
    say,
    whole,
    with_progress,
    writing,
)
from nmt.data.language_id import LEAST_LETTERS, MOST_LETTERS, LanguageId
from nmt.data.lines import OPENERS, decode_lines, read_lines, unreadable
from nmt.errors import ConfigError

if TYPE_CHECKING:  # PyTorch is slow to import: --help and mistyped options need not wait for it
    from nmt.translation.options import SearchOptions
    from nmt.translation.translator import TranslatedHypothesis, Translation, Translator


def parser() -> argparse.ArgumentParser:
    """The options of ``nmt-translate``."""
    arguments = argparse.ArgumentParser(prog="nmt-translate", description=__doc__)
    arguments.add_argument("--model", required=True, metavar="RUN", help="a run directory of nmt-train")
    arguments.add_argument("--input", metavar="FILE", help="lines to translate; .gz and .xz too (default: stdin)")
    arguments.add_argument("--output", metavar="FILE", help="translations, a line each (default: stdout)")
    arguments.add_argument(
        "--n-best", type=whole(1), default=1, metavar="N", help="N lines for each line, best first; empty where fewer"
    )
    arguments.add_argument("--scores", action="store_true", help="put the score and a tab before each translation")
    arguments.add_argument("--alignments", metavar="FILE", help="word alignment of each translation: i-j, from 0")
    arguments.add_argument("--attention", metavar="FILE", help="attention of each translation, a JSON object a line")
    add_decoding_options(arguments)
    group = arguments.add_argument_group("sampling: draw a translation instead of searching for the best")
    group.add_argument("--sampling-temperature", type=number(0), metavar="T", help="1: as the model says; less: safer")
    group.add_argument("--top-k", type=whole(1), metavar="K", help="draw among the K likeliest pieces")
    group.add_argument("--top-p", type=number(0, 1), metavar="P", help="draw among pieces of probability P together")
    group.add_argument("--seed", type=whole(0), metavar="S", help="another seed, other translations")
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Translate; whatever can be refused is refused before anything is written."""
    check_sampling(arguments)
    check_files(arguments)
    name, lines = open_input(arguments.input)

    with importing():
        from nmt.translation.translator import Translator  # noqa: PLC0415
        from nmt.translation.windows import WINDOW  # noqa: PLC0415

    translator = Translator.load(arguments.model, **given(arguments, DEVICE_OPTIONS))
    options = search_options(arguments, translator)
    if problem := translator.slow_precision():
        say(f"nmt-translate: warning: --precision int8: {problem}")
    typed = arguments.input is None and sys.stdin.isatty()
    if typed:
        lines = prompted(lines)

    def warn(line: int, problem: str) -> None:
        say(f"nmt-translate: warning: {name}:{line}: {problem}")

    def warn_of_language() -> None:
        say(
            f"nmt-translate: warning: {name}: looks like the language that {arguments.model} translates into, "
            "not the one it translates from"
        )

    if language_id := LanguageId.load(Path(arguments.model)):
        lines = language_id.watched(lines, warn_of_language, LEAST_LETTERS if typed else MOST_LETTERS)
    with ExitStack() as stack:
        outputs = open_outputs(arguments, stack)
        translations = translator.translate(lines, options, window=1 if typed else WINDOW, warn=warn)
        if not typed and (arguments.output is not None or not sys.stdout.isatty()):
            translations = with_progress(translations, count_lines(arguments.input), name)
        for translation in translations:
            hypotheses = [*translation.hypotheses, *[None] * (options.n_best - len(translation.hypotheses))]
            texts = [[output.format(translation, hypothesis) for hypothesis in hypotheses] for output in outputs]
            for output, lines_out in zip(outputs, texts, strict=True):  # all or none: files stay of equal length
                output.write(lines_out)
        for output in outputs:
            output.write([])  # of no lines at all nothing is left of an older file either


# --- options ----------------------------------------------------------------------------------------------------------


SAMPLING_OPTIONS = ("top_k", "top_p", "seed")
"""For ``Sampling``, beside the temperature."""


def check_sampling(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for sampling options that would have no effect."""
    if arguments.sampling_temperature is None:
        lonely = [name.replace("_", "-") for name in given(arguments, SAMPLING_OPTIONS)]
        if lonely:
            raise ConfigError(
                *(f"--{name}: has no effect without sampling; add --sampling-temperature 1" for name in lonely)
            )
    elif (arguments.beam_size or 1) > 1:
        raise ConfigError(
            f"--beam-size {arguments.beam_size}: sampling follows one hypothesis; "
            "leave out --beam-size or --sampling-temperature"
        )
    elif arguments.n_best > 1:
        raise ConfigError(f"--n-best {arguments.n_best}: sampling draws one translation; leave out --n-best")


def check_files(arguments: argparse.Namespace) -> None:
    """Raise ConfigError where a file would be written over while it is read, or written twice; DataError for one that
    cannot be written."""
    read = ("standard input", "/dev/stdin") if arguments.input is None else ("--input", arguments.input)
    written = [(f"--{option}", getattr(arguments, option)) for option in ("output", "alignments", "attention")]
    refuse_overwriting([read, ("--model", arguments.model)], written)
    for _, path in written:
        if path is not None:
            refuse_unwritable(path)


def search_options(arguments: argparse.Namespace, translator: "Translator") -> "SearchOptions":
    """The run's own way of decoding, as far as the command line says nothing else."""
    from nmt.search import Sampling  # noqa: PLC0415
    from nmt.translation.options import SearchOptions  # noqa: PLC0415

    overrides = given(arguments, SEARCH_OPTIONS)
    if arguments.sampling_temperature is not None:
        overrides["sampling"] = Sampling(arguments.sampling_temperature, **given(arguments, SAMPLING_OPTIONS))
        overrides["beam_size"] = 1
    for option in ("alignments", "attention"):
        if getattr(arguments, option) is not None and not translator.attends:
            raise ConfigError(f"--{option}: {arguments.model} has no attention (model.attention.type is none)")
    return SearchOptions.from_config(
        translator.decoding,
        n_best=arguments.n_best,
        attention=arguments.alignments is not None or arguments.attention is not None,
        **overrides,
    )


# --- input and output -------------------------------------------------------------------------------------------------


def open_input(path: str | None) -> tuple[str, Iterator[str]]:
    """The name for messages, and the lines. Raises DataError for a file that cannot be read, at once."""
    if path is None:
        return "standard input", standard_input()
    lines = read_lines(path)
    first = next(lines, None)
    return path, iter(()) if first is None else chain([first], lines)


def prompted(lines: Iterator[str]) -> Iterator[str]:
    """Lines that a person types, with a prompt on standard error before each."""
    say("type a line to translate; Ctrl-D ends")
    while True:
        print(PROMPT, end="", file=sys.stderr, flush=True)
        line = next(lines, None)
        if line is None:
            say("")
            return
        yield line


def count_lines(path: str | None) -> int | None:
    """How many lines a file has; None where that is not known before they are read."""
    if path is None or not sys.stderr.isatty() or Path(path).suffix in OPENERS or not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        return sum(1 for _ in file)


def standard_input() -> Iterator[str]:
    """Its lines. Raises DataError where it cannot be read."""
    try:
        yield from decode_lines(sys.stdin.buffer, "standard input")
    except OSError as error:  # it was closed, or is a folder
        raise unreadable("standard input", error) from error


PROMPT = "> "
Format = Callable[["Translation", "TranslatedHypothesis | None"], str]


class Output:
    """A file or stream of UTF-8 lines, whatever the locale; each is passed on as soon as it is written."""

    def __init__(self, name: str, stream: BinaryIO, form: Format) -> None:
        self.name, self.stream, self.format = name, stream, form
        self.old = False
        """Whether the file still holds what was in it before."""

    @classmethod
    def create(cls, path: str, form: Format) -> Self:
        """A new file; one that is there keeps its content until the first line comes. Raises DataError where there can
        be none."""
        with writing(path):
            output = cls(path, Path(path).open("ab"), form)  # noqa: SIM115  (close() does)
        output.old = Path(path).is_file()  # pipes and devices hold nothing
        return output

    def write(self, lines: list[str]) -> None:
        """Write lines. Raises DataError where that fails, BrokenPipeError if nobody reads any more."""
        with writing(self.name):
            if self.old:
                self.stream.truncate(0)
                self.old = False
            self.stream.write("".join(f"{line}\n" for line in lines).encode())
            self.stream.flush()

    def close(self) -> None:
        """Close the file. Raises DataError where what is pending cannot be written."""
        with writing(self.name):
            self.stream.close()


def open_outputs(arguments: argparse.Namespace, stack: ExitStack) -> list[Output]:
    """Everything that is written. Raises DataError for a file that cannot be."""

    def create(path: str, form: Format) -> Output:
        output = Output.create(path, form)
        stack.callback(output.close)
        return output

    form = format_scored if arguments.scores else format_text
    standard = arguments.output is None
    outputs = [Output("standard output", sys.stdout.buffer, form) if standard else create(arguments.output, form)]
    if arguments.alignments is not None:
        outputs.append(create(arguments.alignments, format_alignment))
    if arguments.attention is not None:
        outputs.append(create(arguments.attention, format_attention))
    return outputs


def format_text(translation: "Translation", hypothesis: "TranslatedHypothesis | None") -> str:
    """The translation."""
    return "" if hypothesis is None else hypothesis.text


def format_scored(translation: "Translation", hypothesis: "TranslatedHypothesis | None") -> str:
    """Score, tab, translation; the tab alone where there is no hypothesis."""
    return "\t" if hypothesis is None else f"{hypothesis.score:.4f}\t{hypothesis.text}"


def format_alignment(translation: "Translation", hypothesis: "TranslatedHypothesis | None") -> str:
    """Links between whitespace words: ``i-j`` joins source word i and target word j."""
    from nmt.evaluation.alignment import format_pharaoh, word_links  # noqa: PLC0415

    if hypothesis is None or hypothesis.attention is None:
        return ""
    weights = hypothesis.attention.numpy()
    links = word_links(weights, translation.source_pieces, hypothesis.pieces, translation.source, hypothesis.text)
    return format_pharaoh(links)


def format_attention(translation: "Translation", hypothesis: "TranslatedHypothesis | None") -> str:
    """A JSON object: source pieces, target pieces, and for each of these a row of weights over those."""
    pieces = [] if hypothesis is None else hypothesis.pieces
    weights = [] if hypothesis is None or hypothesis.attention is None else hypothesis.attention.tolist()
    rows = [[round(weight, 4) for weight in row] for row in weights]
    return json.dumps({"source": translation.source_pieces, "target": pieces, "weights": rows}, ensure_ascii=False)
