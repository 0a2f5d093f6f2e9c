"""What a command shows on standard error: messages; progress, as bars at a terminal, elsewhere as dated lines."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from typing import Any

from nmt.files import printable
from nmt.messages import HIDDEN, Detail, Highlight, Result, Step, duration

SHOWN_AFTER = 1.0
"""Seconds after which a step gets a bar."""
SAY_EVERY = 30.0
"""Seconds between two lines of progress where there is no terminal."""
BOLD, RED, GREEN = "1", "31", "32"
"""ANSI codes."""
BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"
LINE = "{desc}: {n_fmt} of {total_fmt}{unit} ({percentage:.0f}%), {rate_noinv_fmt}, {remaining} left{postfix}"
UNKNOWN = "{desc}: {n_fmt}{unit} [{elapsed}, {rate_noinv_fmt}{postfix}]"
"""Of a step whose amount of work is not known."""


class Verbosity(IntEnum):
    """How much a command shows."""

    QUIET = 0
    """Errors and results."""
    NORMAL = 1
    """Messages and progress, too."""
    VERBOSE = 2
    """Details, too."""


def colored(text: str, *codes: str) -> str:
    """Color text if standard error is a terminal with colors, and ``NO_COLOR`` (no-color.org) is not set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    return text if plain else f"\033[{';'.join(codes)}m{text}\033[0m"


class Terminal:
    """The messages and steps of a command on standard error."""

    def __init__(self, verbosity: Verbosity = Verbosity.NORMAL) -> None:
        self.verbosity = verbosity
        self._bars = 0

    def say(self, line: str) -> None:
        """Print a message if it is to be shown; a closed stream is no reason to stop."""
        least = {Result: Verbosity.QUIET, Detail: Verbosity.VERBOSE}.get(type(line), Verbosity.NORMAL)
        if self.verbosity >= least:
            self.write(colored(printable(line), BOLD, GREEN) if isinstance(line, Highlight) else printable(line))

    def write(self, text: str) -> None:
        """Print a line above the bars."""
        with contextlib.suppress(OSError):
            if self._bars:
                from tqdm import tqdm  # noqa: PLC0415  (only slow commands need it)

                tqdm.write(text, file=sys.stderr)
                sys.stderr.flush()
            else:
                print(f"{text}\n", end="", file=sys.stderr, flush=True)  # at once: several processes may share a log

    @contextmanager
    def step(self, what: str, total: float | None, unit: str, done: float) -> Iterator[Step]:
        """Show a step; see :func:`nmt.messages.step`."""
        if self.verbosity == Verbosity.QUIET:
            yield HIDDEN
            return
        bar, at_terminal = self._bar(what, total, unit, done), sys.stderr.isatty()
        self._bars += at_terminal
        try:
            yield _Shown(bar)
        finally:
            self._bars -= at_terminal
            bar.close()
        self.say(Detail(f"{what}: {bar.n - done:,.0f} {unit} in {duration(bar.format_dict['elapsed'])}"))

    def _bar(self, what: str, total: float | None, unit: str, done: float) -> Any:
        from tqdm import tqdm  # noqa: PLC0415

        tqdm.monitor_interval = 0  # no thread of its own, since processes may be forked
        common = {"desc": what, "total": total, "initial": done, "unit": f" {unit}", "miniters": 1, "leave": False}
        if sys.stderr.isatty():
            delay = 0 if total is None else SHOWN_AFTER  # without a total, there may never be a count
            form = UNKNOWN if total is None else BAR
            return tqdm(**common, bar_format=form, file=sys.stderr, delay=delay, dynamic_ncols=True)
        form = UNKNOWN if total is None else LINE
        return tqdm(**common, bar_format=form, file=_Log(self), delay=SAY_EVERY, mininterval=SAY_EVERY, position=0)


class _Shown:
    """A step that tqdm shows."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def advance(self, amount: float = 1) -> None:
        self._bar.update(amount)

    def expect(self, total: float) -> None:
        self._bar.total = total

    def note(self, text: str) -> None:
        self._bar.set_postfix_str(text, refresh=False)


class _Log(io.StringIO):
    """What tqdm writes as dated lines; what it writes to clear a line is left out."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def write(self, text: str) -> int:
        if line := text.strip():
            self._terminal.write(printable(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}"))
        return len(text)
