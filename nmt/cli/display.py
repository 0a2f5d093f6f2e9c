"""What a command shows on standard error: messages; progress, as bars at a terminal, elsewhere as dated lines;
attention as shades of grey."""

import contextlib
import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from threading import Event, Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.files import printable
from nmt.messages import Detail, Highlight, Result, Step, duration

SHOWN_AFTER = 1.0
"""Seconds after which a step gets a bar."""
SAY_EVERY = 30.0
"""Seconds between two lines of progress where there is no terminal."""
TICK = 1.0
"""Seconds after which the bar of a step without counts is drawn again, so that its clock goes on."""
COLUMNS, ROWS = 80, 24
"""The size of a terminal whose size is not set, as in some containers."""
BOLD, RED, GREEN, YELLOW = "1", "31", "32", "33"
"""ANSI codes."""
BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"
NOTED = BAR.replace(", {rate_noinv_fmt}", "")
UNKNOWN = "{desc}: {n_fmt}{unit} [{elapsed}, {rate_noinv_fmt}{postfix}]"


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


class Shown:
    """A step; ``draw`` is called after each change of its counts."""

    def __init__(self, done: float, total: float | None, draw: Callable[["Shown"], None] = lambda shown: None) -> None:
        self.done, self.total, self.text = done, total, ""
        self._draw = draw

    def advance(self, amount: float = 1) -> None:
        """Count work that is done."""
        self.done += amount
        self._draw(self)

    def expect(self, total: float) -> None:
        """Replace the amount of work by a better estimate."""
        self.total = total

    def note(self, text: str) -> None:
        """Show a text beside the counts from now on."""
        self.text = text


class Terminal:
    """The messages and steps of a command on standard error."""

    def __init__(self, verbosity: Verbosity = Verbosity.NORMAL) -> None:
        self.verbosity = verbosity
        self._bars = 0
        self._said = -SAY_EVERY

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
        started = time.monotonic()
        if self.verbosity == Verbosity.QUIET:
            shown = Shown(done, total)
            yield shown
        elif sys.stderr.isatty():
            with self._bar(what, total, unit, done) as shown:
                yield shown
        else:
            shown = Shown(done, total, self._lines(what, unit, done))
            yield shown
        seconds = time.monotonic() - started
        self.say(Detail(f"{what}: {shown.done - done:,.0f} {unit} in {duration(seconds)}"))

    @contextmanager
    def _bar(self, what: str, total: float | None, unit: str, done: float) -> Iterator[Shown]:
        from tqdm import tqdm  # noqa: PLC0415

        bar: Any = tqdm(
            desc=what,
            total=total,
            initial=done,
            unit=f" {unit}",
            bar_format=UNKNOWN if total is None else BAR,
            file=sys.stderr,
            leave=False,
            delay=SHOWN_AFTER,
            smoothing=0.05,
            **_size(),
        )

        def draw(shown: Shown) -> None:
            bar.total, bar.postfix = shown.total, shown.text
            if bar.total is not None:
                bar.bar_format = NOTED if shown.text else BAR
            bar.update(shown.done - bar.n)

        self._bars += 1
        try:
            with repeating(lambda: _refresh(bar), TICK):  # also before the first count
                yield Shown(done, total, draw)
        finally:
            self._bars -= 1
            bar.close()

    def _lines(self, what: str, unit: str, done: float) -> Callable[[Shown], None]:
        """Say how far a step is, with the date, now and then."""
        started = time.monotonic()

        def draw(shown: Shown) -> None:
            now = time.monotonic()
            if now - max(started, self._said) < SAY_EVERY:
                return
            self._said = now
            rate = (shown.done - done) / (now - started)
            parts = [f"{what}: {shown.done:,.0f} {unit}", f"{_number(rate)} {unit}/s"]
            if shown.total:
                parts[0] = f"{what}: {shown.done:,.0f} of {shown.total:,.0f} {unit} ({shown.done / shown.total:.0%})"
                parts += [f"{duration((shown.total - shown.done) / rate)} left"] if rate else []
            self.write(
                printable(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {', '.join([*parts, *filter(None, [shown.text])])}")
            )

        return draw


def _number(rate: float) -> str:
    """Three digits of a rate, or more before the decimal point."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _size() -> dict[str, Any]:
    """Return tqdm's arguments for the size of the terminal; one that says it has no columns is taken to have 80."""
    with contextlib.suppress(OSError, ValueError):  # a stream that is no file
        if 0 in os.get_terminal_size(sys.stderr.fileno()):
            return {"ncols": COLUMNS, "nrows": ROWS}
    return {"dynamic_ncols": True}


def _refresh(bar: Any) -> None:
    bar.delay = 0  # else the end of the bar would not clear it
    bar.refresh()


@contextmanager
def repeating(action: Callable[[], object], seconds: float) -> Iterator[None]:
    """Call ``action`` every so many seconds, in a thread of its own, until the block ends."""
    ended = Event()

    def repeat() -> None:
        while not ended.wait(seconds):
            action()

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


# --- attention in shades ----------------------------------------------------------------------------------------------

SHADES = " ░▒▓█"
"""Weights from 0 to 1, in equal steps."""
LONGEST_WORD = 16
"""Columns of a target word and lines of a source word; a longer one is cut short."""
LEAST_COLUMNS = 8
"""Source words side by side, however narrow the terminal is."""


def shade(weight: float) -> str:
    """Return the shade of a weight in [0, 1]: the darkest from 0.8 on."""
    return SHADES[min(int(weight * len(SHADES)), len(SHADES) - 1)]


def draw_attention(
    weights: npt.NDArray[np.floating], source: Sequence[str], target: Sequence[str], width: int
) -> list[str]:
    """Draw weights (J, I) in lines of at most ``width`` columns.

    A column is two characters wide, or one if that makes the sentence fit. A source that is still too long continues
    below, in further blocks. Source words are written downwards, a letter in each line.
    """
    if not weights.size:
        return []
    rows = [cut(word, LONGEST_WORD) for word in target]
    margin = max(map(columns, rows)) + 1
    room = max(width - margin, LEAST_COLUMNS)
    cell = 2 if 2 * len(source) <= room else 1
    if any(columns(letter) > cell for word in source for letter in letters(word)):
        cell = 2
    block = max(1, room // cell)
    lines: list[str] = []
    for first in range(0, len(source), block):
        if first:
            lines.append("")
        lines += heading(source[first : first + block], cell, margin)
        for word, row in zip(rows, weights[:, first : first + block], strict=True):
            cells = "".join(shade(float(weight)) * cell for weight in row)
            lines.append(f"{word}{' ' * (margin - columns(word))}{cells}".rstrip())
    return lines


def heading(words: Sequence[str], cell: int, margin: int) -> list[str]:
    """Write words downwards, each in its column, with their ends on the lowest line."""
    spelled = [letters(cut(word, LONGEST_WORD)) for word in words]
    height = max(map(len, spelled))
    lines = []
    for place in range(height):
        line = ""
        for word in spelled:
            letter = word[place - height] if len(word) >= height - place else ""
            line += letter + " " * (cell - columns(letter))
        lines.append((" " * margin + line).rstrip())
    return lines


def letters(word: str) -> list[str]:
    """Split a word into letters, with the marks that combine with them."""
    found: list[str] = []
    for character in word:
        if found and unicodedata.category(character) in ("Mn", "Me", "Mc", "Cf"):
            found[-1] += character
        elif unicodedata.category(character)[0] != "C":
            found.append(character)
    return found


def columns(text: str) -> int:
    """Count the columns of a text in a terminal: two for a wide character, none for a combining one."""
    return sum(2 if unicodedata.east_asian_width(letter[0]) in "WF" else 1 for letter in letters(text))


def cut(word: str, most: int) -> str:
    """Cut a word to ``most`` columns, the last of which is then an ellipsis."""
    found = letters(word)
    if columns(word) <= most:
        return "".join(found)
    while columns("".join(found)) > most - 1:
        found.pop()
    return "".join(found) + "…"
