"""A command from a typed function: its signature gives the options, its docstring their help.

Parameters before ``*`` are positional arguments, those after it options, and ``**decoding`` stands for the options of
the section ``decoding``. The docstring describes the parameters under ``Args:``, or under another heading, which then
names their group in ``--help``; its last paragraph may be ``examples:``. A parameter that several commands have is
described in SHARED.
"""

import argparse
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, Union, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from nmt.cli.common import EXAMPLES, command
from nmt.cli.files import NamedPath, Role, System, look_at
from nmt.config import schema
from nmt.config.problems import choices, expected
from nmt.config.schema import Decoding
from nmt.errors import nearest


@dataclass(frozen=True)
class Value:
    """How the value of an option is named in ``--help``, and what is looked at if it is a path."""

    metavar: str
    role: Role | None = None
    endings: Sequence[str] = ("",)
    """Endings of the files that are written for one path."""


def bin_edges(text: str) -> tuple[int, ...]:
    """Parse an argument: ascending whole numbers of at least 1, separated by commas."""
    edges = tuple(int(edge) for edge in text.split(",") if edge.isdecimal())
    if len(edges) <= text.count(",") or edges[0] < 1 or list(edges) != sorted({*edges}):
        raise ValueError(f"'{text}' is not a list of ascending lengths such as 10,20,30")
    return edges


InputFile = Annotated[str, Value("FILE", Role.READ)]
OutputFile = Annotated[str, Value("FILE", Role.WRITTEN)]
RunPath = Annotated[str, Value("RUN", Role.RUN)]
Overrides = list[Annotated[str, Value("KEY=VALUE")]]
Device = Annotated[str, Value("NAME")]
Precision = Literal["fp32", "bf16", "int8"]
BleuTokenizer = Annotated[schema.BleuTokenizer, Value("NAME")]
Bins = Annotated[tuple[int, ...], BeforeValidator(bin_edges), Value("N,N,...")]
FirstWord = Annotated[int, Field(ge=0, le=1)]

SHARED = {
    "set": "override a key of the configuration, for example training.updates=100; may be repeated",
    "device": "auto, cpu, cuda, cuda:1, ... (default: auto, a GPU if there is one)",
    "precision": "number format of matrix products, whatever the run was trained in; int8 needs VNNI (default: fp32)",
    "bins": "maximum length of each bin, in words, or in characters for a language without spaces between words; "
    "longer sentences form one more bin (default: evaluation.bins of the first run; without a run those of the schema)",
    "bleu_tokenizer": "tokenizer of BLEU: 13a, zh, ja-mecab, ko-mecab, char, intl, none (default: "
    "evaluation.bleu_tokenizer of the runs; without a run, by the script of the references)",
    "gold_first": "index of the first word in --gold (default: 0)",
}


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

    @property
    def value(self) -> Value:
        """How a value is named and what is looked at."""
        kind, *more = get_args(self.annotation) if get_origin(self.annotation) is Annotated else [self.annotation]
        return next((each for each in more if isinstance(each, Value)), Value("N" if kind is int else "X"))

    def add_to(self, group: Any) -> None:
        """Add the option to a group of a parser."""
        how: dict[str, Any] = {"help": self.meaning}
        if self.annotation is bool:
            how |= {"action": "store_true"}
        elif words := choices(self.annotation):
            how |= {"choices": words, "metavar": None if get_origin(self.annotation) is Literal else self.value.metavar}
        else:
            how |= {"type": reader(self.annotation), "metavar": self.value.metavar}
        if self.many:
            how |= {"nargs": "+"} | ({} if self.positional else {"action": "extend"})
        if self.positional:
            group.add_argument(self.name, **how)
        elif self.default is inspect.Parameter.empty:
            group.add_argument(self.flag, required=True, **how)
        else:
            group.add_argument(self.flag, default=self.default, **how)

    def paths(self, given: Any) -> Iterator[NamedPath]:
        """Yield the paths that are among the values given."""
        role = self.value.role
        for each in (given or ()) if self.many else [given]:
            if role is None or each is None:
                continue
            label, path = self.value.metavar if self.positional else self.flag, each
            if isinstance(each, System):
                label, path = f"{label} {each.name}={each.path}", each.path
            if len(self.value.endings) > 1:
                label = f"{label} {path}:"
            yield from (NamedPath(role, label, f"{path}{ending}") for ending in self.value.endings)


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
        """Make the parser of the arguments."""
        text, _ = _described(self.function)
        parser = CommandParser(prog=self.name, description=text, allow_abbrev=False)
        groups: dict[str, Any] = {"Args": parser}
        for option in self._options():
            if option.group not in groups:
                groups[option.group] = parser.add_argument_group(option.group[0].lower() + option.group[1:])
            option.add_to(groups[option.group])
        return parser

    def _options(self) -> Iterator[Option]:
        _, described = _described(self.function)
        hints = get_type_hints(self.function, include_extras=True)
        for name, parameter in inspect.signature(self.function).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                yield from _decoding_options(name)
                continue
            annotation, many = _without_none(hints[name]), False
            if get_origin(annotation) is list:
                [annotation], many = get_args(annotation), True
            positional = parameter.kind is not parameter.KEYWORD_ONLY
            group, meaning = described[name] if name in described else ("Args", SHARED[name])
            yield Option(name, annotation, many, positional, parameter.default, group, meaning)

    def _call(self, arguments: argparse.Namespace) -> int | None:
        given = {option: vars(arguments)[option.name] for option in self._options() if option.name in arguments}
        look_at([path for option, value in given.items() for path in option.paths(value)])
        return self.function(**{option.name: value for option, value in given.items()})


def _described(function: Callable[..., Any]) -> tuple[str, dict[str, tuple[str, str]]]:
    """Split a docstring into the text of ``--help``, with the examples, and by parameter its heading and meaning."""
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
    return "\n\n".join([*paragraphs, *([f"{EXAMPLES}\n{examples}"] if examples else [])]), found


def _decoding_options(group: str) -> Iterator[Option]:
    """Yield an option for each key of the section ``decoding``."""
    for name, field in Decoding.model_fields.items():
        meaning = re.sub(r"\s+", " ", field.description or "").removesuffix(".")
        text = f"{meaning[0].lower()}{meaning[1:]} (default: decoding.{name} of the run)"
        yield Option(name, Annotated[field.annotation, *field.metadata], False, False, argparse.SUPPRESS, group, text)


def _without_none(annotation: Any) -> Any:
    """Return X for ``X | None``."""
    if get_origin(annotation) in (Union, types.UnionType):
        [annotation] = [each for each in get_args(annotation) if each is not types.NoneType]
    return annotation


def reader(annotation: Any) -> Callable[[str], Any]:
    """Make the function with which argparse reads a value of a type, within its bounds."""
    if get_args(annotation)[:1] == (str,):
        return str  # pydantic refuses a file name that is not UTF-8
    adapter = TypeAdapter(annotation, config=ConfigDict(allow_inf_nan=False))

    def read(text: str) -> Any:
        try:
            return adapter.validate_python(text)
        except ValidationError as error:
            cause = error.errors()[0].get("ctx", {}).get("error")
            raise argparse.ArgumentTypeError(
                str(cause) if cause else f"found '{text}'; must be {expected(annotation)}"
            ) from None

    return read


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors name the nearest option of each that it does not have."""

    _given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Remember what was given, for errors."""
        self._given = sys.argv[1:] if args is None else args
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit with code 2."""
        named = (word.partition("=")[0] for word in self._given if word.startswith("--"))
        unknown = [word for word in named if word != "--" and word not in self._option_string_actions]
        hints = [f"{word}: {hint}" for word in unknown for hint in nearest(word, self._option_string_actions)]
        super().error("; ".join([message, *hints]))


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Make an argument type for argparse: a whole number from ``least`` to ``most``."""
    return reader(Annotated[int, Field(ge=least, le=most)])
