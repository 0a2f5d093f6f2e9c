"""YAML as configurations use it: the plain scalars of version 1.2, and nothing that surprises or explodes.

So ``1e-3`` is a number, only ``true`` and ``false`` are booleans, ``on``, ``no`` and ``2024-01-01`` are text, ``1_000``
and ``12:30`` are no numbers; a key given twice is an error, and tags, aliases, deep nesting and huge texts are refused.
"""

import re
from collections.abc import Hashable
from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError
from yaml.events import AliasEvent
from yaml.nodes import MappingNode, Node, ScalarNode
from yaml.reader import ReaderError

from nmt.errors import ConfigError

LARGEST: Final = 1 << 15
"""Characters of a text; the largest configuration that makes sense has a tenth of it."""
DEEPEST: Final = 20
MOST_DIGITS: Final = 18
"""Of a whole number, so that each fits 64 bits."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_TAG = "tag:yaml.org,2002:"
_PLAIN = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}


class _Loader(yaml.SafeLoader):
    """Collects the problems of keys; raises YAMLError at what makes no sense of the rest."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.key_problems: list[str] = []

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, AliasEvent):
            problem = f"alias '*{event.anchor}'; write the value out"
        elif event.tag is not None:
            problem = f"tag '{event.tag}'; a value has none here"
        elif self.depth == DEEPEST:
            problem = f"nested more than {DEEPEST} deep"
        else:
            problem = None
        if problem:
            raise ConstructorError(None, None, problem, event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        if isinstance(node, ScalarNode) and _SURROGATE.search(node.value):
            raise ConstructorError(None, None, "half a character (a surrogate)", node.start_mark)
        return node

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode) or key.tag != f"{_TAG}str":
                found = f"'{key.value}'" if isinstance(key, ScalarNode) else "a list or section"
                self.key_problems.append(f"line {line}: {found} as a key; keys are text")
            elif key.value in lines:
                self.key_problems.append(f"line {line}: key '{key.value}' stands in line {lines[key.value]} already")
            else:
                lines[key.value] = line
        return {} if self.key_problems else super().construct_mapping(node, deep)

    def construct_whole_number(self, node: ScalarNode) -> int:
        if len(node.value.lstrip("+-")) > MOST_DIGITS:
            raise ConstructorError(None, None, f"a number of more than {MOST_DIGITS} digits", node.start_mark)
        return int(node.value, 0 if node.value[:2] in ("0o", "0x") else 10)


class _Dumper(yaml.SafeDumper):
    """Quotes text that version 1.1 or 1.2 would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, data: str) -> ScalarNode:
        # PyYAML itself writes U+0085 where it reads back as a line break; only double quotes escape
        return self.represent_scalar(f"{_TAG}str", data, style=None if data.isprintable() else '"')


_Loader.yaml_implicit_resolvers = {}  # none of version 1.1
for _name, _pattern in _PLAIN.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z"), [None])
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_whole_number)
_Dumper.add_representer(str, _Dumper.represent_text)


def parse_yaml(text: str, name: str) -> Any:
    """The value of one YAML document.

    Raises ConfigError, each of its problems beginning with ``name`` and the line.
    """
    if len(text) > LARGEST:
        raise ConfigError(f"{name}: larger than {LARGEST} characters: this is no configuration")
    try:
        loader = _Loader(text)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{name}: line {line}: the character {chr(error.character)!r} has no place in YAML") from None
    try:
        value = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{name}: {_explain(error, text)}") from None
    except (ValueError, OverflowError):  # PyYAML's way with escapes of characters that do not exist
        raise ConfigError(f"{name}: line {loader.get_mark().line + 1}: a value that cannot be read") from None
    if loader.key_problems:
        raise ConfigError(*(f"{name}: {problem}" for problem in loader.key_problems))
    return value


def missing_space(text: str) -> str:
    """How to write ``type:luong``, which YAML reads as one word instead of key and value; empty for other text."""
    pair = re.match(r"\s*([A-Za-z_]\w*):([^\s/:]+)", text)
    return f"write a space after the colon: {{{pair[1]}: {pair[2]}}}" if pair else ""


def _explain(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    begun = error.context_mark
    context = f" ({error.context}, begun in line {begun.line + 1})" if error.context and begun else ""
    hint = missing_space(text.split("\n")[mark.line - 1]) if mark and mark.line else ""  # its word goes on in this line
    return f"{place}{error.problem}{context}" + (f"; line {mark.line}: {hint}" if mark and hint else "")


def format_yaml(value: Any) -> str:
    """The text that :func:`parse_yaml` reads as ``value``."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
