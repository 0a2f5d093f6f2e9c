"""Make a small training, its runs and its text suffer in every way that is known, and say what survived."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nmt.cli.common import command, say, whole
from nmt.torture import faults, sameness, strangers
from nmt.torture.work import Result, Work

TRIALS: dict[str, tuple[Callable[[Work, int], Result], int]] = {
    "kill": (faults.killed, 50),
    "stop": (faults.stopped, 10),
    "stop-twice": (faults.stopped_twice, 10),
    "disk": (faults.failing_disk, 100),
    "cache": (faults.failing_cache, 30),
    "file-size": (faults.small_files, 20),
    "vanish": (faults.vanished, 5),
    "damage": (faults.damaged, 40),
    "two": (faults.two_at_once, 5),
    "strangers": (lambda work, _: strangers.strangers(work), len(strangers.ATTACKS)),
    "text": (strangers.nasty_text, 120),
    "large": (lambda work, _: strangers.large_text(work, megabytes=10, empty_lines=1_000_000), 2),
    "configs": (strangers.fuzzed_configs, 5000),
    "again": (sameness.same_seed, 2),
    "batches": (sameness.any_batch, 40),
    "moved": (sameness.moved, 2),
}
"""By the name that --only takes: what is done, and how often."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="torture.py", description=__doc__)
    arguments.add_argument("--only", action="append", choices=tuple(TRIALS), help="may be given again; default: all")
    arguments.add_argument("--times", type=whole(1), metavar="N", help="of each kind, instead of its own number")
    arguments.add_argument("--json", metavar="FILE", help="write the rows there too")
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> int:
    """Do it all, and print the table; 1 if anything was lost."""
    results = []
    with tempfile.TemporaryDirectory(prefix="nmt-torture-") as folder:
        work = Work(Path(folder))
        for name in arguments.only or TRIALS:
            trial, times = TRIALS[name]
            begun = time.monotonic()
            results.append(partial(trial, work)(arguments.times or times))
            say(f"{name}: {results[-1].survived} of {results[-1].tried} survived, {time.monotonic() - begun:.0f}s")
    print(format_results(results))
    if arguments.json is not None:
        Path(arguments.json).write_text(json.dumps([each.as_dict() for each in results], indent=1) + "\n", "utf-8")
    return int(any(each.lost for each in results))


def format_results(results: list[Result]) -> str:
    """As a Markdown table."""
    rows = [("fault", "tried", "survived", "lost", "notes"), ("---",) * 5]
    rows += [
        (each.fault, f"{each.tried:,}", f"{each.survived:,}", f"{each.lost:,}", "; ".join(each.notes))
        for each in results
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
