"""``nmt-evaluate``: BLEU and chrF of a run, or of translations in a file, and a table by source length."""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from nmt.cli.common import DEVICE_OPTIONS, SEARCH_OPTIONS, add_decoding_options, command, given, say, writing
from nmt.config import load_config
from nmt.config.schema import Evaluation
from nmt.corpus import read_lines
from nmt.errors import ConfigError, DataError
from nmt.evaluation.by_length import format_rows, format_scores, score_system

PROGRESS_SECONDS = 10.0


def parser() -> argparse.ArgumentParser:
    """The options of ``nmt-evaluate``."""
    arguments = argparse.ArgumentParser(prog="nmt-evaluate", description=__doc__)
    system = arguments.add_mutually_exclusive_group(required=True)
    system.add_argument("--model", metavar="RUN", help="a run directory: the source is translated with it first")
    system.add_argument("--hypotheses", metavar="FILE", help="translations of the source, one a line")
    add_test_set_options(arguments)
    arguments.add_argument("--json", metavar="FILE", help="write the scores there, too")
    arguments.add_argument("--output", metavar="FILE", help="write the translations of the run there")
    add_decoding_options(arguments)
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Score one system; the results go to standard output."""
    sources, references = read_test_set(arguments.source, arguments.reference)
    evaluation = Evaluation()
    if arguments.model is None:
        refuse_decoding_options(arguments, "--hypotheses is given")
        if arguments.output is not None:
            raise ConfigError("--output: there is nothing to write: --hypotheses is given, no run to translate with")
        hypotheses = read_hypotheses(arguments.hypotheses, arguments.source, len(sources))
    else:
        translations = translate(arguments.model, arguments.source, sources, arguments)
        evaluation = load_config(Path(arguments.model) / "config.yaml").evaluation
        hypotheses = list(translations) if arguments.output is None else write_lines(arguments.output, translations)
    system = score_system(
        Path(arguments.model or arguments.hypotheses).name,
        sources,
        hypotheses,
        references,
        bins=arguments.bins or evaluation.bins,
        resamples=evaluation.bootstrap,
    )
    print(format_scores(system))
    print(format_rows(system.rows))
    if arguments.json is not None:
        write_lines(arguments.json, [json.dumps(system.as_dict(), ensure_ascii=False, indent=1)])


# --- shared with nmt-length-curve -------------------------------------------------------------------------------------


def add_test_set_options(arguments: argparse.ArgumentParser) -> None:
    """``--source``, ``--reference`` and ``--bins``."""
    arguments.add_argument("--source", required=True, metavar="FILE", help="raw source lines (also .gz, .xz)")
    arguments.add_argument("--reference", required=True, metavar="FILE", help="their translations, raw")
    arguments.add_argument(
        "--bins",
        type=bin_edges,
        metavar="N,N,...",
        help="longest source of each bin, in words; what is longer is one more bin "
        f"(default: {','.join(map(str, Evaluation().bins))}, or as the configuration of the first run says)",
    )


def bin_edges(text: str) -> tuple[int, ...]:
    """An argument type: ascending whole numbers of at least 1, separated by commas."""
    try:
        edges = tuple(int(edge) for edge in text.split(","))
    except ValueError:
        edges = ()
    if not edges or edges[0] < 1 or list(edges) != sorted(set(edges)):
        raise argparse.ArgumentTypeError(f"'{text}' are not ascending lengths in words, as in 10,20,30")
    return edges


def read_test_set(source: str, reference: str) -> tuple[list[str], list[str]]:
    """The lines of both files. Raises DataError where they are empty or their counts differ."""
    sources, references = list(read_lines(source)), list(read_lines(reference))
    _same_count(reference, references, source, len(sources))
    if not sources:
        raise DataError(f"{source}: no lines in it")
    return sources, references


def read_hypotheses(path: str, source: str, count: int) -> list[str]:
    """Translations from a file. Raises DataError unless there are ``count``, one for each line of ``source``."""
    hypotheses = list(read_lines(path))
    _same_count(path, hypotheses, source, count)
    return hypotheses


def _same_count(path: str, lines: Sequence[str], source: str, count: int) -> None:
    if len(lines) != count:
        raise DataError(
            f"{source} has {count:,} lines and {path} has {len(lines):,}: "
            f"line n of one must be the translation of line n of the other"
        )


def refuse_decoding_options(arguments: argparse.Namespace, why: str) -> None:
    """Raise ConfigError if the command line says how to translate although nothing will be translated."""
    useless = [name.replace("_", "-") for name in given(arguments, SEARCH_OPTIONS + DEVICE_OPTIONS)]
    if useless:
        raise ConfigError(*(f"--{name}: has no effect: {why}" for name in useless))


def translate(run: str, source: str, lines: Sequence[str], arguments: argparse.Namespace) -> Iterator[str]:
    """The best translation of each line of ``source``, as it comes; progress on standard error.

    The run is loaded at once. Raises CheckpointError if it cannot be used, ConfigError for a device that is not there.
    """
    from nmt.translator import SearchOptions, Translator  # noqa: PLC0415  (PyTorch is slow; scoring files needs none)

    translator = Translator.load(run, **given(arguments, DEVICE_OPTIONS))
    options = SearchOptions.from_config(translator.decoding, **given(arguments, SEARCH_OPTIONS))

    def warn(number: int, problem: str) -> None:
        say(f"warning: {source}:{number}: {problem}")

    return _reported((each.text for each in translator.translate(lines, options, warn=warn)), run, len(lines))


def _reported(hypotheses: Iterator[str], run: str, count: int) -> Iterator[str]:
    """The same lines; how far they are, now and then on standard error."""
    started = said = time.monotonic()
    for number, line in enumerate(hypotheses, 1):
        yield line
        now = time.monotonic()
        if now - said >= PROGRESS_SECONDS or number == count:
            said = now
            say(f"{run}: {number:,} of {count:,} lines translated, {now - started:.0f}s")


def write_lines(path: str, lines: Iterable[str]) -> list[str]:
    """Write lines to a file as they come, and return them. Raises DataError where the file cannot be written."""
    written = []
    with writing(path), Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(f"{line}\n")
            written.append(line)
    return written
