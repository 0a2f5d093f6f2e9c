"""Translate raw text line by line, in order, from a file or standard input.

examples:
  nmt-translate --model runs/en-fr --input test.en --output test.hyp
  echo 'the old cat sleeps .' | nmt-translate --model runs/en-fr --n-best 3 --scores
"""

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.cli.common import command, say
from nmt.cli.decoding import (
    SEARCH_OPTIONS,
    add_decoding_options,
    add_model_option,
    load_models,
    translate_lines,
    warn,
)
from nmt.cli.files import refuse_missing, refuse_overwriting, refuse_unwritable
from nmt.cli.formats import forms, rows
from nmt.cli.options import CommandParser, given, number, refuse_useless, whole
from nmt.cli.pictures import MOST_PICTURES, PicturesOfLines, has_words
from nmt.cli.shades import draw
from nmt.cli.streams import Output, count_lines, open_input, open_outputs, with_prompt
from nmt.config import Config, load_run_config
from nmt.data.lines import read_lines
from nmt.errors import ConfigError, DataError
from nmt.evaluation.alignment import labelled_weights

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.translation.lost_text import LostText
    from nmt.translation.options import SearchOptions
    from nmt.translation.results import Translation
    from nmt.translation.translator import Translator


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-translate``."""
    arguments = CommandParser(prog="nmt-translate", description=__doc__)
    add_model_option(arguments)
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
        "--attention-plot",
        metavar="DIR",
        help="draw the attention of the best translation of each line, named by its number: DIR/line-001.png and .svg; "
        f"of the first {MOST_PICTURES} lines",
    )
    arguments.add_argument(
        "--show-attention",
        action="store_true",
        help="draw the attention of each translation on standard error, which is for reading at a terminal",
    )
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
    arguments.add_argument(
        "--shard",
        type=shard,
        metavar="I/N",
        help="translate only shard I, from 1, of N consecutive shards of --input; cat joins the outputs",
    )
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Translate; every error in the options or files comes before anything is written."""
    check_sampling(arguments)
    check_files(arguments)
    from nmt.translation.lost_text import LostText  # noqa: PLC0415  (with PyTorch)

    name, lines = open_input(arguments.input)
    lines, prefixes = with_prefixes(lines, name, arguments.prefix)
    translator = load_models(arguments.model, arguments)
    options = search_options(arguments, translator)
    typed = arguments.input is None and arguments.prefix is None and sys.stdin.isatty()
    if typed:
        lines = with_prompt(lines)
    run = arguments.model[0]
    config = load_run_config(run)
    pictures = PicturesOfLines(arguments.attention_plot, config) if arguments.attention_plot else None
    shown = not typed and (arguments.output is not None or not sys.stdout.isatty())
    with ExitStack() as stack:
        outputs, done = open_files(arguments, translator, options, stack)
        total = count_lines(arguments.input) if shown or arguments.shard else None
        span = slice(done, None)
        if arguments.shard is not None:
            assert total is not None
            index, count = arguments.shard
            share = range(total * (index - 1) // count, total * index // count)
            span, total = slice(share.start + done, share.stop), len(share)
        translations = translate_lines(
            translator,
            islice(lines, span.start, span.stop),
            options,
            arguments,
            run=run,
            source=name,
            typed=typed,
            prefixes=prefixes[span],
            first=span.start + 1,
            what=name if shown else None,
            total=None if total is None else total - done,
        )
        lost = LostText()
        for number, translation in enumerate(translations, span.start + 1):
            lost.add(number, translation)
            if typed:
                warn_of_lost_text(arguments, name, lost)
            texts = [rows(translation, output.format, options.n_best) for output in outputs]
            for output, lines_out in zip(outputs, texts, strict=True):  # all or none: line counts stay equal
                output.write(lines_out)
            if pictures:
                pictures.add(translation)
            if arguments.show_attention:
                show_attention(translation, config)
        for output in outputs:
            output.write([])  # empty input: truncate an older file, too
    warn_of_lost_text(arguments, name, lost)
    if pictures:
        pictures.end(arguments.command)


def warn_of_lost_text(arguments: argparse.Namespace, name: str, lost: "LostText") -> None:
    """Warn of the lines of ``name`` whose translations seem to lack text."""
    for problem in lost.problems():
        warn(arguments, f"{name}: {problem}")


def open_files(
    arguments: argparse.Namespace, translator: "Translator", options: "SearchOptions", stack: ExitStack
) -> tuple[list[Output], int]:
    """Open all outputs; return them, and how many lines of the input they already have translations of.

    From a file into files the translation can be continued; elsewhere it goes straight to its place.
    """
    written = {option: (path, form) for option, (path, form) in forms(arguments).items() if path is not None}
    texts = [path for path in (arguments.input, arguments.prefix) if path is not None]
    paths = [path for path, _ in written.values()]
    if arguments.input is None or arguments.output is None or not regular([*texts, *paths]):
        return open_outputs(*forms(arguments).values(), stack=stack), 0
    from nmt.translation.files import growing, made_from  # noqa: PLC0415

    origin = made_from(arguments.model, texts, options)
    origin |= {"shard": arguments.shard, "precision": str(translator.precision), "scores": arguments.scores}
    origin |= {"outputs": list(written)}
    done, files = stack.enter_context(growing(paths, options.n_best, origin, say))
    return [Output(path, file, form) for (path, form), file in zip(written.values(), files, strict=True)], done


def regular(paths: Sequence[str]) -> bool:
    """Whether all paths are those of regular files, or of files that do not exist yet."""
    return all(Path(path).is_file() or not Path(path).exists() for path in paths)


def show_attention(translation: "Translation", config: Config) -> None:
    """Draw the attention between a line and its best translation: words, or pieces without spaces between words."""
    best, source = translation.hypotheses[0], translation.source
    if best.attention is None:
        return
    words = has_words(config, source, best.text)
    shown = labelled_weights(best.attention, translation.source_pieces, best.pieces, source, best.text, words=words)
    for line in draw(*shown, shutil.get_terminal_size().columns):
        say(line)


# --- options ----------------------------------------------------------------------------------------------------------


def shard(text: str) -> tuple[int, int]:
    """Parse an argument: I/N, with I from 1 to N."""
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a shard; of four they are 1/4, 2/4, 3/4 and 4/4")
    return int(index), int(count)


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
    text = ("standard input", "/dev/stdin") if arguments.input is None else ("--input", arguments.input)
    if arguments.shard and (arguments.input is None or not Path(arguments.input).is_file()):
        raise ConfigError("--shard: needs --input, a regular file: its lines are counted")
    written = [(f"--{option}", getattr(arguments, option)) for option in ("output", "alignments", "attention")]
    pictures = [("--attention-plot", arguments.attention_plot and f"{arguments.attention_plot}/line-001.png")]
    runs = [("--model", run) for run in arguments.model]
    others = [(f"--{option}", getattr(arguments, option)) for option in ("prefix",)]
    refuse_overwriting([text, *runs, *others], written + pictures)
    refuse_missing([arguments.input, arguments.prefix], arguments.model)
    refuse_unwritable(*(path for _, path in written))


def search_options(arguments: argparse.Namespace, translator: "Translator") -> "SearchOptions":
    """Combine the run's decoding configuration with the command line, which takes precedence."""
    from nmt.search import Sampling  # noqa: PLC0415
    from nmt.translation.options import SearchOptions  # noqa: PLC0415

    overrides = given(arguments, SEARCH_OPTIONS)
    if arguments.sampling_temperature is not None:
        overrides["sampling"] = Sampling(arguments.sampling_temperature, **given(arguments, SAMPLING_OPTIONS))
        overrides["beam_size"] = 1
    for option in ("alignments", "attention", "attention_plot", "show_attention"):
        if getattr(arguments, option) and not translator.attends:
            name, runs = option.replace("_", "-"), ", ".join(arguments.model)
            raise ConfigError(f"--{name}: {runs} has no attention (model.attention.type is none)")
    return SearchOptions.from_config(
        translator.decoding,
        n_best=arguments.n_best,
        attention=any(given(arguments, ("alignments", "attention", "attention_plot"))) or arguments.show_attention,
        **overrides,
    )


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
