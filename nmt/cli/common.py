"""How every command begins and ends: exit codes, error lines, stop requests, and messages on standard error."""

import argparse
import contextlib
import functools
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any, Self

from nmt import __version__
from nmt.cli.display import BOLD, RED, Terminal, Verbosity, colored
from nmt.cores import share_cores
from nmt.errors import NmtError, NmtWarning
from nmt.messages import Result, shown_on

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
        say(Result(f"{who}: {colored('error:', BOLD, RED)} {problem}"))
    return FAILED


def _flush_standard_output() -> None:
    """Flush pending output; if that fails, send it nowhere, so that the interpreter's flush at exit succeeds."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class StopRequest:
    """A stop request by Ctrl-C, SIGTERM or SIGHUP.

    Within its ``with`` block the first signal is recorded, and training stops after the current step or batch. A second
    signal ends the process immediately. Signals that nohup or a script has made the process ignore stay ignored, except
    SIGTERM.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        heard = [each for each in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(each) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGTERM, *heard)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Whether a stop was requested."""
        return self.signal is not None

    def _note(self, number: int, _: FrameType | None) -> None:
        self.signal = number
        if "RANK" in os.environ:  # torchrun passes on signals that have also come directly, and kills after 30 s
            if os.environ["RANK"] == "0":
                say("stopping after this step")
            return
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)
        with contextlib.suppress(RuntimeError):  # the signal may arrive while another line is printed
            say("stopping after this step; press Ctrl-C again to stop immediately")


# --- messages for a person --------------------------------------------------------------------------------------------


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
