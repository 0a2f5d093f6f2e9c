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
from collections.abc import Callable, Iterator, Mapping
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
    return "\n".join(_of_section("", {"": Config}, {}))


def _of_section(key: str, variants: Variants, described: dict[str, Variants]) -> Iterator[str]:
    """One key that holds a section: its variants and their keys, then the sections in them.

    ``described`` collects what has been written, so that the same variants under another key are named only.
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
        yield f"A section with {'one of the keys' if are_corpora(variants) else '`type`'} {_listed(variants)}.\n"
        yield from (f"- {code(tag)}: {escaped(section.__doc__ or '')}" for tag, section in variants.items())
    inner = {name: f"{key}.{name}" if key else name for name in _sections_in(variants)}
    yield from _rows(variants, inner)
    for name, found in _sections_in(variants).items():
        yield from _of_section(inner[name], found, described)


def terse(value: str) -> str:
    """Shorten the description of a value for the cell of a table."""
    for words, short in TERSE.items():
        value = value.replace(words, short)
    return escaped(value)


def _listed(variants: Variants) -> str:
    return ", ".join(map(code, variants))


def _sections_in(variants: Variants) -> dict[str, Variants]:
    """The keys that hold sections with keys of their own, or a choice of sections."""
    found = ((name, variants_of(annotation_of(each, name))) for each in variants.values() for name in each.model_fields)
    return {name: inner for name, inner in found if any(each.model_fields for each in inner.values())}


def _rows(variants: Variants, inner: Mapping[str, str]) -> Iterator[str]:
    """A row for each key; one that only some variants have, or have otherwise, names them.

    ``inner``: the full names of the keys that hold sections, which have a heading of their own.
    """
    owners: dict[tuple[str, str], list[str]] = {}
    for tag, section in variants.items():
        for name, field in section.model_fields.items():
            if name != "type":
                link = f"[{code(name)}](#{inner[name].replace('.', '')})" if name in inner else code(name)
                value = "a section" if name in inner else terse(expected(annotation_of(section, name)))
                row = f"| {link} | {value} | {_default(field)} |", escaped(_meaning(section, name))
                owners.setdefault(row, []).append(tag)
    if owners:
        yield "\n| key | value | default | meaning |\n|---|---|---|---|"
    for (cells, meaning), tags in owners.items():
        only = "" if len(tags) == len(variants) else f"**{escaped(', '.join(tags))}:** "
        yield f"{cells} {only}{meaning} |"


def _meaning(section: type[Section], name: str) -> str:
    """The text of a key, which a subclass may leave to its base, or else the first paragraph of its section's."""
    bases = [base for base in section.__mro__ if issubclass(base, Section) and name in base.model_fields]
    text = next((base.model_fields[name].description for base in bases if base.model_fields[name].description), None)
    variants = variants_of(annotation_of(section, name))
    if text is None and len(variants) == 1:
        text = (next(iter(variants.values())).__doc__ or "").partition("\n\n")[0]
    return text or ""


def _default(field: FieldInfo) -> str:
    """The default, as a YAML file would have it."""
    if field.is_required():
        return "*required*"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Section):
        tag = getattr(value, "type", "")
        return code(f"{{type: {tag}}}") if tag else "its defaults"
    plain: Any = TypeAdapter(Any).dump_python(value, mode="json")
    return code(plain if isinstance(plain, str) else json.dumps(plain))


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
