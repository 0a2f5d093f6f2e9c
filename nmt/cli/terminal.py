"""The terminal: messages, progress, and stop requests by Ctrl-C.

All of it goes to standard error. Progress is a bar at a terminal, and dated lines elsewhere.
"""

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from datetime import datetime
from types import FrameType
from typing import Any, Self

from nmt.errors import Stopped
from nmt.files import printable
from nmt.messages import Detail, Result, Step, duration, shown_on

SHOWN_AFTER = 1.0
"""Seconds after which a step gets a bar."""
SAY_EVERY = 30.0
"""Seconds between two lines of progress where there is no terminal."""
BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"
LINE = "{desc}: {n_fmt} of {total_fmt}{unit} ({percentage:.0f}%), {rate_noinv_fmt}, {remaining} left{postfix}"
UNKNOWN = "{desc}: {n_fmt}{unit} [{elapsed}, {rate_noinv_fmt}{postfix}]"
"""The form of a step whose amount of work is not known."""


class Terminal:
    """The messages and steps of a command on standard error."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self.quiet, self.verbose = quiet, verbose
        self._bars = 0

    def say(self, line: str) -> None:
        """Print a message if it is to be shown; a closed stream is no reason to stop."""
        if {Result: True, Detail: self.verbose}.get(type(line), not self.quiet):
            self.write(printable(line))

    def write(self, text: str) -> None:
        """Print a line above the bars."""
        with contextlib.suppress(OSError):
            if self._bars:
                from tqdm import tqdm  # noqa: PLC0415  (only slow commands need it)

                tqdm.write(text, file=sys.stderr)
                sys.stderr.flush()
            else:
                print(f"{text}\n", end="", file=sys.stderr, flush=True)  # at once: several processes may share a log

    @contextlib.contextmanager
    def step(self, what: str, total: float | None, unit: str, done: float) -> Iterator[Step]:
        """Show a step; see :func:`nmt.messages.progress_bar`."""
        if self.quiet:
            yield Step()
            return
        from tqdm import tqdm  # noqa: PLC0415  (only slow commands need it)

        tqdm.monitor_interval = 0  # no thread of its own, since processes may be forked
        at_terminal = sys.stderr.isatty()
        how: dict[str, Any] = {"bar_format": BAR if at_terminal else LINE, "miniters": 1, "leave": False}
        if at_terminal:
            how |= {"file": sys.stderr, "delay": SHOWN_AFTER, "dynamic_ncols": True}
        else:
            how |= {"file": _Log(self), "delay": SAY_EVERY, "mininterval": SAY_EVERY, "position": 0}
        if total is None:  # there may never be a count, which would begin the bar
            how |= {"bar_format": UNKNOWN} | ({"delay": 0} if at_terminal else {})
        bar = tqdm(desc=what, total=total, initial=done, unit=f" {unit}", **how)
        self._bars += at_terminal
        try:
            yield _Shown(bar)
        finally:
            self._bars -= at_terminal
            bar.close()
        self.say(Detail(f"{what}: {bar.n - done:,.0f} {unit} in {duration(bar.format_dict['elapsed'])}"))


class _Shown(Step):
    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def advance(self, amount: float = 1) -> None:
        self._bar.update(amount)

    def note(self, text: str) -> None:
        self._bar.set_postfix_str(text, refresh=False)


class _Log(io.StringIO):
    """Dated lines of what tqdm writes, except for what clears a line."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def write(self, text: str) -> int:
        if line := text.strip():
            self._terminal.write(printable(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}"))
        return len(text)


_terminal = Terminal()
"""The terminal of the command that is running; a signal handler and other threads use it, too."""


def say(line: str) -> None:
    """Print a line to standard error; a closed stream is no reason to stop."""
    _terminal.say(line)


@contextlib.contextmanager
def showing(terminal: Terminal) -> Iterator[None]:
    """Show the messages and steps of a command on a terminal; of the processes of torchrun, one shows its steps."""
    global _terminal  # noqa: PLW0603
    before, _terminal = _terminal, terminal
    try:
        with shown_on(terminal.step) if os.environ.get("RANK", "0") == "0" else contextlib.nullcontext():
            yield
    finally:
        _terminal = before


def verbosity_options() -> list[str]:
    """Return the options with which another command shows as much as this one."""
    return ["--quiet"] * _terminal.quiet + ["--verbose"] * _terminal.verbose


class StopRequest:
    """A stop request by Ctrl-C, SIGTERM or SIGHUP.

    Within its ``with`` block the first signal is recorded, and training stops after the current step or batch. A second
    signal ends the process immediately. Signals that the process was started to ignore stay ignored, but not SIGTERM.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        hangup = getattr(signal, "SIGHUP", signal.SIGINT)  # Windows lacks it
        heard = [each for each in (signal.SIGINT, hangup) if signal.getsignal(each) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._record) for number in (signal.SIGTERM, *heard)}
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and "RANK" in os.environ:
            return  # torchrun ends this process when another one has ended: its error must be shown first
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> None:
        """Raise Stopped if a stop was requested."""
        if self.signal is not None:
            raise Stopped

    @property
    def exit_code(self) -> int:
        """The exit code of a command that a signal has stopped."""
        return 128 + (self.signal or signal.SIGINT)

    def _record(self, number: int, _: FrameType | None) -> None:
        self.signal = number
        if "RANK" in os.environ:  # torchrun passes on signals that have also come directly, and kills after 30 s
            if os.environ["RANK"] == "0":
                say("stopping after this step")
            return
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)
        with contextlib.suppress(RuntimeError):  # the signal may arrive while another line is printed
            say("stopping after this step; press Ctrl-C again to stop immediately")
