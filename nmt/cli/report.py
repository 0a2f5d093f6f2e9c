"""Write one HTML page to explore systems side by side: scores, length curves, attention, sentences, training.

The page needs no network and opens from disk. The systems are runs, or those of an experiment; they are measured on one
test set, and translations that are kept from training are used again.

examples:
  nmt-report runs/demo --output report.html
  nmt-report runs/none runs/en-fr --test test.en test.fr --sentences 50 --output report.html
"""

import argparse
import shlex
from pathlib import Path

from nmt.cli.common import command, importing, say
from nmt.cli.files import refuse_missing, refuse_overwriting, refuse_unwritable, writing
from nmt.cli.options import CommandParser, refuse_useless, whole
from nmt.errors import DataError, tried


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-report``."""
    arguments = CommandParser(prog="nmt-report", description=__doc__)
    arguments.add_argument(
        "runs",
        nargs="+",
        metavar="RUN_OR_EXPERIMENT",
        help="run directory, output directory of an experiment, or its YAML file",
    )
    arguments.add_argument("--output", required=True, metavar="FILE", help="write the page to this file")
    arguments.add_argument(
        "--sentences", type=whole(2), default=200, metavar="N", help="sentences of the test set that the page shows"
    )
    arguments.add_argument(
        "--test",
        nargs=2,
        metavar=("SOURCE", "REFERENCE"),
        help="raw source text and its reference translations (default: the test set of the experiment, or data.test "
        "of the runs)",
    )
    arguments.add_argument(
        "--gold",
        metavar="FILE",
        help="gold word alignment of each pair of --test, or of the test set that is used without it, with i-j for a "
        "sure link of source word i and target word j and ipj for a possible one (default: that of the experiment)",
    )
    arguments.add_argument(
        "--gold-first", type=int, choices=(0, 1), metavar="N", help="index of the first word in --gold (default: 0)"
    )
    arguments.add_argument(
        "--device", default="auto", metavar="NAME", help="auto, a GPU if there is one, or cpu, cuda, cuda:1, ..."
    )
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Collect, measure, and write the page."""
    tests = arguments.test or (None, None)
    read = [("--test", tests[0]), ("--test", tests[1]), ("--gold", arguments.gold)]
    inputs = [run for run in arguments.runs if Path(run).is_file() or (Path(run) / "config.yaml").exists()]
    read += [("RUN_OR_EXPERIMENT", run) for run in inputs]
    refuse_overwriting(read, [("--output", arguments.output)])
    refuse_unwritable(arguments.output)
    refuse_missing([*tests, arguments.gold])
    if missing := [run for run in arguments.runs if not Path(run).exists()]:
        wanted = "give a run directory, or an experiment's output directory or YAML file"
        raise DataError(*(f"{run}: no such file or directory{tried(run)}; {wanted}" for run in missing))
    if arguments.gold is None:
        refuse_useless(arguments, ("gold_first",), "without --gold")
    with importing():
        from nmt.device import resolve_device  # noqa: PLC0415
        from nmt.report.collecting import collect  # noqa: PLC0415
        from nmt.report.making import make_report  # noqa: PLC0415  (PyTorch is slow to import)
        from nmt.report.rendering import fitted  # noqa: PLC0415

    device = resolve_device(arguments.device)
    collected = collect(arguments.runs, arguments.test, (arguments.gold, arguments.gold_first or 0), say)
    report, page = fitted(make_report(collected, arguments.sentences, device, _command(arguments), say))
    with writing(arguments.output):
        Path(arguments.output).write_text(page, "utf-8", newline="\n")
    say(f"written: {arguments.output}, {len(page.encode()) / 1000:,.0f} kB, {report.selection}")


def _command(arguments: argparse.Namespace) -> str:
    """The command that makes this page, for its footer."""
    words = [*arguments.runs, "--output", arguments.output, "--sentences", str(arguments.sentences)]
    words += ["--test", *arguments.test] if arguments.test else []
    words += ["--gold", arguments.gold] if arguments.gold else []
    words += ["--gold-first", str(arguments.gold_first)] if arguments.gold_first else []
    return shlex.join(["nmt-report", *words])
