"""The types of options: each says how a value is read and, for a path, what is checked before the slow part."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from nmt.cli.files import require_run, require_system, require_writable
from nmt.config import schema
from nmt.config.problems import explain_value
from nmt.data.corpus import require_readable
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


def reader(annotation: Any) -> Callable[[str], Any]:
    """Make the function with which argparse reads a value of a type, within its bounds."""
    if parse := Value.of(annotation).parse:
        return parse
    if get_args(annotation)[:1] == (str,):
        return str  # pydantic refuses a file name that is not UTF-8
    adapter = TypeAdapter(annotation, config=ConfigDict(allow_inf_nan=False))

    def read(text: str) -> Any:
        try:
            return adapter.validate_python(text)
        except ValidationError as error:
            raise argparse.ArgumentTypeError(explain_value(error.errors()[0])) from None

    return read


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
    return name, path


InputFile = Annotated[str, Value("FILE", require_readable)]
OutputFile = Annotated[str, Value("FILE", require_writable, written=True)]
RunPath = Annotated[str, Value("RUN", require_run)]
RunOrFile = Annotated[tuple[str, str], Value("NAME=RUN_OR_HYPOTHESES", require_system, parse=named)]
NamedFile = Annotated[tuple[str, str], Value("NAME=FILE", require_readable, parse=named)]
Overrides = list[Annotated[str, Value("KEY=VALUE")]]
Device = Annotated[str, Value("NAME")]
Precision = Literal["fp32", "bf16", "int8"]
BleuTokenizer = Annotated[schema.BleuTokenizer, Value("NAME")]
Bins = Annotated[tuple[int, ...], Value("N,N,...", parse=bin_edges)]
FirstWord = Annotated[int, Field(ge=0, le=1)]

SHARED = {
    "set": "override a key of the configuration, for example training.updates=100; may be repeated",
    "device": "auto, cpu, cuda, cuda:1, ... (default: auto, a GPU if there is one)",
    "precision": "number format of matrix products, whatever the run was trained in; int8 needs VNNI (default: fp32)",
    "bins": "maximum length of each bin, in words, or in characters for a language without spaces between words; "
    "longer sentences form one more bin (default: evaluation.bins of the first run, or its default)",
    "bleu_tokenizer": "tokenizer of BLEU: 13a, zh, ja-mecab, ko-mecab, char, intl, none (default: "
    "evaluation.bleu_tokenizer of the runs, or by the script of the references)",
    "gold": "file of correct word alignments, a line for each sentence pair: i-j is a sure link between source word i "
    "and target word j, ipj a possible one",
    "gold_first": "index of the first word in --gold (default: 0)",
}
"""The help of parameters that several commands have."""
