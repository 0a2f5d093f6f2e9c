"""The YAML of configurations: plain scalars of version 1.2, limited in size.

So ``1e-3`` is a number, only ``true`` and ``false`` are booleans, and ``on``, ``no``, ``2024-01-01``, ``1_000`` and
``12:30`` are text. Repeated keys, tags, aliases, deep nesting and huge texts are errors.
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

LARGEST_YAML: Final = 1 << 15
"""Characters of a text; configurations have a tenth of it."""
DEEPEST: Final = 20
"""Levels of nesting."""
MOST_DIGITS: Final = 18
"""Digits of a whole number, so that it fits 64 bits."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_TAG = "tag:yaml.org,2002:"
_PLAIN = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}


class _Loader(yaml.SafeLoader):
    """Loader that collects the problems of keys and raises YAMLError for any other problem."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.key_problems: list[str] = []

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, AliasEvent):
            problem = f"alias '*{event.anchor}': not supported; repeat the value"
        elif event.tag is not None:
            problem = f"tag '{event.tag}': not supported"
        elif self.depth == DEEPEST:
            problem = f"more than {DEEPEST} levels of nesting"
        else:
            problem = None
        if problem:
            raise ConstructorError(None, None, problem, event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        if isinstance(node, ScalarNode) and _SURROGATE.search(node.value):
            raise ConstructorError(None, None, "an unpaired surrogate, which is not a character", node.start_mark)
        return node

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode) or key.tag != f"{_TAG}str":
                found = f"'{key.value}'" if isinstance(key, ScalarNode) else "a list or section"
                self.key_problems.append(f"line {line}: {found} as a key; must be text")
            elif key.value in lines:
                self.key_problems.append(f"line {line}: key '{key.value}' is already in line {lines[key.value]}")
            else:
                lines[key.value] = line
        return {} if self.key_problems else super().construct_mapping(node, deep)

    def construct_whole_number(self, node: ScalarNode) -> int:
        if len(node.value.lstrip("+-")) > MOST_DIGITS:
            raise ConstructorError(None, None, f"a number with more than {MOST_DIGITS} digits", node.start_mark)
        return int(node.value, 0 if node.value[:2] in ("0o", "0x") else 10)


class _Dumper(yaml.SafeDumper):
    """Dumper that quotes text which YAML 1.1 or 1.2 would read as another type."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, data: str) -> ScalarNode:
        # unquoted, PyYAML would read U+0085 as a line break; only double quotes escape it
        return self.represent_scalar(f"{_TAG}str", data, style=None if data.isprintable() else '"')


_Loader.yaml_implicit_resolvers = {}  # those of YAML 1.1
for _name, _pattern in _PLAIN.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z"), [None])
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_whole_number)
_Dumper.add_representer(str, _Dumper.represent_text)


def parse_yaml(text: str, name: str) -> Any:
    """Parse one YAML document. Raises ConfigError, each of its problems beginning with ``name`` and the line."""
    if len(text) > LARGEST_YAML:
        raise ConfigError(f"{name}: longer than {LARGEST_YAML} characters; a configuration is a short YAML text")
    try:
        loader = _Loader(text)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        found = f"line {line}: the character {chr(error.character)!r}"
        raise ConfigError(f"{name}: {found} is not allowed in YAML") from None
    try:
        value = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{name}: {_explain(error, text)}") from None
    except (ValueError, OverflowError):  # of PyYAML, for escapes of characters that do not exist
        raise ConfigError(f"{name}: line {loader.get_mark().line + 1}: a value cannot be read") from None
    if loader.key_problems:
        raise ConfigError(*(f"{name}: {problem}" for problem in loader.key_problems))
    return value


def missing_space(text: str) -> str:
    """Correct ``type:luong``, which YAML reads as one word instead of key and value; "" for other text."""
    pair = re.match(r"\s*([A-Za-z_]\w*):([^\s/:]+)", text)
    return f"write a space after the colon: {{{pair[1]}: {pair[2]}}}" if pair else ""


def _explain(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    begun = error.context_mark
    context = f" ({error.context}, started in line {begun.line + 1})" if error.context and begun else ""
    hint = missing_space(text.split("\n")[mark.line - 1]) if mark and mark.line else ""  # where its value began
    return f"{place}{error.problem}{context}" + (f"; line {mark.line}: {hint}" if mark and hint else "")


def format_yaml(value: Any) -> str:
    """Write ``value`` so that :func:`parse_yaml` reads it again."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
