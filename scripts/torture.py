"""Expose small training runs to faults, crafted run directories and hostile text, and count what they survive."""

import argparse
import json
import multiprocessing
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from command_line import command, whole
from nmt.cli.files import require_writable
from nmt.cli.terminal import say

sys.path.insert(0, str(Path(__file__).parent.parent))  # tests/ is not installed

from tests.torture.tally import Result
from tests.torture.trials import TRIALS, run_trial


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="torture.py", description=__doc__)
    arguments.add_argument(
        "--only",
        action="append",
        choices=tuple(TRIALS),
        metavar="TRIAL",
        help=f"one of {', '.join(TRIALS)}; may be repeated; default: all",
    )
    arguments.add_argument(
        "--times", type=whole(1), metavar="N", help="make each trial N times; default: a number for each"
    )
    arguments.add_argument(
        "--jobs",
        type=whole(1),
        default=os.cpu_count(),
        metavar="N",
        help="number of trials at the same time; default: number of cores",
    )
    arguments.add_argument("--json", metavar="FILE", help="also write the table to FILE, as JSON")
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> int:
    """Make the trials and print the table; return 1 if anything was lost."""
    if arguments.json is not None:
        require_writable(arguments.json)
    results = []
    # a new process for each kind: what a trial changes in its process does not reach another
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        submitted = {
            name: pool.submit(run_trial, name, arguments.times or TRIALS[name][1]) for name in arguments.only or TRIALS
        }
        for name, done in submitted.items():
            result, seconds = done.result()
            say(f"{name}: {result.survived} of {result.tried} survived, {seconds:.0f}s")
            results.append(result)
    print(format_results(results))
    if arguments.json is not None:
        Path(arguments.json).write_text(json.dumps([each.as_dict() for each in results], indent=1) + "\n", "utf-8")
    return int(any(each.lost for each in results))


def format_results(results: list[Result]) -> str:
    """Format the results as a Markdown table."""
    rows = [("fault", "tried", "survived", "lost", "notes"), ("---",) * 5]
    rows += [
        (each.fault, f"{each.tried:,}", f"{each.survived:,}", f"{each.lost:,}", _one_line("; ".join(each.notes)))
        for each in results
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _one_line(text: str) -> str:
    """Make text fit into a cell of a Markdown table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
