"""A command from a typed function: its signature gives the options, its docstring their help.

Parameters before ``*`` are positional arguments, those after it options, and ``**decoding`` stands for the options of
the section ``decoding`` with ``--device`` and ``--precision``. The docstring describes the parameters under ``Args:``,
or under another heading, which then names their group in ``--help``; its last paragraph may be ``examples:``.
"""

import argparse
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from nmt.cli.common import EXAMPLES, command
from nmt.cli.files import Named, Role, look_at
from nmt.config import schema
from nmt.config.schema import Decoding
from nmt.errors import ConfigError, nearest


@dataclass(frozen=True)
class Value:
    """How the value of an option is named in ``--help``, how it is read, and what is looked at if it is a path."""

    metavar: str
    parse: Callable[[str], Any] = str
    role: Role | None = None
    endings: Sequence[str] = ("",)
    """Endings of the files that are written for one path."""


InputFile = Annotated[str, Value("FILE", role=Role.READ)]
OutputFile = Annotated[str, Value("FILE", role=Role.WRITTEN)]
RunPath = Annotated[str, Value("RUN", role=Role.RUN)]
Overrides = list[Annotated[str, Value("KEY=VALUE")]]
Device = Annotated[str, Value("NAME")]
Precision = Literal["fp32", "bf16", "int8"]
BleuTokenizer = Annotated[schema.BleuTokenizer, Value("NAME")]


def bin_edges(text: str) -> tuple[int, ...]:
    """Parse an argument: ascending whole numbers of at least 1, separated by commas."""
    try:
        edges = tuple(int(edge) for edge in text.split(","))
    except ValueError:
        edges = ()
    if not edges or edges[0] < 1 or list(edges) != sorted({*edges}):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of ascending lengths such as 10,20,30")
    return edges


Bins = Annotated[Sequence[int], Value("N,N,...", bin_edges)]

DEVICE_OPTIONS: Mapping[str, tuple[Any, str]] = {
    "device": (Device, "auto, cpu, cuda, cuda:1, ... (default: auto, a GPU if there is one)"),
    "precision": (
        Precision,
        "number format of matrix products, whatever the run was trained in; int8 needs a CPU (default: fp32)",
    ),
}
"""Type and help of the options with which a translator is loaded."""


def search_options(decoding: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options of ``**decoding`` that are of the search; the others are DEVICE_OPTIONS."""
    return {name: value for name, value in decoding.items() if name in Decoding.model_fields}


def device_options(decoding: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options of ``**decoding`` that are DEVICE_OPTIONS."""
    return {name: value for name, value in decoding.items() if name in DEVICE_OPTIONS}


def refuse_useless(given: Mapping[str, Any], why: str) -> None:
    """Raise ConfigError for options that are given, neither None nor empty, and would have no effect."""
    if useless := [name for name, value in given.items() if value is not None and value != ()]:
        raise ConfigError(*(f"{_flag(name)}: has no effect {why}" for name in useless))


class Command:
    """A function as a command, with the name of the function after ``nmt-``: ``main = Command(function)``.

    Every file and run that the command line names is looked at before the function begins, which may import PyTorch.
    """

    def __init__(self, function: Callable[..., int | None]) -> None:
        self.function = function
        self.name = f"nmt-{function.__name__.replace('_', '-')}"

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Parse the arguments (None: those of the process), call the function, and return the exit code."""
        return command(self.parser)(self._call)(argv)

    def parser(self) -> argparse.ArgumentParser:
        """Make the parser of the arguments; what is not given has no value."""
        text, described = _described(inspect.getdoc(self.function) or "")
        parser = CommandParser(prog=self.name, description=text, argument_default=argparse.SUPPRESS)
        groups: dict[str, Any] = {"Args": parser}
        for parameter in inspect.signature(self.function).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                _add_decoding_options(parser.add_argument_group(parameter.name))
                continue
            heading, meaning = described[parameter.name]
            if heading not in groups:
                groups[heading] = parser.add_argument_group(heading[0].lower() + heading[1:])
            annotation, required = self._hints[parameter.name], parameter.default is parameter.empty
            if parameter.kind is not parameter.KEYWORD_ONLY:
                groups[heading].add_argument(parameter.name, help=meaning, **_converted(annotation))
                continue
            if annotation is not bool:
                meaning = _with_default(meaning, parameter.default, required)
            options = {"required": required, **_converted(annotation)}
            groups[heading].add_argument(_flag(parameter.name), help=meaning, **_as_option(options))
        return parser

    @property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.function, include_extras=True)

    def _call(self, arguments: argparse.Namespace) -> int | None:
        shown_by_all = ("command", "quiet", "verbose")
        given = {name: value for name, value in vars(arguments).items() if name not in shown_by_all}
        for name, annotation in self._hints.items():
            if name in given and get_origin(_without_none(annotation)) is tuple:
                given[name] = tuple(given[name])
        look_at(self._paths(given))
        return self.function(**given)

    def _paths(self, given: Mapping[str, Any]) -> Iterator[tuple[Role, str, str]]:
        """Yield the role of each path among the arguments, what names it in messages, and the path."""
        hints, parameters = self._hints, inspect.signature(self.function).parameters
        for name, value in given.items():
            annotation = hints.get(name, str)
            many = get_origin(_without_none(annotation)) in (list, tuple)
            for each, (_, kind) in zip(value if many else [value], _repeated(annotation), strict=False):
                if kind is None or kind.role is None:
                    continue
                positional = name in parameters and parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY
                label, path = kind.metavar if positional else _flag(name), each
                if isinstance(each, Named):
                    label, path = f"{label} {each.name}={each.path}", each.path
                if len(kind.endings) > 1:
                    label = f"{label} {path}:"
                yield from ((kind.role, label, f"{path}{ending}") for ending in kind.endings)


# --- the docstring ----------------------------------------------------------------------------------------------------


def _described(text: str) -> tuple[str, dict[str, tuple[str, str]]]:
    """Split a docstring into the text of ``--help``, with the examples, and by parameter its heading and meaning."""
    text, _, examples = text.partition(f"\n\n{EXAMPLES}\n")
    paragraphs, found = [], dict[str, tuple[str, str]]()
    for paragraph in text.split("\n\n"):
        heading, _, entries = paragraph.partition("\n")
        if not (heading.endswith(":") and entries.startswith("    ")):
            paragraphs.append(paragraph)
            continue
        for entry in re.split(r"\n(?=    \w)", f"\n{entries}")[1:]:
            name, _, meaning = entry.strip().partition(": ")
            found[name] = heading[:-1], re.sub(r"\s+", " ", meaning).replace("%", "%%")
    return "\n\n".join([*paragraphs, *([f"{EXAMPLES}\n{examples}"] if examples else [])]), found


def _with_default(meaning: str, default: Any, required: bool) -> str:
    """Add the default of an option to its meaning, unless the meaning has it or says when it is required."""
    if required:
        return f"{meaning} (required)"
    if "default:" in meaning or "required" in meaning:
        return meaning
    return f"{meaning} (default: {'none' if default in (None, (), []) else default})"


# --- the signature ----------------------------------------------------------------------------------------------------


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _add_decoding_options(group: Any) -> None:
    """Add an option for each key of the section ``decoding``, and DEVICE_OPTIONS."""
    for name, field in Decoding.model_fields.items():
        meaning = re.sub(r"\s+", " ", field.description or "").removesuffix(".")
        text = f"{meaning[0].lower()}{meaning[1:]} (default: decoding.{name} of the run)"
        group.add_argument(_flag(name), help=text, **_converted(Annotated[field.annotation, *field.metadata]))
    for name, (annotation, meaning) in DEVICE_OPTIONS.items():
        group.add_argument(_flag(name), help=meaning, **_converted(annotation))


def _without_none(annotation: Any) -> Any:
    """Return X for ``X | None``."""
    if get_origin(annotation) in (Union, types.UnionType):
        [annotation] = [each for each in get_args(annotation) if each is not types.NoneType]
    return annotation


def _one(annotation: Any) -> tuple[Any, Value | None]:
    """Return the type of a single value, and how it is read; None for what argparse reads itself."""
    annotation, metadata = _without_none(annotation), []
    while get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        metadata += [part for each in more for part in getattr(each, "metadata", [each])]  # of a pydantic Field
    own = next((each for each in metadata if isinstance(each, Value)), None)
    if own is not None or annotation not in (int, float):
        return annotation, own
    bounds = {key: getattr(each, key) for each in metadata for key in ("ge", "le") if hasattr(each, key)}
    make = whole if annotation is int else number
    parse: Any = make(*(bounds[key] for key in ("ge", "le") if key in bounds))
    return annotation, Value("N" if annotation is int else "X", parse)


def _repeated(annotation: Any) -> Iterator[tuple[Any, Value | None]]:
    """Yield :func:`_one` of each value of a parameter: forever for a list, once for anything else but a tuple."""
    annotation = _without_none(annotation)
    if get_origin(annotation) is tuple:
        yield from map(_one, get_args(annotation))
    elif get_origin(annotation) is list:
        while True:
            yield _one(get_args(annotation)[0])
    else:
        yield _one(annotation)


def _converted(annotation: Any) -> dict[str, Any]:
    """Return the arguments of ``add_argument`` for a parameter of this type."""
    annotation = _without_none(annotation)
    if annotation is bool:
        return {"action": "store_true"}
    if get_origin(annotation) is tuple:
        return {
            "nargs": len(get_args(annotation)),
            "metavar": tuple(value.metavar for _, value in _repeated(annotation) if value is not None),
        }
    several = {"nargs": "+"} if get_origin(annotation) is list else {}
    kind, value = next(_repeated(annotation))
    if get_origin(kind) is Literal:
        return several | {"choices": get_args(kind)} | ({} if value is None else {"metavar": value.metavar})
    assert value is not None, f"{annotation}: needs a Value"
    return several | {"metavar": value.metavar, "type": value.parse}


def _as_option(options: dict[str, Any]) -> dict[str, Any]:
    """Let a list grow when its option is given again."""
    return options | ({"action": "extend"} if options.get("nargs") == "+" else {})


# --- the parser and its numbers ---------------------------------------------------------------------------------------

LARGEST_WHOLE = 2**63 - 1
"""Upper bound of a whole number without another bound: more does not fit into a tensor."""


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors name the nearest option of each that it does not have."""

    _words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does."""
        self._words = sys.argv[1:] if args is None else list(args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit with code 2."""
        if message.startswith(("unrecognized arguments", "the following arguments are required")):
            message = "; ".join([message, *self._misspelt()])
        super().error(message)

    def _misspelt(self) -> list[str]:
        """Name the nearest option of each word that looks like one and is none."""
        known = list(self._option_string_actions)
        words = (word.partition("=")[0] for word in self._words if word.startswith("--"))
        unknown = [word for word in words if not any(option.startswith(word) for option in known)]
        return [f"{word}: {hint}" for word in unknown for hint in nearest(word, known)]


def whole(least: int, most: int = LARGEST_WHOLE) -> Callable[[str], int]:
    """Make an argument type: a whole number from ``least`` to ``most``."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            bounds = "" if most == LARGEST_WHOLE and value < least else f" and at most {most}"
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least {least}{bounds}")
        return value

    return parse


def number(least: float, most: float = inf) -> Callable[[str], float]:
    """Make an argument type: a finite number from ``least`` to ``most``."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = inf
        if not least <= value <= most or value == inf:
            bounds = f"of at least {least:g}" if most == inf else f"from {least:g} to {most:g}"
            raise argparse.ArgumentTypeError(f"'{text}' is not a number {bounds}")
        return value

    return parse
