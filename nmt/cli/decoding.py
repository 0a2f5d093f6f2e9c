"""Decoding in a command: its options, and translation with warnings on standard error."""

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from nmt.cli.common import importing, say
from nmt.cli.options import given, number, whole
from nmt.config import load_run_config
from nmt.config.schema import (
    LARGEST_BATCH,
    LARGEST_BEAM,
    LARGEST_LENGTH_FACTOR,
    LARGEST_LENGTH_PENALTY,
    LARGEST_NGRAM,
    LARGEST_REPETITION_PENALTY,
)
from nmt.data.language_id import LEAST_LETTERS, MOST_LETTERS, watched
from nmt.messages import counted_early

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.translation.options import SearchOptions
    from nmt.translation.results import Translation
    from nmt.translation.translator import Done, Translator, Warn

SEARCH_OPTIONS = (
    "beam_size",
    "length_penalty",
    "batch_tokens",
    "coverage_penalty",
    "min_length_factor",
    "no_repeat_ngram",
    "repetition_penalty",
)
"""Options for ``SearchOptions.from_config``."""
DEVICE_OPTIONS = ("device", "precision")
"""Options for ``Translator.load``."""
PRODUCTS = 256
"""Matrix products whose code oneDNN keeps, one for each number of rows; its own choice is 1,024.

A search has all numbers of rows. In training, whose batches come again, fewer products than 1,024 cost time.
"""


def add_model_option(arguments: argparse.ArgumentParser) -> None:
    """Add ``--model``."""
    arguments.add_argument(
        "--model",
        required=True,
        nargs="+",
        action="extend",
        metavar="RUN",
        help="run directory of nmt-train; several with the same tokenizers translate together, as an ensemble",
    )


def bound_products() -> None:
    """Set ``ONEDNN_PRIMITIVE_CACHE_CAPACITY``, which oneDNN reads at its first product, to PRODUCTS, unless it is set:
    a long search then needs little memory."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PRODUCTS))


def load_models(runs: Sequence[str], arguments: argparse.Namespace, **device: str) -> "Translator":
    """Load runs that translate together, with DEVICE_OPTIONS, which ``device`` overrides; a long search with them needs
    little memory."""
    bound_products()
    with importing():
        from nmt.translation.ensemble import load_translator  # noqa: PLC0415

    return load_translator(runs, **given(arguments, (*DEVICE_OPTIONS, "beam_size")) | device)


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Add SEARCH_OPTIONS and DEVICE_OPTIONS, for :func:`~nmt.cli.options.given`."""
    group = parser.add_argument_group("decoding")
    group.add_argument(
        "--beam-size",
        type=whole(1, LARGEST_BEAM),
        metavar="N",
        help="number of hypotheses per line; 1 is greedy search (default: decoding.beam_size of the run)",
    )
    group.add_argument(
        "--length-penalty",
        type=number(0, LARGEST_LENGTH_PENALTY),
        metavar="A",
        help="exponent of the length penalty; 0 is none, larger values favor longer translations "
        "(default: decoding.length_penalty of the run)",
    )
    _add_rule_options(group)
    group.add_argument(
        "--batch-tokens",
        type=whole(1, LARGEST_BATCH),
        metavar="N",
        help="maximum number of source tokens per batch (default: decoding.batch_tokens of the run)",
    )
    group.add_argument(
        "--device", metavar="NAME", help="auto, cpu, cuda, cuda:1, ... (default: auto, a GPU if there is one)"
    )
    group.add_argument(
        "--precision",
        choices=("auto", "fp32", "bf16", "int8"),
        help="number format of matrix products, whatever the run was trained in; int8 needs a CPU; auto takes the one "
        "that a measurement of about a second finds fastest (default: fp32)",
    )


def _add_rule_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--coverage-penalty",
        type=number(0, LARGEST_LENGTH_PENALTY),
        metavar="B",
        help="weight of the coverage penalty, which ranks hypotheses lower that leave source pieces without attention; "
        "0 is none (default: decoding.coverage_penalty of the run)",
    )
    group.add_argument(
        "--min-length-factor",
        type=number(0, LARGEST_LENGTH_FACTOR),
        metavar="F",
        help="minimum length of a translation in pieces, relative to the source; 0 is none "
        "(default: decoding.min_length_factor of the run)",
    )
    group.add_argument(
        "--no-repeat-ngram",
        type=whole(0, LARGEST_NGRAM),
        metavar="N",
        help="never repeat N pieces in a row; 0 lets all repeat (default: decoding.no_repeat_ngram of the run)",
    )
    group.add_argument(
        "--repetition-penalty",
        type=number(1, LARGEST_REPETITION_PENALTY),
        metavar="P",
        help="factor of the log-probability of a piece that the translation already has; 1 is none "
        "(default: decoding.repetition_penalty of the run)",
    )


def translate_lines(
    translator: "Translator",
    lines: Iterable[str],
    options: "SearchOptions",
    arguments: argparse.Namespace,
    *,
    run: str,
    source: str,
    typed: bool = False,
    prefixes: Sequence[str] = (),
    first: int = 1,
    what: str | None = None,
    total: int | None = None,
) -> Iterator["Translation"]:
    """Translate lines as they arrive, with the warnings of :func:`watched_lines` and :func:`warn_of_line`.

    Lines ``typed`` by a person are translated one by one. ``prefixes`` has what each translation must begin with.
    ``what`` names the step in which ``total`` lines are counted; None shows no progress.
    """
    from nmt.translation.translator import uncounted  # noqa: PLC0415
    from nmt.translation.windows import WINDOW  # noqa: PLC0415

    text = watched_lines(translator, lines, arguments, run=run, source=source, typed=typed)

    def stream(done: "Done") -> Iterator["Translation"]:
        window, tell = 1 if typed else WINDOW, warn_of_line(arguments, source)
        return translator.stream(text, options, prefixes=prefixes, first=first, window=window, warn=tell, done=done)

    return stream(uncounted) if what is None else counted_early(stream, what, total, "lines")


def watched_lines(
    translator: "Translator",
    lines: Iterable[str],
    arguments: argparse.Namespace,
    *,
    run: str,
    source: str,
    typed: bool = False,
) -> Iterable[str]:
    """Say at once which precision was chosen, or that the named one is slow. While the lines pass, warn if the text
    looks like the language that ``run`` translates into; the language of lines ``typed`` by a person is judged early.

    Raises FileError or ConfigError if the run's configuration cannot be read.
    """

    def warn_of_language() -> None:
        warn(arguments, f"{source}: looks like the language that {run} translates into, not the one it translates from")

    tell_precision(translator, arguments)
    data = load_run_config(run).data
    languages = data.source_language, data.target_language
    return watched(lines, languages, warn_of_language, LEAST_LETTERS if typed else MOST_LETTERS)


def tell_precision(translator: "Translator", arguments: argparse.Namespace) -> None:
    """Say which precision ``auto`` has chosen and why, or warn that the one that was named is slower than fp32."""
    from nmt.device import format_of  # noqa: PLC0415

    if arguments.precision == "auto":
        rates = sorted(translator.rates().items(), key=lambda item: -item[1])
        listed = ", ".join(f"{format_of(precision)} {rate:,.0f}" for precision, rate in rates)
        say(f"precision: {format_of(translator.precision)}; target pieces a second on a thread: {listed}")
    elif problem := translator.slow_precision():
        warn(arguments, f"--precision {arguments.precision}: {problem}")


def warn_of_line(arguments: argparse.Namespace, source: str) -> "Warn":
    """Return what warns of lines of ``source`` that are cut off."""
    return lambda line, problem: warn(arguments, f"{source}:{line}: {problem}")


def warn(arguments: argparse.Namespace, problem: str) -> None:
    """Warn on standard error."""
    say(f"{arguments.command}: warning: {problem}")
