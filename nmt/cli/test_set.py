"""The test set of a command: its options, its files, and its translation by a run."""

import argparse
from collections.abc import Iterator, Sequence

from nmt.cli.common import importing
from nmt.cli.decoding import SEARCH_OPTIONS, load_models, translate_lines
from nmt.cli.options import given
from nmt.config.schema import Evaluation


def add_test_set_options(arguments: argparse.ArgumentParser) -> None:
    """Add ``--source``, ``--reference`` and ``--bins``."""
    arguments.add_argument("--source", required=True, metavar="FILE", help="raw source text, also as .gz or .xz")
    arguments.add_argument("--reference", required=True, metavar="FILE", help="raw reference translations")
    arguments.add_argument(
        "--bins",
        type=bin_edges,
        metavar="N,N,...",
        help="maximum length of each bin, in words, or in characters for a language without spaces between words; "
        "longer sentences form one more bin (default: evaluation.bins of the first run; without a run "
        f"{','.join(map(str, Evaluation().bins))})",
    )


def bin_edges(text: str) -> tuple[int, ...]:
    """Parse an argument: ascending whole numbers of at least 1, separated by commas."""
    try:
        edges = tuple(int(edge) for edge in text.split(","))
    except ValueError:
        edges = ()
    if not edges or edges[0] < 1 or list(edges) != sorted(set(edges)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of ascending lengths such as 10,20,30")
    return edges


def translate(
    runs: Sequence[str],
    source: str,
    lines: Sequence[str],
    arguments: argparse.Namespace,
) -> Iterator[str]:
    """Yield the best translation of each line of ``source``, with progress on standard error.

    Several runs translate together. They are loaded at once. Raises
    CheckpointError if one cannot be used, ConfigError if their tokenizers differ or the device is missing.
    """
    with importing():
        from nmt.translation.options import SearchOptions  # noqa: PLC0415  (PyTorch is slow to import)

    name = " + ".join(runs)
    translator = load_models(runs, arguments)
    options = SearchOptions.from_config(
        translator.decoding,
        **given(arguments, SEARCH_OPTIONS),
    )
    translations = translate_lines(
        translator,
        lines,
        options,
        arguments,
        run=runs[0],
        source=source,
        what=f"{name}: translating",
        total=len(lines),
    )
    return (each.text for each in translations)
