"""Start and end of every command: exit codes, error lines, messages, and progress on standard error. Progress is a bar
at a terminal, and dated lines elsewhere."""

import argparse
import contextlib
import functools
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Any

from nmt import __version__
from nmt.cores import share_cores
from nmt.errors import NmtError, NmtWarning
from nmt.files import printable
from nmt.messages import HIDDEN, Detail, Result, Step, duration, shown_on

FAILED = 2
"""Exit code of an error that the user can correct (argparse uses it too)."""
INTERRUPTED = 130
BROKEN_PIPE = 141

Body = Callable[[argparse.Namespace], int | None]
"""The body of a command: from parsed arguments to the exit code, where None is 0."""


def command(parser: Callable[[], argparse.ArgumentParser]) -> Callable[[Body], Callable[..., int]]:
    """Turn the body of a command into its entry point.

    The entry point takes the arguments (``None``: those of the process) and returns the exit code. An error that the
    user can correct is printed to standard error and ends with code 2; ``--verbose`` adds the traceback. When the
    reader of standard output goes away, the command ends silently.

    ``parser`` makes the parser of the command's own options. If its description ends with a paragraph ``examples:`` and
    a line for each example, these lines end ``--help``.
    """

    def decorate(body: Body) -> Callable[..., int]:
        @functools.wraps(body)
        def main(argv: Sequence[str] | None = None) -> int:
            share_cores()
            options = parser()
            options.formatter_class = HelpFormatter
            options.description, *examples = (options.description or "").split(f"\n\n{EXAMPLES}\n")
            options.epilog = f"{EXAMPLES}\n{examples[0].rstrip()}" if examples else None
            options.set_defaults(command=options.prog)
            amount = options.add_mutually_exclusive_group()
            amount.add_argument("--quiet", action="store_true", default=False, help="show errors and results only")
            more = "show details as well, and the traceback of an error"
            amount.add_argument("--verbose", action="store_true", default=False, help=more)
            options.add_argument("--version", action="version", version=f"nmt-attention {__version__}")
            try:
                arguments = options.parse_args(argv)
            except SystemExit as end:  # --help, --version, or an error that argparse has printed
                _flush_standard_output()
                return int(end.code or 0)
            with _shown(arguments):
                return _run(body, arguments)

        return main

    return decorate


EXAMPLES = "examples:"


class HelpFormatter(argparse.HelpFormatter):
    """State for each option with a value its default or that it is required; keep one line for each example."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        if not action.option_strings or action.nargs == 0 or "default:" in text or "required" in text:
            return text
        if action.required:
            return f"{text} (required)"
        return f"{text} (default: {'none' if action.default in (None, (), []) else '%(default)s'})"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(EXAMPLES) else super()._fill_text(text, width, indent)


@contextlib.contextmanager
def _telling_warnings(name: str) -> Iterator[None]:
    """Print each NmtWarning once, as a line of the command; other warnings pass as they are."""
    told: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, NmtWarning):
            other(message, category, *place, **more)
        elif str(message) not in told:
            told.add(str(message))
            say(f"{name}: warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", NmtWarning)
        other, warnings.showwarning = warnings.showwarning, show
        yield


def _run(body: Body, arguments: argparse.Namespace) -> int:
    try:
        with _telling_warnings(arguments.command):
            code = body(arguments) or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return BROKEN_PIPE
    except KeyboardInterrupt:
        say(Result(f"{arguments.command}: interrupted"))
        return INTERRUPTED
    except NmtError as error:
        return _fail(arguments, error.problems)
    except OSError as error:
        place = f"{error.filename}: " if error.filename is not None else ""
        return _fail(arguments, [f"{place}{error.strerror or str(error) or type(error).__name__}"])
    except (RuntimeError, MemoryError) as error:
        from nmt.device import out_of_memory  # noqa: PLC0415  (PyTorch is slow to import)

        if not out_of_memory(error):
            raise
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        return _fail(arguments, [f"out of memory ({reason}); use smaller batches or a smaller model"])
    finally:
        _flush_standard_output()


def _fail(arguments: argparse.Namespace, problems: Iterable[str]) -> int:
    """Print the error that is being handled, and return the exit code."""
    if arguments.verbose:
        traceback.print_exc()
    several = os.environ.get("WORLD_SIZE", "1") != "1"  # set by torchrun
    who = f"{arguments.command}: rank {os.environ.get('RANK')}" if several else arguments.command
    for problem in problems:
        say(Result(f"{who}: error: {problem}"))
    return FAILED


def _flush_standard_output() -> None:
    """Flush pending output; if that fails, send it nowhere, so that the interpreter's flush at exit succeeds."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


# --- messages and progress -------------------------------------------------------------------------------------------

SHOWN_AFTER = 1.0
"""Seconds after which a step gets a bar."""
SAY_EVERY = 30.0
"""Seconds between two lines of progress where there is no terminal."""
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


class Terminal:
    """The messages and steps of a command on standard error."""

    def __init__(self, verbosity: Verbosity = Verbosity.NORMAL) -> None:
        self.verbosity = verbosity
        self._bars = 0

    def say(self, line: str) -> None:
        """Print a message if it is to be shown; a closed stream is no reason to stop."""
        least = {Result: Verbosity.QUIET, Detail: Verbosity.VERBOSE}.get(type(line), Verbosity.NORMAL)
        if self.verbosity >= least:
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


_terminal = Terminal()
"""What the command that is running shows; a signal handler and other threads use it, too."""


def say(line: str) -> None:
    """Print a line to standard error; a closed stream is no reason to stop."""
    _terminal.say(line)


@contextlib.contextmanager
def _shown(arguments: argparse.Namespace) -> Iterator[None]:
    """Show as much as ``--quiet`` and ``--verbose`` ask for."""
    global _terminal  # noqa: PLW0603
    before = _terminal
    _terminal = Terminal(Verbosity(1 + arguments.verbose - arguments.quiet))
    speaks = os.environ.get("RANK", "0") == "0"  # of the processes of torchrun
    try:
        with shown_on(_terminal) if speaks else contextlib.nullcontext():
            yield
    finally:
        _terminal = before


def verbosity_options() -> list[str]:
    """Return the options with which another command shows as much as this one."""
    return {Verbosity.QUIET: ["--quiet"], Verbosity.VERBOSE: ["--verbose"]}.get(_terminal.verbosity, [])
