"""Lines in and lines out of a command, as they come: nothing is kept."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Self

from nmt.cli.common import say
from nmt.cli.files import writing
from nmt.data.lines import OPENERS, decode_lines, read_lines, unreadable

PROMPT = "> "


def open_input(path: str | None) -> tuple[str, Iterator[str]]:
    """Return the name for messages and the lines of a file, of standard input without one.

    Raises DataError at once for a file that cannot be read.
    """
    if path is None:
        return "standard input", standard_input()
    lines = read_lines(path)
    first = next(lines, None)
    return path, iter(()) if first is None else chain([first], lines)


def with_prompt(lines: Iterator[str]) -> Iterator[str]:
    """Yield lines that a person types, with a prompt on standard error before each."""
    say("type a line to translate; press Ctrl-D to end")
    while True:
        print(PROMPT, end="", file=sys.stderr, flush=True)
        line = next(lines, None)
        if line is None:
            say("")
            return
        yield line


def count_lines(path: str | None) -> int | None:
    """Count the lines of a file, to know how long it takes; None without a regular file."""
    if path is None or not Path(path).is_file():
        return None
    if Path(path).suffix in OPENERS:
        return sum(1 for _ in read_lines(path))
    with Path(path).open("rb") as file:
        return sum(1 for _ in file)


def standard_input() -> Iterator[str]:
    """Yield the lines of standard input. Raises DataError if it cannot be read."""
    try:
        yield from decode_lines(sys.stdin.buffer, "standard input")
    except OSError as error:  # it is closed or a directory
        raise unreadable("standard input", error) from error


class Output:
    """A file or stream of UTF-8 lines in any locale; each line is flushed.

    ``form`` makes a line from whatever the command writes a line for.
    """

    def __init__(self, name: str, stream: BinaryIO, form: Callable[..., str]) -> None:
        self.name, self.stream, self.format = name, stream, form
        self.old = False
        """Whether the file still has its previous content."""

    @classmethod
    def create(cls, path: str, form: Callable[..., str], stack: ExitStack) -> Self:
        """Open a file that the stack closes; its old content is kept until the first line is written."""
        with writing(path):
            output = cls(path, Path(path).open("ab"), form)  # noqa: SIM115  (the stack closes it)
        output.old = Path(path).is_file()  # not a pipe or device
        stack.callback(output.close)
        return output

    def write(self, lines: list[str]) -> None:
        """Write lines. Raises DataError if that fails, BrokenPipeError if the reader is gone."""
        with writing(self.name):
            if self.old:
                self.stream.truncate(0)
                self.old = False
            self.stream.write("".join(f"{line}\n" for line in lines).encode())
            self.stream.flush()

    def close(self) -> None:
        """Close the file. Raises DataError if pending output cannot be written."""
        with writing(self.name):
            self.stream.close()


def open_outputs(
    output: tuple[str | None, Callable[..., str]], *others: tuple[str | None, Callable[..., str]], stack: ExitStack
) -> list[Output]:
    """Open the output of a command, standard output if its path is None, and the others that have a path.

    Each is a path and a form. Raises DataError for a file that cannot be written.
    """
    standard = [Output("standard output", sys.stdout.buffer, output[1])] if output[0] is None else []
    return standard + [Output.create(path, form, stack) for path, form in (output, *others) if path is not None]
