"""Make a small training, its runs and its text suffer in every way that is known, and say what survived."""

import argparse
import json
import multiprocessing
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from nmt.cli.common import command, say
from nmt.cli.files import refuse_unwritable
from nmt.cli.options import whole
from nmt.torture.trials import TRIALS, suffer
from nmt.torture.work import Result


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="torture.py", description=__doc__)
    arguments.add_argument("--only", action="append", choices=tuple(TRIALS), help="may be given again; default: all")
    arguments.add_argument("--times", type=whole(1), metavar="N", help="of each kind, instead of its own number")
    arguments.add_argument(
        "--jobs", type=whole(1), default=os.cpu_count(), metavar="N", help="at a time; default: cores"
    )
    arguments.add_argument("--json", metavar="FILE", help="write the rows there too")
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> int:
    """Do it all, and print the table; 1 if anything was lost."""
    if arguments.json is not None:
        refuse_unwritable(arguments.json)
    results = []
    # each in a process that begins with nothing: what one does to its own, no other sees
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        doing = {
            name: pool.submit(suffer, name, arguments.times or TRIALS[name][1]) for name in arguments.only or TRIALS
        }
        for name, done in doing.items():
            result, seconds = done.result()
            say(f"{name}: {result.survived} of {result.tried} survived, {seconds:.0f}s")
            results.append(result)
    print(format_results(results))
    if arguments.json is not None:
        Path(arguments.json).write_text(json.dumps([each.as_dict() for each in results], indent=1) + "\n", "utf-8")
    return int(any(each.lost for each in results))


def format_results(results: list[Result]) -> str:
    """As a Markdown table."""
    rows = [("fault", "tried", "survived", "lost", "notes"), ("---",) * 5]
    rows += [
        (each.fault, f"{each.tried:,}", f"{each.survived:,}", f"{each.lost:,}", _one_line("; ".join(each.notes)))
        for each in results
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _one_line(text: str) -> str:
    """Text that a cell of a table can hold."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
