"""``nmt-evaluate``: BLEU and chrF of a run, or of translations in a file, and a table by source length."""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nmt.cli.common import (
    DEVICE_OPTIONS,
    SEARCH_OPTIONS,
    add_decoding_options,
    command,
    given,
    importing,
    refuse_overwriting,
    refuse_unwritable,
    say,
    with_progress,
    writing,
)
from nmt.cli.scoring import add_tokenizer_option, scoring
from nmt.config import load_run_config
from nmt.config.schema import Evaluation
from nmt.data.corpus import Pair
from nmt.data.language_id import LanguageId
from nmt.data.lines import read_lines
from nmt.errors import ConfigError, DataError
from nmt.evaluation.alignment import Weights
from nmt.evaluation.by_length import format_rows, format_scores, score_system
from nmt.evaluation.links import GoldPairs, alignment_report, format_alignment, read_gold
from nmt.evaluation.writing import BinnedBy, lengths
from nmt.foundation.files import printable

PROGRESS_SECONDS = 10.0


def parser() -> argparse.ArgumentParser:
    """The options of ``nmt-evaluate``."""
    arguments = argparse.ArgumentParser(prog="nmt-evaluate", description=__doc__)
    system = arguments.add_mutually_exclusive_group(required=True)
    system.add_argument("--model", metavar="RUN", help="a run directory: the source is translated with it first")
    system.add_argument("--hypotheses", metavar="FILE", help="translations of the source, one a line")
    add_test_set_options(arguments)
    add_tokenizer_option(arguments)
    arguments.add_argument(
        "--gold",
        metavar="FILE",
        help="word links of each pair, i-j sure and ipj possible (i of the source): also score as word alignment the "
        "attention of --model reading the reference",
    )
    arguments.add_argument("--gold-first", type=int, choices=(0, 1), metavar="N", help="number of a first word (0)")
    arguments.add_argument(
        "--reverse", metavar="RUN", help="with --gold: a run of the other direction, to join the links of both"
    )
    arguments.add_argument("--json", metavar="FILE", help="write the scores there, too")
    arguments.add_argument("--output", metavar="FILE", help="write the translations of the run there")
    add_decoding_options(arguments)
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Score one system; the results go to standard output."""
    options = ("source", "reference", "hypotheses", "gold", "model", "reverse")
    read = [(f"--{option}", getattr(arguments, option)) for option in options]
    written = [(f"--{option}", getattr(arguments, option)) for option in ("output", "json")]
    refuse_overwriting(read, written)
    sources, references = read_test_set(arguments.source, arguments.reference)
    evaluation, alignment = Evaluation(), None
    gold = check_gold(arguments)
    for _, path in written:
        if path is not None:
            refuse_unwritable(path)
    if arguments.model is None:
        refuse_decoding_options(arguments, "--hypotheses is given")
        if arguments.output is not None:
            raise ConfigError("--output: there is nothing to write: --hypotheses is given, no run to translate with")
        hypotheses = read_hypotheses(arguments.hypotheses, arguments.source, len(sources))
        how = scoring(arguments.bleu_tokenizer, {}, sources, references)
    else:
        translations = translate(arguments.model, arguments.source, sources, arguments)
        config = load_run_config(arguments.model)
        evaluation = config.evaluation
        how = scoring(arguments.bleu_tokenizer, {arguments.model: config}, sources, references)
        if gold is not None:
            alignment = align(arguments, gold)
        hypotheses = list(translations) if arguments.output is None else write_lines(arguments.output, translations)
    system = score_system(
        printable(Path(arguments.model or arguments.hypotheses).name),
        lengths(sources, how.source_unit),
        hypotheses,
        references,
        tokenizer=how.tokenizer,
        bins=arguments.bins or evaluation.bins,
        resamples=evaluation.bootstrap,
    )
    print(format_scores(system))
    binned_by = BinnedBy("source", how.source_unit)
    print(format_rows(system.rows, binned_by.column))
    scores = system.as_dict() | {"binned_by": str(binned_by)}
    if alignment is not None:
        print(format_alignment(alignment))
        scores["alignment"] = alignment
    if arguments.json is not None:
        write_lines(arguments.json, [json.dumps(scores, ensure_ascii=False, indent=1)])


def check_gold(arguments: argparse.Namespace) -> GoldPairs | None:
    """The gold links, if there are to be any. Raises ConfigError for options without effect, DataError for files."""
    if arguments.gold is None:
        useless = [name for name in ("gold_first", "reverse") if getattr(arguments, name) is not None]
        if useless:
            raise ConfigError(*(f"--{name.replace('_', '-')}: has no effect: --gold is not given" for name in useless))
        return None
    if arguments.model is None:
        raise ConfigError("--gold: has no effect: --hypotheses is given; attention comes from --model")
    return read_gold(arguments.source, arguments.reference, arguments.gold, first=arguments.gold_first or 0)


def align(arguments: argparse.Namespace, gold: GoldPairs) -> dict[str, Any]:
    """How well the attention of a run, made to read the references, links the words that people have linked."""
    with importing():
        from nmt.foundation.device import resolve_device  # noqa: PLC0415
        from nmt.runs.loading import load_run  # noqa: PLC0415  (PyTorch, as below)
        from nmt.translation.forced import word_attention  # noqa: PLC0415

    device = resolve_device(arguments.device or "auto")

    def attention(option: str, run: str, pairs: Sequence[Pair]) -> list[Weights]:
        loaded = load_run(run, device)
        if not loaded.model.attends:
            raise ConfigError(f"{option}: {run} has no attention (model.attention.type is none)")
        return word_attention(loaded.network, loaded.tokenizers, pairs, device)

    if arguments.reverse is not None:
        check_directions(arguments.model, arguments.reverse)
        backward = attention("--reverse", arguments.reverse, [Pair(pair.target, pair.source) for pair in gold.pairs])
    else:
        backward = None
    return alignment_report(gold, attention("--gold", arguments.model, gold.pairs), backward)


def check_directions(run: str, reverse: str) -> None:
    """Raise ConfigError unless one run translates the way back of the other."""
    data, other = (load_run_config(each).data for each in (run, reverse))
    if (data.source_language, data.target_language) != (other.target_language, other.source_language):
        raise ConfigError(
            f"--reverse: {reverse} translates {other.source_language} to {other.target_language}; wanted is "
            f"{data.target_language} to {data.source_language}, the way back of {run}"
        )


# --- shared with nmt-length-curve -------------------------------------------------------------------------------------


def add_test_set_options(arguments: argparse.ArgumentParser) -> None:
    """``--source``, ``--reference`` and ``--bins``."""
    arguments.add_argument("--source", required=True, metavar="FILE", help="raw source lines (also .gz, .xz)")
    arguments.add_argument("--reference", required=True, metavar="FILE", help="their translations, raw")
    arguments.add_argument(
        "--bins",
        type=bin_edges,
        metavar="N,N,...",
        help="largest length of each bin, in words, or in characters if the language has no spaces between words; "
        "longer sentences form one more bin "
        f"(default: {','.join(map(str, Evaluation().bins))}, or as the configuration of the first run says)",
    )


def bin_edges(text: str) -> tuple[int, ...]:
    """An argument type: ascending whole numbers of at least 1, separated by commas."""
    try:
        edges = tuple(int(edge) for edge in text.split(","))
    except ValueError:
        edges = ()
    if not edges or edges[0] < 1 or list(edges) != sorted(set(edges)):
        raise argparse.ArgumentTypeError(f"'{text}' are not ascending lengths, as in 10,20,30")
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
    with importing():
        from nmt.translation.options import SearchOptions  # noqa: PLC0415  (PyTorch is slow; scoring files needs none)
        from nmt.translation.translator import Translator  # noqa: PLC0415  (PyTorch is slow; scoring files needs none)

    translator = Translator.load(run, **given(arguments, DEVICE_OPTIONS))
    options = SearchOptions.from_config(translator.decoding, **given(arguments, SEARCH_OPTIONS))
    if problem := translator.slow_precision():
        say(f"warning: --precision int8: {problem}")

    def warn(number: int, problem: str) -> None:
        say(f"warning: {source}:{number}: {problem}")

    def warn_of_language() -> None:
        say(f"warning: {source}: looks like the language that {run} translates into, not the one it translates from")

    language_id = LanguageId.load(Path(run))
    watched = language_id.watched(lines, warn_of_language) if language_id else lines
    hypotheses = (each.text for each in translator.translate(watched, options, warn=warn))
    if sys.stderr.isatty():
        return with_progress(hypotheses, len(lines), run)
    return _reported(hypotheses, run, len(lines))


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
