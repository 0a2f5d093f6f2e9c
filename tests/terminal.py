"""Programs that run in a pseudo-terminal, as at a person's desk."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


class Terminal:
    """A process whose three streams are a terminal."""

    def __init__(self, program: str, arguments: Sequence[str]) -> None:
        self.screen = ""
        """Everything that was written."""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(slave)

    def type(self, line: str) -> None:
        """Enter a line, or Ctrl-D."""
        os.write(self._master, line.encode())

    def wait_for(self, ending: str, seconds: float = 60) -> str:
        """Read until what is new ends in a text; return it."""
        before = len(self.screen)
        self._read(lambda: self.screen[before:].endswith(ending), seconds)
        assert self.screen[before:].endswith(ending), self.screen
        return self.screen[before:]

    def end(self, seconds: float = 60) -> int:
        """Read to the end; return the exit code."""
        self._read(lambda: False, seconds)
        return self.process.wait(seconds)

    def _read(self, enough: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not enough() and time.monotonic() < deadline:
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    data = os.read(self._master, 65536)
                except OSError:  # the other side is closed
                    return
                self.screen += data.decode(errors="replace").replace("\r\n", "\n")

    def close(self) -> None:
        """End the process if it is still there."""
        self.process.kill()
        self.process.wait()
        os.close(self._master)


def visible(screen: str) -> list[str]:
    """The lines that a person sees at the end, without blank lines."""
    lines: list[list[str]] = [[]]
    row = column = 0
    for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|.|\n", screen):
        if part == "\n":
            row, column = row + 1, 0
            if row == len(lines):
                lines.append([])
        elif part == "\r":
            column = 0
        elif part == "\x1b[A":
            row -= 1
        elif not part.startswith("\x1b"):
            line = lines[row]
            line += [" "] * (column + 1 - len(line))
            line[column] = part
            column += 1
    return [text for line in lines if (text := "".join(line).strip())]


@contextmanager
def terminal(program: str, *arguments: str) -> Iterator[Terminal]:
    """Run Python code in a terminal."""
    found = Terminal(program, arguments)
    try:
        yield found
    finally:
        found.close()
