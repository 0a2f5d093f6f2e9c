"""Draw the attention of one or more systems to a sentence, side by side.

Words are on both axes, source along the top, and weights are grey (Bahdanau et al. 2015, Fig. 3). Each system shows its
own translation, or reads a reference.

examples:
  nmt-plot attention --model runs/en-fr --text 'the old cat sleeps .' --output attention
  nmt-plot attention --model runs/en-fr --model luong=runs/luong --input test.en --line 3 --output attention
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.cli.common import command, importing, say
from nmt.cli.decoding import SEARCH_OPTIONS, add_decoding_options, tell_precision, warn, warn_of_line
from nmt.cli.files import refuse_overwriting
from nmt.cli.options import CommandParser, given, refuse_useless, whole
from nmt.cli.pictures import about_words, attention_map, layers_and_heads, which_weights
from nmt.cli.streams import open_input
from nmt.cli.systems import System, add_figure_options, maybe_named, with_names
from nmt.config import Config, load_run_config
from nmt.config.schema import TransformerAttention
from nmt.data.corpus import Pair
from nmt.data.lines import read_lines
from nmt.errors import CheckpointError, ConfigError, DataError, tried
from nmt.files import printable
from nmt.library.evaluation import origin_of
from nmt.plots.about import made_with
from nmt.plots.attention import KINDS, AttentionMap, write_attention
from nmt.plots.files import make_folder

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.runs.loading import LoadedRun


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-plot attention``."""
    arguments = CommandParser(prog="nmt-plot attention", description=__doc__)
    arguments.add_argument(
        "--model",
        required=True,
        action="extend",
        nargs="+",
        type=maybe_named,
        dest="models",
        metavar="[NAME=]RUN",
        help="run directory of nmt-train; several systems are drawn side by side",
    )
    arguments.add_argument("--text", metavar="TEXT", help="sentence to translate (default: a line of --input)")
    arguments.add_argument(
        "--input", metavar="FILE", help="text with the sentence, also as .gz or .xz (default: standard input)"
    )
    arguments.add_argument("--line", type=whole(1), metavar="N", help="line of --input to translate (default: 1)")
    arguments.add_argument(
        "--reference",
        metavar="TEXT_OR_FILE",
        help="translation that every system reads in place of its own: text with --text, otherwise a file with a line "
        "for each of --input",
    )
    arguments.add_argument(
        "--pieces", action="store_true", help="label subword pieces, which are otherwise joined to words"
    )
    for name, default in (("layer", "the one that its configuration names"), ("head", "the mean of all heads")):
        arguments.add_argument(
            f"--{name}",
            type=_numbers,
            metavar="N,N,...",
            help=f"{name}s of a Transformer's attention, from 1, each in a heat map of its own (default: {default})",
        )
    add_figure_options(arguments, "write STEM.png, .svg and .json")
    add_decoding_options(arguments)
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Translate with every system, or read the reference, and draw the figure."""
    systems = with_names(arguments.models)
    check(arguments, systems)
    configs = load_configs(arguments, systems)
    where, source, reference = read_sentence(arguments)
    make_folder(arguments.output)
    with importing():
        from nmt.device import resolve_device  # noqa: PLC0415
        from nmt.runs.loading import load_run  # noqa: PLC0415  (PyTorch is slow to import)

    device = resolve_device(arguments.device or "auto")
    maps = []
    for system, config in configs:
        run = load_run(system.path, device, attention=config.model.attention)
        shown = read(arguments, run, source, reference, where, system.name)
        maps.append(shown)
    paths = write_attention(
        maps,
        arguments.output,
        title=arguments.title,
        caption=caption(arguments, dict(configs), where, maps, forced=reference is not None),
        facts={"source": source, "reference": reference},
        dpi=arguments.dpi,
    )
    say("written: " + ", ".join(map(str, paths)))


def caption(
    arguments: argparse.Namespace,
    configs: Mapping[System, Config],
    where: str,
    maps: Sequence[AttentionMap],
    *,
    forced: bool,
) -> list[str]:
    """Say where the sentence and its translations are from, and what a weight between words is."""
    search = given(arguments, SEARCH_OPTIONS)
    origins = {
        system.name: [origin_of(system.path, config, search, searched=not forced)] for system, config in configs.items()
    }
    sentences = [] if arguments.text is not None else [f"Sentence: {where}"]
    sentences.append(f"Target: {'the reference (forced decoding)' if forced else 'own translation of each system'}")
    sentences += made_with(origins)
    return [" ".join([*(f"{each}." for each in sentences), *about_words(maps)])]


def check(arguments: argparse.Namespace, systems: Sequence[System]) -> None:
    """Raise ConfigError for options that contradict each other or have no effect, and for outputs that are inputs."""
    if arguments.text is not None:
        refuse_useless(arguments, ("input", "line"), "with --text, which is the sentence")
        if len(arguments.text.splitlines()) > 1:
            raise ConfigError("--text: has several lines; give one sentence, or a file with --input")
    if arguments.reference is not None:
        refuse_useless(arguments, (*SEARCH_OPTIONS, "precision"), "with --reference, which is read without a search")
    files = [("--input", arguments.input)] + [("--model", system.path) for system in systems]
    if arguments.text is None:
        files.append(("--reference", arguments.reference))
    written = [(f"--output {arguments.output}:", f"{arguments.output}{ending}") for ending in KINDS]
    refuse_overwriting(files, written)


def load_configs(arguments: argparse.Namespace, systems: Sequence[System]) -> list[tuple[System, Config]]:
    """Load the configuration of each system, once for each layer and head of it that is wanted.

    Raises CheckpointError for a path that is no run, ConfigError for one without attention or without that layer or
    head.
    """
    configs, problems = [], []
    for system in systems:
        if not Path(system.path).is_dir():
            raise CheckpointError(f"{system.path}: no such run directory{tried(system.path)}; nmt-train makes one")
        config = load_run_config(system.path)
        attention = config.model.attention
        if attention.type == "none":
            problems.append(f"--model {system.path}: has no attention (model.attention.type is none); leave it out")
        if not isinstance(attention, TransformerAttention):
            configs.append((system, config))
            continue
        sizes = dict(zip(("layer", "head"), layers_and_heads(config), strict=True))
        for name, size in sizes.items():
            if max(getattr(arguments, name) or [1]) > size:
                problems.append(f"--{name} {max(getattr(arguments, name))}: {system.path} has {size} {name}s")
        for layer, head in product(arguments.layer or [attention.layer], arguments.head or [attention.head]):
            section = attention.model_copy(update={"layer": layer, "head": head})
            model = config.model.model_copy(update={"attention": section})
            configs.append((system, config.model_copy(update={"model": model})))
    if not any(isinstance(config.model.attention, TransformerAttention) for _, config in configs):
        refuse_useless(arguments, ("layer", "head"), "because no --model is a Transformer")
    if problems:
        raise ConfigError(*problems)
    return configs


def read_sentence(arguments: argparse.Namespace) -> tuple[str, str, str | None]:
    """Return where the sentence is from, the sentence, and its reference if one is given.

    Raises DataError for a blank one, and for a file without the line.
    """
    if arguments.text is not None:
        where, source, reference = "--text", arguments.text, arguments.reference
    else:
        number = arguments.line or 1
        name, lines = open_input(arguments.input)
        if arguments.input is None and sys.stdin.isatty():
            say("type a sentence; --text TEXT gives it on the command line")
        where = f"{printable(Path(name).name)}:{number}"
        source, reference = _line(name, lines, number), None
        if arguments.reference is not None:
            reference = _line(arguments.reference, read_lines(arguments.reference), number)
    for name, text in ((where, source), ("--reference", reference)):
        if text is not None and not text.strip():
            raise DataError(f"{name}: is blank; attention needs words")
    return where, source, reference


def read(
    arguments: argparse.Namespace, run: "LoadedRun", source: str, reference: str | None, where: str, system: str
) -> AttentionMap:
    """Let a system translate the source, or read its reference, and return its attention; print its translation.

    Raises DataError if the translation is empty.
    """
    from nmt.device import resolve_precision  # noqa: PLC0415
    from nmt.translation.forced import force  # noqa: PLC0415
    from nmt.translation.options import SearchOptions  # noqa: PLC0415
    from nmt.translation.translator import Translator  # noqa: PLC0415

    device = next(run.model.parameters()).device
    note = which_weights(run.config)
    name = f"{system} ({note})" if note else system
    if reference is not None:
        [forced] = force(
            run.network,
            run.tokenizers,
            [Pair(source, reference)],
            device,
            warn=lambda side, line, problem: warn(arguments, f"{where}: {side} {problem}"),
        )
        attention, target = forced.attention, reference
        source_pieces, target_pieces = forced.source_pieces, forced.target_pieces
        print(f"{name}: log-probability of the reference {forced.log_probability:.2f}")
    else:
        named = arguments.precision or "fp32"
        precision = None if named == "auto" else resolve_precision(named, device)
        translator = Translator.of(run, device, precision, arguments.beam_size)
        tell_precision(translator, arguments)
        options = SearchOptions.from_config(run.config.decoding, attention=True, **given(arguments, SEARCH_OPTIONS))
        [translation] = translator.stream([source], options, warn=warn_of_line(arguments, where))
        best = translation.hypotheses[0]
        attention, target = best.attention, best.text
        source_pieces, target_pieces = translation.source_pieces, best.pieces
        print(f"{name}: {target}")
    if attention is None or not attention.size:
        raise DataError(f"{where}: {system} has no attention to it: its translation is empty")
    labels = attention_map(
        attention, source_pieces, target_pieces, source, target, config=run.config, pieces=arguments.pieces
    )
    return replace(labels, system=system, note=note)


def _line(name: str, lines: Iterator[str], number: int) -> str:
    line = next(islice(lines, number - 1, None), None)
    if line is None:
        hint = "; give a sentence with --text or --input" if name == "standard input" else ""
        raise DataError(f"{name}: has no line {number}{hint}")
    return line


def _numbers(text: str) -> list[int]:
    try:
        found = [int(each) for each in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of whole numbers from 1, such as 1,2")
    return list(dict.fromkeys(found))
