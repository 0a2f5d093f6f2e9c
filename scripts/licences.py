"""Print the licences of the packages in constraints.txt, from their metadata."""

import argparse
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from nmt.cli.common import command
from nmt.errors import DataError

ROOT = Path(__file__).parent.parent
LONGEST = 120
"""Most characters of a licence's name; some packages give the whole text instead."""


def parser() -> argparse.ArgumentParser:
    """The options: none."""
    return argparse.ArgumentParser(prog="licences.py", description=__doc__)


def licence(package: str) -> str:
    """Return the licence in the metadata of an installed package: an SPDX expression, a classifier, or a name."""
    stated = metadata(package)

    def first(field: str) -> str:
        values: list[str] = stated.get_all(field) or [""]
        return values[0].strip().partition("\n")[0][:LONGEST]

    classifiers = [each.rpartition(" :: ")[2] for each in stated.get_all("Classifier") or [] if "License ::" in each]
    names = ", ".join(each for each in classifiers if each != "OSI Approved")
    return first("License-Expression") or names or first("License") or "unknown"


@command(parser)
def main(_: argparse.Namespace) -> None:
    """Print a Markdown table."""
    print("| package | version | licence |\n| --- | --- | --- |")
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        name, equals, version = line.partition("==")
        if equals:
            try:
                print(f"| {name} | {version} | {licence(name)} |")
            except PackageNotFoundError:
                raise DataError(f"constraints.txt: {name} is not installed; make test sets everything up") from None


if __name__ == "__main__":
    sys.exit(main())
