"""Score given translations: how probable a run finds each one.

For each pair a line of three numbers with tabs between them: the score by which search ranks translations, the
log-probability, and its mean over the pieces of the translation. Logarithms are natural; the end symbol is a piece.

examples:
  nmt-score --model runs/en-fr --source test.en --target test.fr --pieces test.jsonl --alignments test.align
  nmt-score --model runs/en-fr --source test.en --target test.5-best.fr --n-best 5 --output test.5-best.scores
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.cli.common import command, importing, say
from nmt.cli.files import refuse_missing, refuse_overwriting, refuse_unwritable
from nmt.cli.options import CommandParser, number, whole
from nmt.cli.streams import count_lines, open_input, open_outputs
from nmt.config.schema import LARGEST_BATCH, LARGEST_LENGTH_PENALTY
from nmt.data.corpus import Pair, different_line_counts
from nmt.errors import ConfigError, DataError
from nmt.evaluation.alignment import format_pharaoh, likeliest_links, word_weights
from nmt.messages import counted

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.translation.forced import ForcedDecoding, Warn


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-score``."""
    arguments = CommandParser(prog="nmt-score", description=__doc__)
    arguments.add_argument("--model", required=True, metavar="RUN", help="run directory of nmt-train")
    arguments.add_argument("--source", required=True, metavar="FILE", help="raw source text, also as .gz or .xz")
    arguments.add_argument("--target", required=True, metavar="FILE", help="raw translations, line by line")
    arguments.add_argument(
        "--n-best",
        type=whole(1),
        default=1,
        metavar="N",
        help="the translations have N lines for each line of the source, as nmt-translate --n-best N writes them",
    )
    arguments.add_argument("--output", metavar="FILE", help="numbers, a line for each pair (default: standard output)")
    arguments.add_argument(
        "--pieces",
        metavar="FILE",
        help="write source pieces, target pieces and the log-probability of each, one JSON object per pair",
    )
    arguments.add_argument(
        "--alignments", metavar="FILE", help="write word alignments: i-j joins source word i and target word j, from 0"
    )
    arguments.add_argument(
        "--length-penalty",
        type=number(0, LARGEST_LENGTH_PENALTY),
        metavar="A",
        help="exponent of the length penalty of the score (default: decoding.length_penalty of the run)",
    )
    add_batch_options(arguments)
    return arguments


def add_batch_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--batch-tokens`` and ``--device``: how much a command that reads both sides takes at once, and where."""
    parser.add_argument(
        "--batch-tokens",
        type=whole(1, LARGEST_BATCH),
        default=4096,
        metavar="N",
        help="maximum number of pieces of either side per batch, padding included",
    )
    parser.add_argument(
        "--device", metavar="NAME", default="auto", help="auto (a GPU if there is one), cpu, cuda, cuda:1, ..."
    )


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Score; every error in the options or files comes before anything is written, but for different line counts."""
    check_files(arguments)
    pairs = read_pairs(arguments.source, arguments.target, arguments.n_best)
    with importing():
        from nmt.device import resolve_device  # noqa: PLC0415
        from nmt.runs.loading import load_run  # noqa: PLC0415
        from nmt.translation.forced import force_stream  # noqa: PLC0415
        from nmt.translation.options import longest  # noqa: PLC0415

    device = resolve_device(arguments.device)
    run = load_run(Path(arguments.model), device)
    if arguments.alignments is not None and not run.model.attends:
        raise ConfigError(f"--alignments: {arguments.model} has no attention (model.attention.type is none)")
    decoding = run.config.decoding
    alpha = decoding.length_penalty if arguments.length_penalty is None else arguments.length_penalty
    scored = force_stream(
        run.network,
        run.tokenizers,
        pairs,
        device,
        max_source=decoding.max_source,
        max_target=longest(decoding.max_source, decoding.max_length_factor),
        batch_tokens=arguments.batch_tokens,
        keep_attention=arguments.alignments is not None,
        warn=warning(arguments),
    )
    with ExitStack() as stack:
        outputs = open_outputs(
            (arguments.output, lambda _, forced: format_numbers(forced, alpha)),
            (arguments.pieces, lambda _, forced: format_pieces(forced)),
            (arguments.alignments, format_links),
            stack=stack,
        )
        if arguments.output is not None or not sys.stdout.isatty():
            scored = counted(scored, arguments.target, count_lines(arguments.target), "lines")
        for pair, forced in scored:
            lines = [output.format(pair, forced) for output in outputs]
            for output, line in zip(outputs, lines, strict=True):  # all or none: line counts stay equal
                output.write([line])
        for output in outputs:
            output.write([])  # empty input: truncate an older file, too


# --- input ------------------------------------------------------------------------------------------------------------


def check_files(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for an output that is an input or another output, DataError for one that is not writable."""
    read, written = (
        [(f"--{option}", getattr(arguments, option)) for option in options]
        for options in (("source", "target", "model"), ("output", "pieces", "alignments"))
    )
    refuse_overwriting(read, written)
    refuse_missing([arguments.source, arguments.target], [arguments.model])
    refuse_unwritable(*(path for _, path in written))


def read_pairs(source: str, target: str, n_best: int) -> Iterator[Pair]:
    """Read ``n_best`` translations for each line of the source, as they come.

    Raises DataError at once for a file that cannot be read, and at the end of the shorter one if the line counts do
    not fit.
    """
    return _paired(open_input(source), open_input(target), n_best)


def _paired(source: tuple[str, Iterator[str]], target: tuple[str, Iterator[str]], n_best: int) -> Iterator[Pair]:
    repeated = (line for line in source[1] for _ in range(n_best))
    rows = zip_longest(repeated, target[1])
    for read, (line, translation) in enumerate(rows):
        if line is None or translation is None:
            longer = read + 1 + sum(1 for _ in rows)
            sources, targets = (read, longer) if line is None else (longer, read)
            if n_best == 1:
                raise different_line_counts(source[0], sources, target[0], targets)
            raise DataError(
                f"{source[0]} has {sources // n_best:,} lines and {target[0]} has {targets:,}: with --n-best {n_best} "
                f"there must be {n_best} translations of each line"
            )
        yield Pair(line, translation)


def warning(arguments: argparse.Namespace) -> "Warn":
    """Return what tells of a line that is cut off, once for each line."""

    def warn(side: str, pair: int, problem: str) -> None:
        copies = arguments.n_best if side == "source" else 1
        line, copy = divmod(pair - 1, copies)
        if copy == 0:
            say(f"{arguments.command}: warning: {getattr(arguments, side)}:{line + 1}: {problem}")

    return warn


# --- output -----------------------------------------------------------------------------------------------------------


def format_numbers(forced: "ForcedDecoding", alpha: float) -> str:
    """Return score, log-probability, and log-probability per piece."""
    return f"{forced.score(alpha):.4f}\t{forced.log_probability:.4f}\t{forced.per_piece:.4f}"


def format_pieces(forced: "ForcedDecoding") -> str:
    """Return a JSON object: source pieces, target pieces, and the log-probability of each target piece."""
    rounded = [round(each, 4) for each in forced.log_probabilities.tolist()]
    content = {"source": forced.source_pieces, "target": forced.target_pieces, "log_probabilities": rounded}
    return json.dumps(content, ensure_ascii=False)


def format_links(pair: Pair, forced: "ForcedDecoding") -> str:
    """Return links between whitespace words: ``i-j`` joins source word i and target word j."""
    if forced.attention is None:  # a blank pair
        return ""
    words = word_weights(forced.attention, forced.source_pieces, forced.target_pieces, *pair)
    return format_pharaoh(likeliest_links(words))
