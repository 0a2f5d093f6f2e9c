"""Make a shortlist: for each source piece the target pieces by which it is usually translated.

The run's attention while it reads a parallel text says which these are. nmt-translate --shortlist searches among the
pieces of a line's list alone. The size of the lists and their recall, the share of the target pieces that are in their
sentence's list, are printed.

examples:
  nmt-shortlist --model runs/en-fr --source train.en --target train.fr --output en-fr.shortlist
  nmt-shortlist --model runs/en-fr --source train.en --target train.fr --output large.shortlist --best 200
"""

import argparse
from pathlib import Path

from nmt.cli.common import command, importing, say
from nmt.cli.files import refuse_overwriting, refuse_unwritable
from nmt.cli.options import CommandParser, refuse_useless, whole
from nmt.cli.score import add_batch_options, read_pairs
from nmt.cli.streams import count_lines
from nmt.config.schema import LARGEST_VOCABULARY
from nmt.errors import ConfigError, DataError
from nmt.foundation.messages import counted


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-shortlist``."""
    arguments = CommandParser(prog="nmt-shortlist", description=__doc__)
    arguments.add_argument("--model", required=True, metavar="RUN", help="run directory of nmt-train, with attention")
    arguments.add_argument("--source", required=True, metavar="FILE", help="raw source text, also as .gz or .xz")
    arguments.add_argument("--target", required=True, metavar="FILE", help="raw translations, line by line")
    arguments.add_argument("--output", required=True, metavar="FILE", help="where to write the shortlist")
    arguments.add_argument(
        "--best",
        type=whole(1, LARGEST_VOCABULARY),
        default=50,
        metavar="N",
        help="target pieces of each source piece: those that are linked to it most often; with more the search is "
        "slower and changes fewer translations",
    )
    arguments.add_argument(
        "--frequent",
        type=whole(0, LARGEST_VOCABULARY),
        default=100,
        metavar="N",
        help="target pieces that every line has: those that are most frequent in the text",
    )
    arguments.add_argument(
        "--check-source",
        metavar="FILE",
        help="raw source text for size and recall; give one that the list is not made from (default: --source)",
    )
    arguments.add_argument(
        "--check-target", metavar="FILE", help="its raw translations, line by line (default: --target)"
    )
    add_batch_options(arguments)
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Read the text, count, write, and say what the list is worth."""
    check_files(arguments)
    with importing():
        from nmt.foundation.device import resolve_device  # noqa: PLC0415
        from nmt.runs.loading import load_run  # noqa: PLC0415
        from nmt.translation.linking import count_links, recall  # noqa: PLC0415

    device = resolve_device(arguments.device)
    run = load_run(Path(arguments.model), device)
    if not run.model.attends:
        raise ConfigError(
            f"--model: {arguments.model} has no attention (model.attention.type is none); make the list with a run "
            "that has attention and the same tokenizers"
        )
    pairs = counted(
        read_pairs(arguments.source, arguments.target, 1), arguments.source, count_lines(arguments.source), "lines"
    )
    most = run.config.decoding.max_source
    links = count_links(
        run.network, run.tokenizers, pairs, device, max_pieces=most, batch_tokens=arguments.batch_tokens
    )
    if not len(links.keys):
        raise DataError(f"{arguments.source}: no pair of lines has text on both sides")
    shortlist = links.shortlist(arguments.best, arguments.frequent)
    shortlist.save(arguments.output)
    source, target = arguments.check_source or arguments.source, arguments.check_target or arguments.target
    print(f"{arguments.output}: {len(shortlist.pieces):,} links, {len(shortlist.always):,} pieces for every line")
    found = recall(shortlist, run.tokenizers, read_pairs(source, target, 1), max_pieces=most)
    print(
        f"{source}: {found.mean_list:,.0f} of {run.tokenizers.target.size:,} pieces a line on average; recall "
        f"{found.share:.2%} of {found.pieces:,} target pieces"
    )
    if source == arguments.source:
        say(f"{arguments.command}: the recall is that of the text the list is made from; --check-source another")


def check_files(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for an output that is an input, and for half a text; DataError if it is not writable."""
    options = ("source", "target", "check_source", "check_target", "model")
    read = [(f"--{option.replace('_', '-')}", getattr(arguments, option)) for option in options]
    refuse_overwriting(read, [("--output", arguments.output)])
    for one, other in (("check_source", "check_target"), ("check_target", "check_source")):
        if getattr(arguments, other) is None:
            refuse_useless(arguments, (one,), f"without --{other.replace('_', '-')}")
    refuse_unwritable(arguments.output)
