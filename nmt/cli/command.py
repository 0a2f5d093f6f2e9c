"""A function as a command: its arguments are parsed, its paths checked, its errors printed; an exit code comes back."""

import argparse
import atexit
import contextlib
import gc
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from nmt import __version__
from nmt.cli.files import look_at
from nmt.cli.options import EXAMPLES, docstring, options_of
from nmt.cli.terminal import Terminal, say, showing
from nmt.config.problems import MOST_KEYS, keys_by_name
from nmt.cores import share_cores
from nmt.errors import ConfigError, NmtError, NmtWarning, nearest
from nmt.messages import Result

FAILED = 2
"""Exit code of an error that the user can correct (argparse uses it too)."""
INTERRUPTED = 130
BROKEN_PIPE = 141


class Command:
    """A function as the command nmt-FUNCTION, or under another name: ``main = Command(function)``."""

    def __init__(self, function: Callable[..., int | None], name: str | None = None) -> None:
        self.function = function
        self.name = name or f"nmt-{function.__name__.replace('_', '-')}"

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Parse the arguments (None: those of the process), call the function, and return the exit code.

        Every path that the command line names is checked before, because the function may import PyTorch.
        """
        share_cores()
        gc.set_threshold(50_000)  # a default of 700 costs 0.2 s while PyTorch is imported
        atexit.register(gc.freeze)  # a collection of its objects at exit, 0.3 s
        try:
            values = vars(self.parser().parse_args(argv))
        except SystemExit as end:  # --help, --version, or an error that argparse has printed
            _flush_standard_output()
            return int(end.code or 0)
        terminal = Terminal(quiet=values.pop("quiet"), verbose=values.pop("verbose"))

        def body() -> int | None:
            import_parts()
            look_at([path for option in options_of(self.function) for path in option.paths(values.get(option.name))])
            return self.function(**values)

        return run(self.name, body, terminal)

    def parser(self) -> argparse.ArgumentParser:
        """Make the parser of the arguments."""
        text, _, examples = docstring(self.function)
        epilog = f"{EXAMPLES}\n{examples}" if examples else None
        parser = Parser(self.name, description=text, epilog=epilog, formatter_class=HelpFormatter, allow_abbrev=False)
        groups: dict[str, Any] = {"Args": parser}
        for option in options_of(self.function):
            if option.group not in groups:
                groups[option.group] = parser.add_argument_group(option.group[0].lower() + option.group[1:])
            option.add_to(groups[option.group])
        amount = parser.add_mutually_exclusive_group()
        amount.add_argument("--quiet", action="store_true", help="show errors and results only")
        amount.add_argument(
            "--verbose", action="store_true", help="show details as well, and the traceback of an error"
        )
        parser.add_argument("--version", action="version", version=f"nmt-attention {__version__}")
        return parser


def import_parts() -> None:
    """Import the user's modules, which register parts. Raises ConfigError for one that cannot be imported."""
    for module in filter(None, os.environ.get("NMT_IMPORT", "").split(",")):
        try:
            __import__(module.strip())
        except ImportError as error:
            missing = isinstance(error, ModuleNotFoundError) and f"{module.strip()}.".startswith(f"{error.name}.")
            advice = "; PYTHONPATH must have its folder, as PYTHONPATH=. does here" if missing else ""
            raise ConfigError(f"NMT_IMPORT: cannot import {module.strip()!r} ({error}){advice}") from None
        except ValueError as error:  # of a registry
            raise ConfigError(f"NMT_IMPORT: {module.strip()}: {error}") from error


# --- the parser -------------------------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, which names the nearest option of each that it does not have."""

    _given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Remember what was given, for errors."""
        self._given = sys.argv[1:] if args is None else args
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the error, and exit with code 2."""
        named = (word.partition("=")[0] for word in self._given if word.startswith("--"))
        known = self._option_string_actions
        unknown = [word for word in named if word != "--" and word not in known]
        hints = [f"{word}: {hint}" for word in unknown for hint in self._settings(word) or nearest(word, known)]
        problem = "; ".join([message, *hints, f"{self.prog} --help lists the options"])
        self.exit(FAILED, f"{self.prog}: error: {problem}\n")

    def _settings(self, option: str) -> Sequence[str]:
        """How to give an option that is a key of the configuration, if the command has --set."""
        name = option.removeprefix("--").replace("-", "_")
        keys = keys_by_name().get(name.rpartition(".")[2], ()) if "--set" in self._option_string_actions else ()
        found = [key for key in keys if f".{key}".endswith(f".{name}")][:MOST_KEYS]
        return [f"write {' or '.join(f'--set {key}=VALUE' for key in found)}"] if found else []


class HelpFormatter(argparse.HelpFormatter):
    """Keep one line for each example."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(EXAMPLES) else super()._fill_text(text, width, indent)


# --- the end of a command ---------------------------------------------------------------------------------------------


def run(name: str, body: Callable[[], int | None], terminal: Terminal) -> int:
    """Run the body of a command, and return its exit code.

    An error that the user can correct is printed to standard error and ends with code 2; ``--verbose`` adds the
    traceback. When the reader of standard output goes away, the command ends silently.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":  # a locale may lack dashes
        sys.stdout.reconfigure(errors="replace")
    with showing(terminal):
        try:
            with _warnings_as_lines(name):
                code = body() or 0
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            return BROKEN_PIPE
        except KeyboardInterrupt:
            say(Result(f"{name}: interrupted"))
            return INTERRUPTED
        except Exception as error:
            problems = problems_of(error)
            if not problems:
                raise
            if terminal.verbose:
                traceback.print_exc()
            who = name if os.environ.get("WORLD_SIZE", "1") == "1" else f"{name}: rank {os.environ.get('RANK')}"
            for problem in problems:
                say(Result(f"{who}: error: {problem}"))
            return FAILED
        finally:
            _flush_standard_output()


def problems_of(error: Exception) -> Sequence[str]:
    """Explain an error that the user can correct, a line for each problem; return nothing for a defect."""
    if isinstance(error, NmtError):
        return error.problems
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename is not None else ""
        return [f"{place}{error.strerror or str(error) or type(error).__name__}"]
    if isinstance(error, RuntimeError | MemoryError):
        from nmt.device import out_of_memory  # noqa: PLC0415  (PyTorch is slow to import)

        if out_of_memory(error):
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            return [f"out of memory ({reason}); use smaller batches or a smaller model"]
    return []


@contextlib.contextmanager
def _warnings_as_lines(name: str) -> Iterator[None]:
    """Print each NmtWarning once, as a line of the command; other warnings pass as they are."""
    printed: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, NmtWarning):
            other(message, category, *place, **more)
        elif str(message) not in printed:
            printed.add(str(message))
            say(f"{name}: warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", NmtWarning)
        other, warnings.showwarning = warnings.showwarning, show
        yield


def _flush_standard_output() -> None:
    """Flush pending output; if that fails, send it nowhere, so that the interpreter's flush at exit succeeds."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
