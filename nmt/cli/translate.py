"""Translate raw text line by line, in order, from a file or standard input.

examples:
  nmt-translate --model runs/en-fr --input test.en --output test.hyp
  echo 'the old cat sleeps .' | nmt-translate --model runs/en-fr --n-best 3 --scores
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from nmt.cli.common import command, importing, say, with_progress
from nmt.cli.decoding import DEVICE_OPTIONS, SEARCH_OPTIONS, add_decoding_options, translate_lines
from nmt.cli.files import refuse_overwriting, refuse_unwritable, writing
from nmt.cli.options import given, number, refuse_useless, whole
from nmt.data.lines import OPENERS, decode_lines, read_lines, unreadable
from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.translation.options import SearchOptions
    from nmt.translation.translator import TranslatedHypothesis, Translation, Translator


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-translate``."""
    arguments = argparse.ArgumentParser(prog="nmt-translate", description=__doc__)
    arguments.add_argument(
        "--model",
        required=True,
        nargs="+",
        metavar="RUN",
        help="run directory of nmt-train; several with the same tokenizers translate together, as an ensemble",
    )
    arguments.add_argument(
        "--input", metavar="FILE", help="text to translate, also as .gz or .xz (default: standard input)"
    )
    arguments.add_argument("--output", metavar="FILE", help="translations, one per line (default: standard output)")
    arguments.add_argument(
        "--n-best",
        type=whole(1),
        default=1,
        metavar="N",
        help="write N lines for each line of input, best first, empty if there are fewer hypotheses",
    )
    arguments.add_argument("--scores", action="store_true", help="put the score and a tab before each translation")
    arguments.add_argument(
        "--alignments", metavar="FILE", help="write word alignments: i-j joins source word i and target word j, from 0"
    )
    arguments.add_argument("--attention", metavar="FILE", help="write attention weights, one JSON object per line")
    arguments.add_argument(
        "--prefix", metavar="FILE", help="what each translation must begin with, one per line; empty for no prefix"
    )
    add_decoding_options(arguments)
    group = arguments.add_argument_group("sampling, instead of beam search")
    group.add_argument(
        "--sampling-temperature",
        type=number(0),
        metavar="T",
        help="sample with this temperature; 1 keeps the model's probabilities, lower values favor probable pieces",
    )
    group.add_argument("--top-k", type=whole(1), metavar="K", help="sample from the K most probable pieces")
    group.add_argument(
        "--top-p",
        type=number(0, 1),
        metavar="P",
        help="sample from the smallest set of pieces whose total probability is P",
    )
    group.add_argument("--seed", type=whole(0), metavar="S", help="seed of the random generator (default: 1)")
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Translate; every error in the options or files comes before anything is written."""
    check_sampling(arguments)
    check_files(arguments)
    name, lines = open_input(arguments.input)

    lines, prefixes = with_prefixes(lines, name, arguments.prefix)

    with importing():
        from nmt.translation.ensemble import load_translator  # noqa: PLC0415

    translator = load_translator(arguments.model, **given(arguments, DEVICE_OPTIONS))
    options = search_options(arguments, translator)
    typed = arguments.input is None and arguments.prefix is None and sys.stdin.isatty()
    if typed:
        lines = with_prompt(lines)
    run = arguments.model[0]
    translations = translate_lines(
        translator, lines, options, arguments, run=run, source=name, typed=typed, prefixes=prefixes
    )
    with ExitStack() as stack:
        outputs = open_outputs(arguments, stack)
        if not typed and (arguments.output is not None or not sys.stdout.isatty()):
            translations = with_progress(translations, count_lines(arguments.input), name)
        for translation in translations:
            hypotheses = [*translation.hypotheses, *[None] * (options.n_best - len(translation.hypotheses))]
            texts = [[output.format(translation, hypothesis) for hypothesis in hypotheses] for output in outputs]
            for output, lines_out in zip(outputs, texts, strict=True):  # all or none: line counts stay equal
                output.write(lines_out)
        for output in outputs:
            output.write([])  # empty input: truncate an older file, too


# --- options ----------------------------------------------------------------------------------------------------------


SAMPLING_OPTIONS = ("top_k", "top_p", "seed")
"""Options for ``Sampling`` in addition to the temperature."""


def check_sampling(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for sampling options that would have no effect."""
    if arguments.sampling_temperature is None:
        refuse_useless(arguments, SAMPLING_OPTIONS, "without sampling; add --sampling-temperature 1")
    elif (arguments.beam_size or 1) > 1:
        raise ConfigError(
            f"--beam-size {arguments.beam_size}: sampling needs a beam size of 1; "
            "leave out --beam-size or --sampling-temperature"
        )
    elif arguments.n_best > 1:
        raise ConfigError(f"--n-best {arguments.n_best}: sampling gives one translation; leave out --n-best")


def check_files(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for an output that is an input or another output, DataError for one that is not writable."""
    read = ("standard input", "/dev/stdin") if arguments.input is None else ("--input", arguments.input)
    written = [(f"--{option}", getattr(arguments, option)) for option in ("output", "alignments", "attention")]
    runs = [("--model", run) for run in arguments.model]
    refuse_overwriting([read, *runs, ("--prefix", arguments.prefix)], written)
    refuse_unwritable(*(path for _, path in written))


def search_options(arguments: argparse.Namespace, translator: "Translator") -> "SearchOptions":
    """Combine the run's decoding configuration with the command line, which takes precedence."""
    from nmt.search import Sampling  # noqa: PLC0415
    from nmt.translation.options import SearchOptions  # noqa: PLC0415

    overrides = given(arguments, SEARCH_OPTIONS)
    if arguments.sampling_temperature is not None:
        overrides["sampling"] = Sampling(arguments.sampling_temperature, **given(arguments, SAMPLING_OPTIONS))
        overrides["beam_size"] = 1
    for option in ("alignments", "attention"):
        if getattr(arguments, option) is not None and not translator.attends:
            raise ConfigError(
                f"--{option}: {', '.join(arguments.model)} has no attention (model.attention.type is none)"
            )
    return SearchOptions.from_config(
        translator.decoding,
        n_best=arguments.n_best,
        attention=arguments.alignments is not None or arguments.attention is not None,
        **overrides,
    )


# --- input and output -------------------------------------------------------------------------------------------------


def open_input(path: str | None) -> tuple[str, Iterator[str]]:
    """Return the name for messages and the lines. Raises DataError at once for a file that cannot be read."""
    if path is None:
        return "standard input", standard_input()
    lines = read_lines(path)
    first = next(lines, None)
    return path, iter(()) if first is None else chain([first], lines)


def with_prefixes(lines: Iterator[str], name: str, path: str | None) -> tuple[Iterator[str], list[str]]:
    """Read all lines of ``name`` and their prefixes. Raises DataError for a file without a line for each of them."""
    if path is None:
        return lines, []
    read, prefixes = list(lines), list(read_lines(path))
    if len(read) != len(prefixes):
        raise DataError(
            f"{name} has {len(read):,} lines and --prefix {path} has {len(prefixes):,}: "
            "line n of the prefixes must be what the translation of line n begins with, or empty"
        )
    return iter(read), prefixes


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
    """Count the lines of a file for the progress bar; None if there is no bar or the file must be decompressed."""
    if path is None or not sys.stderr.isatty() or Path(path).suffix in OPENERS or not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        return sum(1 for _ in file)


def standard_input() -> Iterator[str]:
    """Yield the lines of standard input. Raises DataError if it cannot be read."""
    try:
        yield from decode_lines(sys.stdin.buffer, "standard input")
    except OSError as error:  # it is closed or a directory
        raise unreadable("standard input", error) from error


PROMPT = "> "
Format = Callable[["Translation", "TranslatedHypothesis | None"], str]


class Output:
    """A file or stream of UTF-8 lines in any locale; each line is flushed."""

    def __init__(self, name: str, stream: BinaryIO, form: Format) -> None:
        self.name, self.stream, self.format = name, stream, form
        self.old = False
        """Whether the file still has its previous content."""

    @classmethod
    def create(cls, path: str, form: Format, stack: ExitStack) -> Self:
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


def open_outputs(arguments: argparse.Namespace, stack: ExitStack) -> list[Output]:
    """Open all outputs. Raises DataError for a file that cannot be written."""
    form = format_scored if arguments.scores else format_text
    files = (arguments.output, form), (arguments.alignments, format_alignment), (arguments.attention, format_attention)
    standard = [Output("standard output", sys.stdout.buffer, form)] if arguments.output is None else []
    return standard + [Output.create(path, form, stack) for path, form in files if path is not None]


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
