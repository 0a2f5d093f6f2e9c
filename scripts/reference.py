"""Write the parts of the pages that the program knows: the keys in docs/options.md, the options in docs/commands.md,
the claims in docs/textbook.md, and the tables of measurements.

    python scripts/reference.py

Such a part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``; all else is written by hand. A test fails
if a page differs from the program.
"""

import ast
import importlib
import inspect
import json
import re
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

import measured_tables
from nmt.config.problems import Variants, annotation_of, variants_of
from nmt.config.schema import Config, Section

ROOT = Path(__file__).parent.parent
COMMANDS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
GENERATED_IN = "options", "commands", "textbook", "own-text", "performance", "attention", "results"
PAGES = tuple(f"docs/{name}.md" for name in GENERATED_IN)
GENERATED = re.compile(r"^<!-- generated: ([\w-]+) -->\n.*?^<!-- end -->$", re.DOTALL | re.MULTILINE)


def escaped(text: str) -> str:
    """Escape what Markdown would read as markup outside of code, and join lines."""
    parts = re.split(r"(``.*?``|`.*?`)", " ".join(text.split()))
    return "".join(
        part.replace("``", "`") if i % 2 else re.sub(r"([\\*_<>\[\]|$])", r"\\\1", part) for i, part in enumerate(parts)
    )


# --- every option of a configuration ----------------------------------------------------------------------------------

KINDS = {int: "", float: "number", str: "text", bool: "", NoneType: "null"}
"""What a type is called; the default shows that a value is true or false."""
LIMITS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
LARGEST_SHOWN = 1000
"""A higher limit only keeps absurd values out; no reader needs it."""


def options() -> str:
    """Every section of a configuration with its keys: default, values and meaning."""
    return "\n".join(_of_section("", {"": Config}, {}, {})) + "\n"


def _of_section(key: str, variants: Variants, sections: dict[str, Variants], lines: dict[str, str]) -> Iterator[str]:
    """One key that holds a section: its variants and their keys, then the sections in them.

    ``sections`` and ``lines`` are those above, each line with its section, so that nothing is printed twice.
    """
    yield f"\n{'#' * min(4, 2 + key.count('.'))} {f'`{key}`' if key else 'At the top level'}\n"
    for earlier, found in sections.items():
        if set(variants.values()) <= set(found.values()):
            yield f"Like `{earlier}`{'' if variants == found else ': ' + ', '.join(variants)}."
            return
    for section in dict.fromkeys(variants.values()):
        tags = ", ".join(f"**{escaped(tag)}**" for tag, kind in variants.items() if kind is section)
        yield f"- {tags}: {escaped(section.__doc__ or '')}" if len(variants) > 1 else escaped(section.__doc__ or "")
    inner = {name: f"{key}.{name}" if key else name for name in _sections_in(variants)}
    for having, keys in _keys_of(variants, inner).items():
        yield "" if len(having) == len(variants) else f"\nWith {', '.join(having)}:\n"
        known: dict[str, list[str]] = {}
        for name, line in keys.items():
            if lines.setdefault(line, key) == key:
                yield line
            else:
                known.setdefault(lines[line], []).append(f"`{name}`")
        yield from (f"- {', '.join(names)}: as in `{earlier}`" for earlier, names in known.items())
    sections[key] = variants
    for name, found in _sections_in(variants).items():
        yield from _of_section(inner[name], found, sections, lines)


def _sections_in(variants: Variants) -> Mapping[str, Variants]:
    """The keys that hold sections with keys of their own, or a choice of sections."""
    found = ((name, variants_of(annotation_of(each, name))) for each in variants.values() for name in each.model_fields)
    return {name: inner for name, inner in found if any(each.model_fields for each in inner.values())}


def _keys_of(variants: Variants, inner: Mapping[str, str]) -> Mapping[tuple[str, ...], Mapping[str, str]]:
    """The keys with their lines, by the variants that have them so.

    ``inner``: the full names of the keys that hold sections, which have a heading of their own.
    """
    owners: dict[tuple[str, str], list[str]] = {}
    for tag, section in variants.items():
        for name, field in section.model_fields.items():
            if name == "type":
                continue
            line = f"`{name}{_default(field)}`"
            if name in inner:
                line = f"[{line}](#{inner[name].replace('.', '')})"
            elif values := _values(annotation_of(section, name), _default(field)):
                line += f" ({values})"
            meaning = escaped(_described(section, name))
            owners.setdefault((name, f"- {line}{meaning and f': {meaning}'}"), []).append(tag)
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for (name, line), tags in owners.items():
        found.setdefault(tuple(tags), {})[name] = line
    return found


def _values(annotation: Any, default: str) -> str:
    """Describe a key's values, leaving out what its default shows: null, or a kind of number."""
    words = _type(annotation)
    words = words.removesuffix(" or null") if default == ": null" else words
    return escaped(re.sub(r"^number ?", "", words) if re.match(r": -?\d", default) else words)


def _type(annotation: Any, bounds: Sequence[Any] = ()) -> str:
    """Describe a type of values in a few words."""
    origin, members = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        extras = [part for extra in members[1:] for part in getattr(extra, "metadata", [extra])]
        return _type(members[0], [*bounds, *extras])
    if origin in (Union, UnionType):
        return " or ".join(_type(member, bounds) for member in members)
    if origin is Literal:
        return ", ".join(members)
    if origin is dict:
        return "a section of names"
    if origin is tuple:
        size = "" if Ellipsis in members else f" of {len(members)}"
        size = " of one or more" if any(getattr(bound, "min_length", 0) for bound in bounds) else size
        return f"a list{size}, each {_type(members[0])}"
    limits = [
        f"{sign}{getattr(bound, name):.9g}"
        for bound in bounds
        for name, sign in LIMITS.items()
        if hasattr(bound, name) and (name != "le" or bound.le < LARGEST_SHOWN)
    ]
    return f"{KINDS[annotation]} {', '.join(limits)}".strip()


def _described(section: type[Section], name: str) -> str:
    """The text of a key, which a subclass may leave to its base."""
    bases = [base for base in section.__mro__ if issubclass(base, Section)]
    return next((text for base in bases if (text := _descriptions(base).get(name))), "")


@cache
def _descriptions(section: type[Section]) -> dict[str, str]:
    """The text below each key of a section, from its source, without those of its bases."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(section))).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for key, text in pairwise(definition.body):
        match key, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                found[name] = inspect.cleandoc(words)
    return found


def _default(field: FieldInfo) -> str:
    """The default as a YAML file has it, after a colon; nothing for a key that is required."""
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Section):
        tag = getattr(value, "type", "")
        return f": {{type: {tag}}}" if tag else ": {}"
    plain: Any = TypeAdapter(Any).dump_python(value, mode="json")
    return f": {plain if isinstance(plain, str) else json.dumps(plain)}"


# --- every option of the commands -------------------------------------------------------------------------------------

BY_HAND = {"-h, --help", "--quiet", "--verbose", "--version"}
"""Options of every command, which docs/commands.md explains by hand."""
DECODING = re.compile(r" \(default: decoding\.(\w+) of the run\)$")
"""What ends the meaning of an option that is a key of the section ``decoding``."""


class Option(NamedTuple):
    """An option of a command as ``--help`` prints it."""

    name: str
    meaning: str

    def line(self) -> str:
        """The option as an item of a list."""
        return f"- `{self.name}`: {escaped(self.meaning.removesuffix(' (default: none)'))}"


def of_command(name: str) -> str:
    """The options of a command, a line for each; those of several commands have their names only."""
    own, shared = [], []
    for option in _options_of(name):
        if option not in _shared():
            own.append(option.line())
        else:
            shared.append("decoding options" if DECODING.search(option.meaning) else f"`{option.name.split()[0]}`")
    if shared:
        own.append(f"- {', '.join(dict.fromkeys(shared))}: [below](#shared-options)")
    return "\n".join([*own, ""])


def shared_options() -> str:
    """The options that several commands have; docs/options.md explains those of decoding."""
    keys = [f"`{option.name}`" for option in _shared() if DECODING.search(option.meaning)]
    lines = [option.line() for option in _shared() if not DECODING.search(option.meaning)]
    return "\n".join([*lines, f"- decoding options: {', '.join(keys)}", ""])


@cache
def _shared() -> Sequence[Option]:
    """The options that several commands have, with the same meaning."""
    commands = Counter(option for name in COMMANDS for option in _options_of(name))
    return [option for option, found in commands.items() if found > 1]


@cache
def _options_of(name: str) -> Sequence[Option]:
    """The options of a command, as ``--help`` prints them."""
    parser = importlib.import_module(f"nmt.cli.{name[4:].replace('-', '_')}").main.parser()
    shown = parser.formatter_class(parser.prog)
    options = (Option(shown._format_action_invocation(each), shown._expand_help(each)) for each in parser._actions)
    return [option for option in options if option.name not in BY_HAND]


# --- the files --------------------------------------------------------------------------------------------------------


PARTS: Mapping[str, Callable[[], str]] = {
    "options": options,
    "shared-options": shared_options,
    **{table.__name__: table for table in measured_tables.TABLES},
    **{name: partial(of_command, name) for name in COMMANDS},
}


def page(text: str) -> str:
    """A page with its generated parts written again."""
    return GENERATED.sub(lambda found: f"<!-- generated: {found[1]} -->\n{PARTS[found[1]]()}<!-- end -->", text)


def write() -> None:
    """Write the generated parts of all pages."""
    for each in PAGES:
        path = ROOT / each
        path.write_text(page(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    write()
