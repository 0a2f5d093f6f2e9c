"""The options of commands: their types, and how a parameter of a function becomes an option.

A type says how a value is read and, for a path, what is checked before the slow part.
"""

import argparse
import inspect
import os
import re
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from nmt.cli.files import NamedPath, require_run, require_system, require_writable
from nmt.config import schema
from nmt.config.problems import choices, explain_value
from nmt.data.corpus import require_readable
from nmt.errors import NmtError
from nmt.files import printable


@dataclass(frozen=True)
class Value:
    """How the value of an option is named in ``--help`` and read; for a path, how it is checked."""

    metavar: str
    check: Callable[[str], None] | None = None
    """Raises the error of a path that cannot be read or written."""
    written: bool = False
    endings: Sequence[str] = ("",)
    """Endings of the files that are written for one path."""
    parse: Callable[[str], Any] | None = None
    """Reads the text of a value instead of pydantic."""

    @classmethod
    def of(cls, annotation: Any) -> "Value":
        """The value that a type is annotated with; otherwise N for an integer and X for other types."""
        kind, *more = get_args(annotation) if get_origin(annotation) is Annotated else [annotation]
        return next((each for each in more if isinstance(each, Value)), cls("N" if kind is int else "X"))


def bin_edges(text: str) -> tuple[int, ...]:
    """Parse ascending whole numbers of at least 1, separated by commas."""
    edges = tuple(int(edge) for edge in text.split(",") if edge.isdecimal())
    if len(edges) <= text.count(",") or edges[0] < 1 or list(edges) != sorted({*edges}):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of ascending lengths such as 10,20,30")
    return edges


def named(text: str) -> tuple[str, str]:
    """Parse NAME=PATH."""
    name, equals, path = text.partition("=")
    name = printable(name).strip()
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=PATH, for example bahdanau=runs/demo/bahdanau")
    return name, os.path.expanduser(path)  # noqa: PTH111  (as it is written but for "~")


def length_range(text: str) -> tuple[int, int]:
    """Parse two whole numbers such as 11-20, the smaller one first."""
    low, _, high = text.partition("-")
    if not (low.isdecimal() and high.isdecimal() and int(low) <= int(high)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a range of lengths such as 11-20")
    return int(low), int(high)


def run_path(text: str) -> str:
    """The directory of a run, which may have to be downloaded."""
    from nmt.runs.hub import local  # noqa: PLC0415  (slow to import)

    try:
        return local(text)
    except NmtError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


InputFile = Annotated[str, Value("FILE", require_readable)]
OutputFile = Annotated[str, Value("FILE", require_writable, written=True)]
RunPath = Annotated[str, Value("RUN", require_run, parse=run_path)]
RunOrFile = Annotated[tuple[str, str], Value("NAME=RUN_OR_HYPOTHESES", require_system, parse=named)]
NamedFile = Annotated[tuple[str, str], Value("NAME=FILE", require_readable, parse=named)]
Overrides = list[Annotated[str, Value("KEY=VALUE")]]
Device = Annotated[str, Value("NAME")]
Precision = Literal["fp32", "bf16", "int8"]
Bins = Annotated[tuple[int, ...], Value("N,N,...", parse=bin_edges)]
Lengths = Annotated[tuple[int, int], Value("N-M", parse=length_range)]
FirstWord = Annotated[int, Field(ge=0, le=1)]

EXAMPLES = "examples:"
"""Begins the last paragraph of a docstring."""
SHARED = {
    "set": "override a key of the configuration, for example training.updates=100; may be repeated",
    "device": "auto, cpu, cuda, cuda:1, ... (default: auto, a GPU if there is one)",
    "precision": "number format of matrix products; int8 needs VNNI (default: fp32)",
    "bins": "maximum length of each bin, in words (characters of a language without spaces); longer sentences form one "
    "more bin (default: evaluation.bins of the first run)",
    "bleu_tokenizer": "tokenizer of BLEU (default: evaluation.bleu_tokenizer of the runs; without runs, by the script "
    "of the references)",
    "gold": "file of correct word alignments, a line for each pair: i-j is a sure link of source word i and target "
    "word j, ipj a possible one",
    "gold_first": "index of the first word in --gold (default: 0)",
}
"""The help of parameters that several commands have."""


# --- from a parameter to an option -----------------------------------------------------------------------------------


def options_of(function: Callable[..., Any]) -> Iterator["Option"]:
    """Yield the options that the parameters of a function stand for."""
    _, described, _ = docstring(function)
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
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


class Option(NamedTuple):
    """An option or argument of a command."""

    name: str
    annotation: Any
    many: bool
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
            how |= {"choices": words}
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


def reader(annotation: Any) -> Callable[[str], Any]:
    """Make the function with which argparse reads a value of a type, within its bounds."""
    parse = Value.of(annotation).parse
    if parse or (get_args(annotation)[:1] == (str,) and Value in map(type, get_args(annotation))):
        parsed: Callable[[str], Any] = parse or str  # pydantic refuses a file name that is not UTF-8
        return lambda text: parsed(os.path.expanduser(text))  # noqa: PTH111  (the shell leaves --output=~/run)
    adapter = TypeAdapter(annotation, config=ConfigDict(allow_inf_nan=False))

    def read(text: str) -> Any:
        try:
            return adapter.validate_python(text)
        except ValidationError as error:
            raise argparse.ArgumentTypeError(explain_value(error.errors()[0])) from None

    return read


def _decoding_options() -> Iterator[Option]:
    """Yield an option for each key of the section ``decoding``; without a value, that of the run holds."""
    for name, field in schema.Decoding.model_fields.items():
        meaning = re.sub(r"\s+", " ", field.description or "").removesuffix(".")
        text = f"{meaning[0].lower()}{meaning[1:]} (default: decoding.{name} of the run)".replace("%", "%%")
        annotation: Any = Annotated[field.annotation, *field.metadata, Value.of(field.annotation)]
        yield Option(name, annotation, False, False, argparse.SUPPRESS, "decoding", text)


def docstring(function: Callable[..., Any]) -> tuple[str, dict[str, tuple[str, str]], str]:
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
