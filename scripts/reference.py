"""Write the reference pages: docs/options.md from the schema, docs/command-reference.md from --help of each command.

    python scripts/reference.py

The beginning of each page, up to the marker, is written by hand; a test fails if the rest differs from the program.
"""

import contextlib
import importlib
import io
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from nmt.config.schema import Config, Section
from nmt.config.schema_map import Variants, annotation_of, are_corpora, expected, variants_of

ROOT = Path(__file__).parent.parent
MARKER = "<!-- written by scripts/reference.py -->\n"
EVERY_COMMAND = {"-h, --help", "--quiet", "--verbose", "--version"}
"""Options that the hand-written beginning explains once for all commands."""

TERSE = {
    "a whole number": "integer",
    "a number": "number",
    "of at least": "≥",
    "above": ">",
    "and up to": "and ≤",
    "below": "<",
    "text that is not empty": "text",
    "one of ": "",
}


def escaped(text: str) -> str:
    """Escape what Markdown would read as markup outside of code, and join lines."""
    parts = re.split(r"(``.*?``|`.*?`)", " ".join(text.split()))
    return "".join(
        part.replace("``", "`") if i % 2 else re.sub(r"([\\*_<>\[\]|$])", r"\\\1", part) for i, part in enumerate(parts)
    )


def code(text: str) -> str:
    """Show text as code in a cell of a table."""
    return f"`{text}`".replace("|", r"\|")


# --- every option -----------------------------------------------------------------------------------------------------


def options() -> str:
    """Every section of a configuration with its keys: value, default and meaning."""
    return "\n".join(_of_section("", {"": Config}, {}, {}))


def _of_section(key: str, variants: Variants, described: dict[str, Variants], written: dict[str, str]) -> Iterator[str]:
    """One key that holds a section: its variants and their keys, then the sections in them.

    ``described`` and ``written`` collect variants and keys that have been written, so that they are only named again.
    """
    yield f"\n{'#' * min(4, 2 + key.count('.'))} {code(key) if key else 'At the top level'}\n"
    earlier = next((name for name, found in described.items() if set(variants.values()) <= set(found.values())), None)
    if earlier is not None:
        yield f"Like {code(earlier)}{'' if variants == described[earlier] else ': ' + _listed(variants)}."
        return
    described[key] = variants
    if len(variants) == 1:
        yield from (escaped(section.__doc__ or "") for section in variants.values())
    else:
        yield f"{'One of the keys' if are_corpora(variants) else '`type` is one of'}:\n"
        yield from (f"- {code(tag)}: {escaped(section.__doc__ or '')}" for tag, section in variants.items())
    inner = {name: f"{key}.{name}" if key else name for name in _sections_in(variants)}
    yield from _keys(key, variants, inner, written)
    for name, found in _sections_in(variants).items():
        yield from _of_section(inner[name], found, described, written)


def terse(value: str) -> str:
    """Shorten the description of a value."""
    for words, short in TERSE.items():
        value = value.replace(words, short)
    return escaped(value)


def _listed(variants: Iterable[str]) -> str:
    return ", ".join(map(code, variants))


def _sections_in(variants: Variants) -> dict[str, Variants]:
    """The keys that hold sections with keys of their own, or a choice of sections."""
    found = ((name, variants_of(annotation_of(each, name))) for each in variants.values() for name in each.model_fields)
    return {name: inner for name, inner in found if any(each.model_fields for each in inner.values())}


def _keys(section: str, variants: Variants, inner: Mapping[str, str], written: dict[str, str]) -> Iterator[str]:
    """An item for each key, those of the same variants together.

    ``inner``: the full names of the keys that hold sections, which have a heading of their own.
    """
    owners: dict[tuple[str, str], list[str]] = {}
    for tag, variant in variants.items():
        for name, field in variant.model_fields.items():
            if name != "type":
                owners.setdefault((name, _item(variant, name, field, inner.get(name))), []).append(tag)
    groups: dict[tuple[str, ...], dict[str, str]] = {}
    for (name, item), tags in owners.items():
        groups.setdefault(tuple(tags), {})[name] = item
    for owned, items in groups.items():
        yield "" if len(owned) == len(variants) else f"\nWith {_listed(owned)}:\n"
        again: dict[str, list[str]] = {}
        for name, item in items.items():
            if item in written:
                again.setdefault(written[item], []).append(name)
            else:
                written[item] = section
                yield item
        yield from (f"- {_listed(names)}: as in {code(earlier)}" for earlier, names in again.items())


def _item(section: type[Section], name: str, field: FieldInfo, full: str | None) -> str:
    """A key with its values, its default and its meaning; ``full`` is its name if it holds a section."""
    values = [] if full else [terse(expected(annotation_of(section, name)).removesuffix(" or null"))]
    inside = "; ".join(values + _default(field))
    link = f"[{code(name)}](#{full.replace('.', '')})" if full else code(name)
    return f"- {link}{f' ({inside})' if inside else ''}: {escaped(_meaning(section, name))}"


def _meaning(section: type[Section], name: str) -> str:
    """The text of a key, which a subclass may leave to its base, or else that of its section."""
    bases = [base for base in section.__mro__ if issubclass(base, Section) and name in base.model_fields]
    text = next((base.model_fields[name].description for base in bases if base.model_fields[name].description), None)
    return text or "a section."


def _default(field: FieldInfo) -> list[str]:
    """The default, as a YAML file would have it; none for a section of defaults."""
    if field.is_required():
        return ["required"]
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return ["optional"]
    if isinstance(value, Section):
        return [f"default {code(value.type)}"] if hasattr(value, "type") else []
    plain: Any = TypeAdapter(Any).dump_python(value, mode="json")
    return [f"default {code(plain if isinstance(plain, str) else json.dumps(plain))}"]


# --- every command ----------------------------------------------------------------------------------------------------


def commands() -> str:
    """Every command of the package with the text of its ``--help``."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    return "\n".join(line for name, target in scripts.items() for line in of_help(name, help_of(target)))


def help_of(target: str) -> str:
    """Capture ``--help`` of a ``module:function``, a line for each paragraph."""
    module, _, function = target.partition(":")
    shown, columns = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100000"
    try:
        with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
            getattr(importlib.import_module(module), function)(["--help"])
    finally:
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns
    return shown.getvalue()


def of_help(name: str, text: str) -> Iterator[str]:
    """Turn the text of ``--help`` into Markdown: its paragraphs, one table of its groups of options, its examples."""
    body, _, examples = text.partition("\nexamples:\n")
    _usage, *blocks = body.strip().split("\n\n")
    yield f"\n## {name}\n"
    table = False
    for block in blocks:
        title, _, entries = block.partition("\n")
        if not (title.endswith(":") and entries.startswith("  ")):
            yield escaped(block)
            continue
        if not table:
            yield "\n| option | meaning |\n|---|---|"
        elif title != "options:":
            yield f"| *{escaped(title.removesuffix(':'))}* | |"
        table = True
        yield from _entries(entries)
    if examples:
        yield "\n".join(["\n```sh", *(line.strip() for line in examples.strip().splitlines()), "```"])


def _entries(text: str) -> Iterator[str]:
    """The rows of a group: an option at an indent of two, its meaning after spaces or on the line below."""
    for entry in re.split(r"\n(?=  \S)", text):
        option, *meaning = re.split(r" {2,}|\n\s*", entry.strip(), maxsplit=1)
        if option not in EVERY_COMMAND:
            yield f"| {code(option)} | {escaped(' '.join(meaning))} |"


# --- the files --------------------------------------------------------------------------------------------------------

PAGES: Mapping[str, Callable[[], str]] = {"docs/options.md": options, "docs/command-reference.md": commands}


def page(path: str) -> str:
    """The beginning of a page, as it is, and the rest anew."""
    return (ROOT / path).read_text("utf-8").partition(MARKER)[0] + MARKER + PAGES[path]() + "\n"


if __name__ == "__main__":
    for each in PAGES:
        (ROOT / each).write_text(page(each), "utf-8")
