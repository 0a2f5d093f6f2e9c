"""Write the reference pages of the book in Markdown: every option from the schema, every command from its --help.

docs/conf.py puts both into docs/options.md and docs/command-reference.md when the site is built, so that they cannot
differ from the program.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from nmt.cli.common import EXAMPLES, command
from nmt.config.foreign_keys import COUNTERPARTS
from nmt.config.schema import Config, Section
from nmt.config.schema_map import Variants, annotation_of, are_corpora, expected, variants_of

ROOT = Path(__file__).parent.parent


def escaped(text: str) -> str:
    """Escape what Markdown would read as markup outside of code, and join lines."""
    parts = re.split(r"(``.*?``|`.*?`)", " ".join(text.split()))
    return "".join(part if i % 2 else re.sub(r"([\\*_<>\[\]|$])", r"\\\1", part) for i, part in enumerate(parts))


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
    yield f"\n{'#' * min(4, 2 + key.count('.'))} {code(key) if key else 'The whole'}\n"
    earlier = next((name for name, found in described.items() if set(variants.values()) <= set(found.values())), None)
    if earlier is not None:
        yield f"As {code(earlier)}{'' if variants == described[earlier] else ': ' + _listed(variants)}.\n"
        return
    described[key] = variants
    if len(variants) == 1:
        yield from (escaped(section.__doc__ or "") + "\n" for section in variants.values())
    else:
        yield f"A section with {'one of the keys' if are_corpora(variants) else '`type`'} {_listed(variants)}.\n"
        yield from (f"- {code(tag)}: {escaped(section.__doc__ or '')}" for tag, section in variants.items())
    inner = {name: f"{key}.{name}" if key else name for name in _sections_in(variants)}
    yield from _table(variants, inner)
    for name, found in _sections_in(variants).items():
        yield from _of_section(inner[name], found, described)


def _listed(variants: Variants) -> str:
    return ", ".join(map(code, variants))


def _sections_in(variants: Variants) -> dict[str, Variants]:
    """The keys that hold sections with keys of their own, or a choice of sections."""
    found = ((name, variants_of(annotation_of(each, name))) for each in variants.values() for name in each.model_fields)
    return {name: inner for name, inner in found if any(each.model_fields for each in inner.values())}


def _table(variants: Variants, inner: Mapping[str, str]) -> Iterator[str]:
    """A row for each key; one that only some variants have, or have otherwise, names them.

    ``inner``: the full names of the keys that hold sections, which have a heading of their own.
    """
    owners: dict[tuple[str, str], list[str]] = {}
    for tag, section in variants.items():
        for name, field in section.model_fields.items():
            if name != "type":
                value = escaped(expected(annotation_of(section, name)))
                meaning = f"{escaped(_meaning(section, name))} *{value[0].upper()}{value[1:]}.*".strip()
                shown = f"[{code(name)}](#{inner[name].replace('.', '')})" if name in inner else code(name)
                owners.setdefault((f"| {shown} | {_default(field)} |", meaning), []).append(tag)
    if owners:
        yield "\n| key | default | meaning, *values* |\n|---|---|---|"
    for (cells, meaning), tags in owners.items():
        only = "" if len(tags) == len(variants) else f"**{escaped(', '.join(tags))}:** "
        yield f"{cells} {only}{meaning} |"
    yield ""


def _meaning(section: type[Section], name: str) -> str:
    """The text of a key, which a subclass may leave to its base, or else what its section says of itself."""
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
    assert value is not PydanticUndefined
    if isinstance(value, Section):
        tag = getattr(value, "type", "")
        return code(f"{{type: {tag}}}") if tag else "*a section of defaults*"
    plain: Any = TypeAdapter(Any).dump_python(value, mode="json")
    return code(plain if isinstance(plain, str) else json.dumps(plain))


# --- every command ----------------------------------------------------------------------------------------------------


def commands() -> str:
    """Every command of the package with all that its ``--help`` says."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    return "\n".join(of_help(name, help_of(target)) for name, target in scripts.items())


def help_of(target: str) -> str:
    """Capture ``--help`` of a ``module:function``, a line for each paragraph."""
    module, _, function = target.partition(":")
    shown, columns = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100000"
    try:
        with contextlib.redirect_stdout(shown):
            getattr(importlib.import_module(module), function)(["--help"])
    finally:
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns
    return shown.getvalue()


def of_help(name: str, text: str) -> str:
    """Turn the text of ``--help`` into Markdown: its paragraphs, a table for each group of options, its examples."""
    body, _, examples = text.partition(f"\n{EXAMPLES}\n")
    _usage, *blocks = body.strip().split("\n\n")
    lines = [f"\n## {name}\n"]
    for block in blocks:
        title, _, entries = block.partition("\n")
        if title.endswith(":") and entries.startswith("  "):
            lines += [f"\n**{escaped(title)}**\n", "| option | meaning |\n|---|---|", *_entries(entries), ""]
        else:
            lines += [escaped(block), ""]
    return "\n".join([*lines, "```sh", *(line.strip() for line in examples.strip().splitlines()), "```", ""])


def _entries(text: str) -> Iterator[str]:
    """The rows of a group: an option at an indent of two, its meaning after spaces or on the line below."""
    for entry in re.split(r"\n(?=  \S)", text):
        option, *meaning = re.split(r" {2,}|\n\s*", entry.strip(), maxsplit=1)
        yield f"| {code(option)} | {escaped(' '.join(meaning))} |"


# --- the words of other toolkits --------------------------------------------------------------------------------------


def foreign_keys() -> str:
    """Keys of other toolkits and the keys here that take their place, as the errors for unknown keys name them."""
    ours: dict[str, list[str]] = {}
    for theirs, key in COUNTERPARTS.items():
        ours.setdefault(key, []).append(theirs)
    rows = (f"| {', '.join(map(code, theirs))} | {_key_and_note(key)} |" for key, theirs in ours.items())
    return "\n".join(["| elsewhere | here |\n|---|---|", *rows, ""])


def _key_and_note(text: str) -> str:
    """``key and key (note)`` with the keys as code."""
    keys, _, note = text.partition(" (")
    joined = " and ".join(map(code, keys.split(" and ")))
    return f"{joined} ({escaped(note)}" if note else joined


PAGES: Mapping[str, Callable[[], str]] = {"options": options, "commands": commands, "foreign-keys": foreign_keys}


def parser() -> argparse.ArgumentParser:
    """The options: the page."""
    arguments = argparse.ArgumentParser(prog="reference.py", description=__doc__)
    arguments.add_argument("page", choices=PAGES, help="which page")
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Print a page."""
    print(PAGES[arguments.page]())


if __name__ == "__main__":
    sys.exit(main())
