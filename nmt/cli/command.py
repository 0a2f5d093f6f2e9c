"""A command from a typed function: its signature gives the options, its docstring their help.

    def weigh(texts: list[InputFile], *, times: Annotated[int, Field(ge=1)] = 2) -> None:
        \"""Weigh words.

        Args:
            texts: what is weighed
            times: how often
        \"""

    main = Command(weigh)  # nmt-weigh FILE [FILE ...] --times N

Parameters before ``*`` are positional arguments, those after it options, and ``**decoding`` stands for an option for
each key of the section ``decoding``. Another heading than ``Args:`` names a group in ``--help``; the last paragraph of
the docstring may be ``examples:``.
"""

import argparse
import contextlib
import inspect
import os
import re
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, Union, get_args, get_origin, get_type_hints

from nmt import __version__
from nmt.cli.files import NamedPath, look_at
from nmt.cli.options import SHARED, Value, reader
from nmt.cli.terminal import Terminal, say, showing
from nmt.config.problems import MOST_KEYS, choices, keys_by_name
from nmt.config.schema import Decoding
from nmt.cores import share_cores
from nmt.errors import ConfigError, NmtError, NmtWarning, nearest
from nmt.messages import Result

FAILED = 2
"""Exit code of an error that the user can correct (argparse uses it too)."""
INTERRUPTED = 130
BROKEN_PIPE = 141
EXAMPLES = "examples:"


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
        try:
            values = vars(self.parser().parse_args(argv))
        except SystemExit as end:  # --help, --version, or an error that argparse has printed
            _flush_standard_output()
            return int(end.code or 0)
        terminal = Terminal(quiet=values.pop("quiet"), verbose=values.pop("verbose"))

        def body() -> int | None:
            import_parts()
            look_at([path for option in self.options() for path in option.paths(values.get(option.name))])
            return self.function(**values)

        return run(self.name, body, terminal)

    def options(self) -> Iterator["Option"]:
        """Yield the options that the parameters of the function stand for."""
        _, described, _ = _docstring(self.function)
        hints = get_type_hints(self.function, include_extras=True)
        for name, parameter in inspect.signature(self.function).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                yield from _decoding_options()
                continue
            annotation, many = hints[name], False
            if get_origin(annotation) in (Union, types.UnionType):
                [annotation] = [each for each in get_args(annotation) if each is not types.NoneType]
            if get_origin(annotation) is list:
                [annotation], many = get_args(annotation), True
            group, meaning = described[name] if name in described else ("Args", SHARED[name])
            positional = parameter.kind is not parameter.KEYWORD_ONLY
            yield Option(name, annotation, many, positional, parameter.default, group, meaning)

    def parser(self) -> argparse.ArgumentParser:
        """Make the parser of the arguments."""
        text, _, examples = _docstring(self.function)
        epilog = f"{EXAMPLES}\n{examples}" if examples else None
        parser = Parser(self.name, description=text, epilog=epilog, formatter_class=HelpFormatter, allow_abbrev=False)
        groups: dict[str, Any] = {"Args": parser}
        for option in self.options():
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
    """Import the user's modules, which register parts of their own. Raises ConfigError for one that is missing."""
    for module in filter(None, os.environ.get("NMT_IMPORT", "").split(",")):
        try:
            __import__(module.strip())
        except ImportError as error:
            advice = "PYTHONPATH must have its folder, as PYTHONPATH=. does here"
            raise ConfigError(f"NMT_IMPORT: cannot import {module.strip()!r} ({error}); {advice}") from None


# --- options ----------------------------------------------------------------------------------------------------------


class Option(NamedTuple):
    """An option or argument of a command."""

    name: str
    annotation: Any
    """The type of one value."""
    many: bool
    """Whether there may be several values."""
    positional: bool
    default: Any
    """``Parameter.empty`` for what is required; ``argparse.SUPPRESS`` for what is not passed on unless it is given."""
    group: str
    meaning: str

    @property
    def flag(self) -> str:
        """The option as a user types it."""
        return f"--{self.name.replace('_', '-')}"

    def add_to(self, group: Any) -> None:
        """Add the option to a group of a parser; its help states the default, or that it is required."""
        value, how = Value.of(self.annotation), dict[str, Any](help=self.meaning)
        if self.annotation is bool:
            how |= {"action": "store_true"}
        elif words := choices(self.annotation):
            how |= {"choices": words, "metavar": None if get_origin(self.annotation) is Literal else value.metavar}
        else:
            how |= {"type": reader(self.annotation), "metavar": value.metavar}
        if self.many:
            how |= {"nargs": "+"} | ({} if self.positional else {"action": "extend"})
        if self.positional:
            group.add_argument(self.name, **how)
            return
        required = self.default is inspect.Parameter.empty
        how |= {"required": True} if required else {"default": self.default}
        if not (self.annotation is bool or "default:" in self.meaning or "required" in self.meaning):
            default = "none" if self.default in (None, ()) else self.default
            how["help"] += " (required)" if required else f" (default: {default})"
        group.add_argument(self.flag, **how)

    def paths(self, given: Any) -> Iterator[NamedPath]:
        """Yield the paths that are among the values given."""
        value = Value.of(self.annotation)
        if given is None or not (value.check or value.written):
            return
        for each in given if self.many else [given]:
            label, path = value.metavar if self.positional else self.flag, each
            if isinstance(each, tuple):  # NAME=PATH
                label, path = f"{label} {'='.join(each)}", each[1]
            if len(value.endings) > 1:
                label = f"{label} {path}:"
            yield from (NamedPath(label, f"{path}{end}", value.written, value.check) for end in value.endings)


def _decoding_options() -> Iterator[Option]:
    """Yield an option for each key of the section ``decoding``; without a value, that of the run holds."""
    for name, field in Decoding.model_fields.items():
        meaning = re.sub(r"\s+", " ", field.description or "").removesuffix(".")
        text = f"{meaning[0].lower()}{meaning[1:]} (default: decoding.{name} of the run)".replace("%", "%%")
        annotation: Any = Annotated[field.annotation, *field.metadata]
        yield Option(name, annotation, False, False, argparse.SUPPRESS, "decoding", text)


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, tuple[str, str]], str]:
    """Split a docstring into text, the heading and meaning of each parameter, and examples."""
    text, _, examples = (inspect.getdoc(function) or "").partition(f"\n\n{EXAMPLES}\n")
    paragraphs, found = [], dict[str, tuple[str, str]]()
    for paragraph in text.split("\n\n"):
        heading, _, entries = paragraph.partition("\n")
        if not (heading.endswith(":") and entries.startswith("    ")):
            paragraphs.append(paragraph)
            continue
        for entry in re.split(r"\n(?=    \w)", f"\n{entries}")[1:]:
            name, _, meaning = entry.strip().partition(": ")
            found[name] = heading[:-1], re.sub(r"\s+", " ", meaning).replace("%", "%%")
    return "\n\n".join(paragraphs), found, examples


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
        if "--model" in unknown:  # of the other commands
            places = " ".join(str(action.metavar) for action in self._actions if not action.option_strings)
            hints = [f"give {places} without --model"]
        elif "--model" in self._option_string_actions and "--model" not in self._given:
            hints += [f"write --model {run}" for run in self._given[:1] if Path(run).is_dir()]
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
