"""The YAML of configurations: plain scalars of version 1.2.

So ``1e-3`` is a number, only ``true`` and ``false`` are booleans, and ``on``, ``no``, ``2024-01-01``, ``1_000`` and
``12:30`` are text. Repeated keys are errors.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, ScalarNode
from yaml.reader import ReaderError

from nmt.errors import ConfigError

_TAG = "tag:yaml.org,2002:"
_PLAIN = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        key: Any
        for key, _ in node.value:
            if key.tag != f"{_TAG}str" or key.value in seen:
                problem = f"key '{key.value}' is repeated" if key.tag == f"{_TAG}str" else "a key that is not text"
                raise ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_whole_number(self, node: ScalarNode) -> int:
        return int(node.value, 0 if node.value[:2] in ("0o", "0x") else 10)


class _Dumper(yaml.SafeDumper):
    """Dumper that quotes text which YAML 1.1 or 1.2 would read as another type."""

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
    """Parse one YAML document. Raises ConfigError, which begins with ``name`` and the line."""
    try:
        return _Loader(text).get_single_data()
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{name}: line {line}: the character {chr(error.character)!r} is not allowed") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        advice = "; indent with spaces" if "'\\t' that cannot start" in str(error.problem) else ""
        raise ConfigError(f"{name}: {place}{error.problem}{advice}") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{name}: a value cannot be read: {error}") from None


def format_yaml(value: Any) -> str:
    """Write ``value`` so that :func:`parse_yaml` reads it again."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
