"""``nmt-evaluate``: BLEU and chrF of a run, or of translations in a file, and a table by source length."""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nmt.cli.common import DEVICE_OPTIONS, SEARCH_OPTIONS, add_decoding_options, command, given, say, writing
from nmt.config import load_config
from nmt.config.schema import Evaluation
from nmt.corpus import Pair, read_lines
from nmt.errors import ConfigError, DataError
from nmt.evaluation.alignment import likeliest_links, word_weights
from nmt.evaluation.by_length import format_rows, format_scores, score_system
from nmt.evaluation.links import Gold, diagonal, links_from, parse_gold, score_alignments

PROGRESS_SECONDS = 10.0


def parser() -> argparse.ArgumentParser:
    """The options of ``nmt-evaluate``."""
    arguments = argparse.ArgumentParser(prog="nmt-evaluate", description=__doc__)
    system = arguments.add_mutually_exclusive_group(required=True)
    system.add_argument("--model", metavar="RUN", help="a run directory: the source is translated with it first")
    system.add_argument("--hypotheses", metavar="FILE", help="translations of the source, one a line")
    add_test_set_options(arguments)
    arguments.add_argument(
        "--gold",
        metavar="FILE",
        help="word links of each pair, i-j sure and ipj possible (i of the source): also score as word alignment the "
        "attention of --model reading the reference",
    )
    arguments.add_argument("--gold-first", type=int, choices=(0, 1), metavar="N", help="number of a first word (0)")
    arguments.add_argument("--json", metavar="FILE", help="write the scores there, too")
    arguments.add_argument("--output", metavar="FILE", help="write the translations of the run there")
    add_decoding_options(arguments)
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Score one system; the results go to standard output."""
    sources, references = read_test_set(arguments.source, arguments.reference)
    evaluation, alignment = Evaluation(), None
    gold = read_gold(arguments, len(sources)) if arguments.gold is not None else None
    if gold is None and arguments.gold_first is not None:
        raise ConfigError("--gold-first: has no effect: --gold is not given")
    if arguments.model is None:
        refuse_decoding_options(arguments, "--hypotheses is given")
        if arguments.output is not None:
            raise ConfigError("--output: there is nothing to write: --hypotheses is given, no run to translate with")
        hypotheses = read_hypotheses(arguments.hypotheses, arguments.source, len(sources))
    else:
        if gold is not None:
            alignment = align(arguments, sources, references, gold)
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
    scores = system.as_dict()
    if alignment is not None:
        print(format_alignment(alignment))
        scores["alignment"] = alignment
    if arguments.json is not None:
        write_lines(arguments.json, [json.dumps(scores, ensure_ascii=False, indent=1)])


def read_gold(arguments: argparse.Namespace, count: int) -> list[Gold]:
    """The gold links of each pair. Raises ConfigError without a model to align with, DataError for a wrong file."""
    if arguments.model is None:
        raise ConfigError("--gold: has no effect: --hypotheses is given; attention comes from --model")
    lines = list(read_lines(arguments.gold))
    _same_count(arguments.gold, lines, arguments.source, count)
    first = arguments.gold_first or 0
    return [parse_gold(line, f"{arguments.gold}:{number}", first=first) for number, line in enumerate(lines, 1)]


def align(
    arguments: argparse.Namespace, sources: Sequence[str], references: Sequence[str], gold: Sequence[Gold]
) -> dict[str, Any]:
    """How well the attention of a run, made to read the references, links the words that people have linked.

    By the source word that each target word looks at most, by all of at least some weight, and by the diagonal.
    """
    from nmt.checkpoint import load_run  # noqa: PLC0415  (PyTorch, as below)
    from nmt.device import resolve_device  # noqa: PLC0415
    from nmt.forced import force  # noqa: PLC0415

    device = resolve_device(arguments.device or "auto")
    run = load_run(arguments.model, device)
    if not run.model.has_attention:
        raise ConfigError(f"--gold: {arguments.model} has no attention (model.attention.type is none)")
    pairs = [Pair(*each) for each in zip(sources, references, strict=True)]
    weights = []
    for pair, each in zip(pairs, force(run.model, run.tokenizers, pairs, device), strict=True):
        assert each.attention is not None
        weights.append(word_weights(each.attention, each.source_pieces, each.target_pieces, *pair))
    likeliest = [frozenset(likeliest_links(each)) for each in weights]
    diagonals = [diagonal(len(pair.source.split()), len(pair.target.split())) for pair in pairs]
    return {
        "likeliest": asdict(score_alignments(gold, likeliest)),
        "diagonal": asdict(score_alignments(gold, diagonals)),
        "thresholds": [
            {"threshold": threshold} | asdict(score_alignments(gold, [links_from(each, threshold) for each in weights]))
            for threshold in (round(0.05 * k, 2) for k in range(1, 20))
        ],
    }


def format_alignment(alignment: dict[str, Any]) -> str:
    """The error rates for a person."""
    best = min(alignment["thresholds"], key=lambda row: float(row["error_rate"]))
    rows = {
        "likeliest source word": alignment["likeliest"],
        f"weights from {best['threshold']:.2f} on": best,
        "diagonal": alignment["diagonal"],
    }
    return "\n".join(
        f"AER {row['error_rate']:.3f}  precision {row['precision']:.3f}  recall {row['recall']:.3f}  {name}"
        for name, row in rows.items()
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
