"""Make the mistakes listed in scripts/mutants.yaml, one at a time, and report which of them the tests detect."""

import argparse
import ast
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from nmt.cli.common import command, say
from nmt.cli.options import whole
from nmt.errors import DataError
from nmt.plots.files import markdown

ROOT = Path(__file__).parent.parent
TABLE = "scripts/mutants.yaml"
PARTS = ("nmt", "tests", "pyproject.toml")
"""The parts of the checkout that are copied; the listed tests need no others."""
NO_TEST_FAILED, SOME_TEST_FAILED = 0, 1
"""Exit codes of pytest; any greater one means that it could not run the tests."""

Names = Annotated[list[str], Field(min_length=1)]


class _Change(BaseModel):
    """An entry of the table."""

    model_config = ConfigDict(extra="forbid", strict=True)

    mistake: str
    text: str
    becomes: str
    tests: Names | None = None
    """Replaces the tests of the file."""


class _Changes(BaseModel):
    """The entries of one file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    tests: Names
    mutants: list[_Change]


@dataclass(frozen=True)
class Mutant:
    """A mistake in a file, and the tests that must fail because of it."""

    file: str
    """Path relative to the checkout."""
    mistake: str
    text: str
    """Occurs exactly once in the file."""
    becomes: str
    tests: tuple[str, ...]
    """Test files, or single tests as ``FILE::NAME``."""

    def __str__(self) -> str:
        return f"{self.file}: {self.mistake}"

    @property
    def package(self) -> str:
        """The package of the file: ``model`` for ``nmt/model/attention/scores.py``."""
        return Path(self.file).parts[1]

    def applied(self, code: str) -> str:
        """Put the mistake into the code of the file. Raises DataError if the entry does not fit the code."""
        count = code.count(self.text)
        if count != 1:
            raise DataError(f"{TABLE}: {self}: {self.text!r} occurs {count} times in {self.file}; it must occur once")
        mutated = code.replace(self.text, self.becomes)
        try:
            ast.parse(mutated)
        except SyntaxError as error:
            raise DataError(f"{TABLE}: {self}: the mutant is not Python: {error.msg}, line {error.lineno}") from None
        return mutated


def read_mutants(path: Path) -> list[Mutant]:
    """Read the table of mutants. Raises DataError if it is malformed."""
    try:
        table = TypeAdapter(dict[str, _Changes]).validate_python(yaml.safe_load(path.read_text("utf-8")))
    except (yaml.YAMLError, ValidationError) as error:
        raise DataError(f"{path}: {error}") from None
    return [
        Mutant(file, each.mistake, each.text, each.becomes, tuple(each.tests or changes.tests))
        for file, changes in table.items()
        for each in changes.mutants
    ]


@contextmanager
def copied(checkout: Path) -> Iterator[Path]:
    """Copy the checkout to a temporary directory, so that the checkout itself never changes."""
    with TemporaryDirectory(prefix="nmt-mutation-") as folder:
        copy = Path(folder) / "checkout"
        copy.mkdir()
        for source in (checkout / part for part in PARTS):
            if source.is_dir():
                shutil.copytree(source, copy / source.name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, copy)
        yield copy


def run_tests(checkout: Path, tests: Iterable[str], limit: float | None = None) -> tuple[int | None, str]:
    """Run tests until the first failure; return pytest's exit code, or None after ``limit`` seconds, and its output."""
    scratch = checkout.parent / "tmp"
    scratch.mkdir()
    # a fixed seed: Hypothesis then tries the same examples each time
    pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests]
    environment = os.environ | {"PYTHONPATH": str(checkout), "TMPDIR": str(scratch)}
    output = checkout.parent / "output"
    with output.open("w") as file:
        try:
            ended = subprocess.run(
                pytest, cwd=checkout, env=environment, stdout=file, stderr=file, timeout=limit, check=False
            )
            code = ended.returncode
        except subprocess.TimeoutExpired:
            code = None
    return code, output.read_text("utf-8", errors="replace")


def verdict(checkout: Path, mutant: Mutant, limit: float) -> str:
    """Return ``killed`` if a test fails, crashes or runs out of time; else ``survived`` or why there is no verdict."""
    with copied(checkout) as copy:
        file = copy / mutant.file
        file.write_text(mutant.applied(file.read_text("utf-8")), "utf-8")
        code, _ = run_tests(copy, mutant.tests, limit)
    if code is None or code < 0 or code == SOME_TEST_FAILED:
        return "killed"
    return "survived" if code == NO_TEST_FAILED else f"could not be tested (pytest ended with {code})"


def refuse_failing_tests(checkout: Path, mutants: Sequence[Mutant]) -> None:
    """Raise DataError if the tests fail without a mutant: their failures would say nothing about mutants."""
    tests = dict.fromkeys(test for mutant in mutants for test in mutant.tests)
    with copied(checkout) as copy:
        code, output = run_tests(copy, tests)
    if code != NO_TEST_FAILED:
        raise DataError("the tests fail without a mutant; make them pass first:", *output.rstrip().splitlines()[-20:])


def format_verdicts(verdicts: Sequence[tuple[Mutant, str]]) -> str:
    """Format a Markdown table by package, and below it a list of the mutants that were not killed."""
    packages: defaultdict[str, list[bool]] = defaultdict(list)
    for mutant, each in verdicts:
        packages[mutant.package].append(each == "killed")
    packages["all"] = [each == "killed" for _, each in verdicts]
    headings = ("package", "mutants", "killed", "survived")
    rows = [
        (package, f"{len(killed)}", f"{sum(killed)}", f"{len(killed) - sum(killed)}")
        for package, killed in packages.items()
    ]
    table = markdown([dict(zip(headings, row, strict=True)) for row in rows])
    left = [f"- {mutant}: {each}" for mutant, each in verdicts if each != "killed"]
    return "\n".join([table, *(["", *left] if left else [])])


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="mutation.py", description=__doc__)
    arguments.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="try the mutants with TEXT in 'FILE: MISTAKE', such as nmt/search; may be repeated; default: all",
    )
    arguments.add_argument(
        "--jobs",
        type=whole(1),
        default=os.cpu_count(),
        metavar="N",
        help="number of mutants at the same time; default: number of cores",
    )
    arguments.add_argument(
        "--limit",
        type=whole(1),
        default=300,
        metavar="SECONDS",
        help="time limit for the tests of one mutant; default: 300",
    )
    arguments.add_argument(
        "--checkout", type=Path, default=ROOT, metavar="DIR", help="the checkout to test; default: that of this script"
    )
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> int:
    """Try the mutants and print the table; return 1 if any of them was not killed."""
    checkout: Path = arguments.checkout
    mutants = read_mutants(checkout / TABLE)
    mutants = [each for each in mutants if not arguments.only or any(text in str(each) for text in arguments.only)]
    if not mutants:
        raise DataError(f"--only {' --only '.join(arguments.only or [])}: no mutant in {TABLE} has that text")
    for mutant in mutants:
        mutant.applied((checkout / mutant.file).read_text("utf-8"))
    refuse_failing_tests(checkout, mutants)
    verdicts = []
    pool = ThreadPoolExecutor(arguments.jobs)
    try:
        for mutant, found in zip(
            mutants, pool.map(lambda each: verdict(checkout, each, arguments.limit), mutants), strict=True
        ):
            say(f"{mutant}: {found}")
            verdicts.append((mutant, found))
    finally:
        pool.shutdown(cancel_futures=True)
    print(format_verdicts(verdicts))
    return int(any(found != "killed" for _, found in verdicts))


if __name__ == "__main__":
    sys.exit(main())
