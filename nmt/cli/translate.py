"""Translate raw text line by line, in order, from a file or standard input.

examples:
  nmt-translate --model runs/en-fr --input test.en --output test.hyp
  echo 'the old cat sleeps .' | nmt-translate --model runs/en-fr --n-best 3 --scores
"""

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from nmt.cli.common import command, say
from nmt.cli.decoding import (
    SEARCH_OPTIONS,
    add_decoding_options,
    add_model_option,
    load_models,
    translate_lines,
)
from nmt.cli.files import refuse_overwriting, refuse_unwritable
from nmt.cli.formats import forms, rows
from nmt.cli.options import CommandParser, given, number, refuse_useless, whole
from nmt.cli.pictures import MOST_PICTURES, PicturesOfLines, has_words
from nmt.cli.risk import add_risk_options, check_risk, risk
from nmt.cli.shades import draw
from nmt.cli.shards import add_shard_options, refuse_other_prefixes, shard_of, translate_shard
from nmt.cli.shortlisted import add_shortlist_option, load_shortlist
from nmt.cli.streams import count_lines, open_input, open_outputs, with_prompt
from nmt.cli.unknown import add_unknown_options, check_unknown, unknown_words
from nmt.config import Config, load_run_config
from nmt.data.lines import read_lines
from nmt.errors import ConfigError
from nmt.evaluation.alignment import labelled_weights

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
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
    add_shortlist_option(arguments)
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
    add_risk_options(arguments)
    add_unknown_options(arguments)
    add_shard_options(arguments)
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Translate; every error in the options or files comes before anything is written."""
    shard = shard_of(arguments)
    check_sampling(arguments)
    check_unknown(arguments)
    check_files(arguments)
    if shard is None:
        translate_stream(arguments)
    elif arguments.attention_plot:
        raise ConfigError("--attention-plot: draws the first lines of a text; use it without --shard and torchrun")
    elif arguments.show_attention:
        raise ConfigError("--show-attention: has no effect with --shard or torchrun; translate without them to look")
    else:
        translate_shard(arguments, shard, search_options)


def translate_stream(arguments: argparse.Namespace) -> None:
    """Translate lines as they come in."""
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
    translations = translate_lines(
        translator,
        lines,
        options,
        arguments,
        run=run,
        source=name,
        typed=typed,
        prefixes=prefixes,
        what=name if shown else None,
        total=count_lines(arguments.input) if shown else None,
    )
    with ExitStack() as stack:
        outputs = open_outputs(*forms(arguments).values(), stack=stack)
        for translation in translations:
            texts = [rows(translation, output.format, options.n_best) for output in outputs]
            for output, lines_out in zip(outputs, texts, strict=True):  # all or none: line counts stay equal
                output.write(lines_out)
            if pictures:
                pictures.add(translation)
            if arguments.show_attention:
                show_attention(translation, config)
        for output in outputs:
            output.write([])  # empty input: truncate an older file, too
    if pictures:
        pictures.end(arguments.command)


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


SAMPLING_OPTIONS = ("top_k", "top_p", "seed")
"""Options for ``Sampling`` in addition to the temperature."""


def check_sampling(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for sampling options that would have no effect."""
    check_risk(arguments)
    if not samples(arguments):
        refuse_useless(arguments, SAMPLING_OPTIONS, "without sampling; add --sampling-temperature 1")
    elif (arguments.beam_size or 1) > 1:
        raise ConfigError(
            f"--beam-size {arguments.beam_size}: sampling needs a beam size of 1; "
            f"leave out --beam-size or {'--mbr' if arguments.mbr else '--sampling-temperature'}"
        )
    elif arguments.n_best > 1:
        raise ConfigError(f"--n-best {arguments.n_best}: sampling gives one translation; leave out --n-best")


def samples(arguments: argparse.Namespace) -> bool:
    """Whether the command line asks for samples."""
    return arguments.sampling_temperature is not None or arguments.mbr is not None


def check_files(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for an output that is an input or another output, DataError for one that is not writable."""
    text = ("standard input", "/dev/stdin") if arguments.input is None else ("--input", arguments.input)
    written = [(f"--{option}", getattr(arguments, option)) for option in ("output", "alignments", "attention")]
    pictures = [("--attention-plot", arguments.attention_plot and f"{arguments.attention_plot}/line-001.png")]
    runs = [("--model", run) for run in arguments.model]
    others = [(f"--{option}", getattr(arguments, option)) for option in ("prefix", "dictionary", "shortlist")]
    refuse_overwriting([text, *runs, *others], written + pictures)
    refuse_unwritable(*(path for _, path in written))


def search_options(arguments: argparse.Namespace, translator: "Translator") -> "SearchOptions":
    """Combine the run's decoding configuration with the command line, which takes precedence."""
    from nmt.search import Sampling  # noqa: PLC0415
    from nmt.translation.options import SearchOptions  # noqa: PLC0415

    overrides = given(arguments, SEARCH_OPTIONS)
    if samples(arguments):
        temperature = {} if arguments.sampling_temperature is None else {"temperature": arguments.sampling_temperature}
        overrides["sampling"] = Sampling(**temperature, **given(arguments, SAMPLING_OPTIONS))
        overrides["beam_size"] = 1
    for option in ("alignments", "attention", "attention_plot", "show_attention", "replace_unknown"):
        if getattr(arguments, option) and not translator.attends:
            name, runs = option.replace("_", "-"), ", ".join(arguments.model)
            raise ConfigError(f"--{name}: {runs} has no attention (model.attention.type is none)")
    return SearchOptions.from_config(
        translator.decoding,
        n_best=arguments.n_best,
        attention=any(given(arguments, ("alignments", "attention", "attention_plot"))) or arguments.show_attention,
        risk=risk(arguments),
        unknown=unknown_words(arguments, translator.tokenizers),
        shortlist=load_shortlist(arguments.shortlist, arguments.model, translator.tokenizers),
        **overrides,
    )


def with_prefixes(lines: Iterator[str], name: str, path: str | None) -> tuple[Iterator[str], list[str]]:
    """Read all lines of ``name`` and their prefixes. Raises DataError for a file without a line for each of them."""
    if path is None:
        return lines, []
    read, prefixes = list(lines), list(read_lines(path))
    refuse_other_prefixes(name, len(read), path, len(prefixes))
    return iter(read), prefixes
