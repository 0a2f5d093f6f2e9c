"""Entry points of the commands: exit codes, error lines, and messages for a person on standard error."""

import argparse
import codecs
import contextlib
import functools
import io
import os
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nmt import __version__
from nmt.cli.display import BOLD, RED, Terminal, Verbosity, colored
from nmt.cli.files import writing
from nmt.cores import share_cores
from nmt.errors import MissingFile, NmtError, NmtWarning
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
            if argv is None:
                _restart_in_utf8_mode()
            share_cores()
            _replace_closed_streams()
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(errors="backslashreplace")  # print results even if the terminal lacks UTF-8
            options = parser()
            options.formatter_class = HelpFormatter
            options.description, *examples = (options.description or "").split(f"\n\n{EXAMPLES}\n")
            options.epilog = f"{EXAMPLES}\n{examples[0].rstrip()}" if examples else None
            options.set_defaults(command=options.prog)
            amount = options.add_mutually_exclusive_group()
            amount.add_argument("--quiet", action="store_true", default=False, help="show errors and results only")
            amount.add_argument(
                "--verbose",
                action="store_true",
                default=False,
                help="show details as well, and the traceback of an error",
            )
            options.add_argument("--version", action="version", version=f"nmt-attention {__version__}")
            try:
                arguments = options.parse_args(argv)
            except SystemExit as end:  # --help, --version, or an error that argparse has printed
                _flush_standard_output()
                return int(end.code or 0)
            with shown(arguments):
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
        return f"{text} (default: {'none' if action.default in (None, []) else '%(default)s'})"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(EXAMPLES) else super()._fill_text(text, width, indent)


def _restart_in_utf8_mode() -> None:
    """Restart in Python's UTF-8 mode if file names would be decoded otherwise (``LC_ALL=C PYTHONUTF8=0``), because all
    text here is UTF-8."""
    restarted = os.environ.get("PYTHONUTF8") == "1"  # without success, as under -X utf8=0
    if codecs.lookup(sys.getfilesystemencoding()).name != "utf-8" and not restarted:
        os.environ["PYTHONUTF8"] = "1"  # child processes inherit it
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _replace_closed_streams() -> None:
    """Replace standard streams that were closed by the parent process: reading or printing results then raises an
    ordinary error, and messages are discarded."""
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Let Ctrl-C end the process during slow imports: the importing module might catch KeyboardInterrupt and stay
    half initialized."""
    before = signal.getsignal(signal.SIGINT)
    if before != signal.SIG_IGN:  # as for a command that a script starts in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
        with writing("standard output"):
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        return BROKEN_PIPE
    except KeyboardInterrupt:
        say(Result(f"{arguments.command}: interrupted"))
        return INTERRUPTED
    except (NmtError, OSError) as error:
        problems = error.problems if isinstance(error, NmtError) else [_describe(error)]
        if isinstance(error, MissingFile):
            hint = _location_hint(error.path, getattr(arguments, "config", None))
            problems = [f"{problem}{hint}" for problem in problems]
        return _fail(arguments, problems)
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


def _describe(error: OSError) -> str:
    place = f"{error.filename}: " if error.filename is not None else ""
    return place + (error.strerror or str(error) or type(error).__name__)


DATA_FOLDERS = ("", "data", "data/downloads")
"""Subdirectories in which corpora usually lie."""


def _location_hint(path: Path, config: str | None) -> str:
    """Look for a missing file in the home directory, and near the configuration; "" if it is not there either."""
    bases = [Path.cwd(), *(Path(config).absolute().parents if config else ())]
    places = (base / folder / os.path.expanduser(path) for base in bases for folder in DATA_FOLDERS)  # noqa: PTH111
    place = next((place for place in places if os.path.isfile(place)), None)  # noqa: PTH113  (never raises)
    if place is None:
        return ""
    shown = place.relative_to(bases[0]) if bases[0] in place.parents else place
    return f"; there is {shown}"


def _flush_standard_output() -> None:
    """Flush pending output; if that fails, send it nowhere, so that the interpreter's flush at exit succeeds."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


# --- messages for a person --------------------------------------------------------------------------------------------


_terminal = Terminal()
"""What the command that is running shows; a signal handler and other threads use it, too."""


def say(line: str) -> None:
    """Print a line to standard error; a closed stream is no reason to stop."""
    _terminal.say(line)


@contextlib.contextmanager
def shown(arguments: argparse.Namespace) -> Iterator[None]:
    """Show as much as ``--quiet`` and ``--verbose`` ask for, within another command as much as that one shows."""
    global _terminal  # noqa: PLW0603
    before = _terminal
    if arguments.quiet or arguments.verbose:
        _terminal = Terminal(Verbosity.QUIET if arguments.quiet else Verbosity.VERBOSE)
    speaks = os.environ.get("RANK", "0") == "0"  # of the processes of torchrun
    try:
        with shown_on(_terminal) if speaks else contextlib.nullcontext():
            yield
    finally:
        _terminal = before


def verbosity_options() -> list[str]:
    """Return the options with which another command shows as much as this one."""
    return {Verbosity.QUIET: ["--quiet"], Verbosity.VERBOSE: ["--verbose"]}.get(_terminal.verbosity, [])


def as_typed(name: str) -> str:
    """Return what starts this command again: its name, or its path if the shell would not find that name."""
    began, found = sys.argv[0], shutil.which(name)
    with contextlib.suppress(OSError):  # one of them is gone
        if Path(began).name == name and not (found and Path(found).samefile(began)):
            return began
    return name
