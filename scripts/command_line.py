"""The command line of a script: its own argparse parser, and the exit codes and messages of the toolkit's commands."""

import argparse
import functools
from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field

from nmt.cli.command import run
from nmt.cli.options import reader
from nmt.cli.terminal import Terminal
from nmt.cores import share_cores

Body = Callable[[argparse.Namespace], int | None]


def command(parser: Callable[[], argparse.ArgumentParser]) -> Callable[[Body], Callable[..., int]]:
    """Turn the body of a script into its entry point, which takes arguments and returns the exit code."""

    def decorate(body: Body) -> Callable[..., int]:
        @functools.wraps(body)
        def main(argv: Sequence[str] | None = None) -> int:
            share_cores()
            options = parser()
            try:
                arguments = options.parse_args(argv)
            except SystemExit as end:  # --help, or an error that argparse has printed
                return int(end.code or 0)
            return run(options.prog, lambda: body(arguments), Terminal())

        return main

    return decorate


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Make an argument type for argparse: a whole number from ``least`` to ``most``."""
    return reader(Annotated[int, Field(ge=least, le=most)])
