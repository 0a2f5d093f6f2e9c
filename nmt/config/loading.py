"""Reading a configuration from a YAML file and overrides, and writing it.

An override replaces one value: ``decoding.beam_size=12``. Its right side is YAML, so it can also replace a whole
section: ``model.attention={type: none}``. Setting ``model.attention.type`` alone keeps the other keys of the section.

Plain scalars are those of YAML 1.2: ``1e-3`` is a number, only ``true`` and ``false`` are booleans, and ``on``, ``no``,
``2024-01-01``, ``1_000`` and ``12:30`` are text. Repeated keys are errors.
"""

import re
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, ScalarNode
from yaml.reader import ReaderError

from nmt.config.problems import explain, show
from nmt.config.schema import Config, Problem
from nmt.errors import ConfigError, FileError, noted, tried
from nmt.files import refuse_links_outside, require_regular_file

MOST_RUNS = 6
"""Runs that a message names."""
LARGEST_YAML = 1 << 17
"""Bytes of a file; a mix of 200 corpora has a quarter of it."""


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Load a YAML file, with overrides ``a.b=value`` applied in their order.

    Raises ConfigError with every problem, each a line ``FILE: a.b: what was found; what would be right``, or
    ``--set a.b=value: a.b: ...`` for a problem of an override.
    """
    data: dict[str, Any] = {}
    problems: list[str] = []
    with noted(problems):
        data = read_mapping(Path(path), "must have the sections data, tokenizer, model, training")
    if "systems" in data:
        raise ConfigError(f"{path}: describes an experiment; use nmt-experiment --config {path}")
    for override in overrides:
        with noted(problems):
            _apply(data, override)
    if not problems:
        try:
            config = Config.model_validate(data)
            if not (found := list(config.contradictions())):
                return config
        except ValidationError as error:
            found = explain(error)
        problems = [_with_origin(problem, str(path), overrides) for problem in found]
    raise ConfigError(*map(one_line, problems))


def load_run_config(run: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Load the configuration of a run directory, which may come from a stranger, as :func:`load_config` does.

    Raises FileError without a run directory, and for a pipe, a device or a link out of it.
    """
    path = Path(run) / "config.yaml"
    if not path.exists():
        near = *Path(run).parents, *sorted(Path(run).glob("*")), *sorted(Path(run).glob("*/*"))
        if runs := [str(each) for each in near if is_run(each)]:
            raise FileError(f"{run}: not a run directory; must be {' or '.join(runs[:MOST_RUNS])}")
        if Path(run).is_dir():
            raise FileError(f"{path}: missing; {run} is not a run directory of nmt-train")
        found = "is a file, not a" if Path(run).exists() else "no such"
        raise FileError(f"{run}: {found} run directory{tried(run)}; nmt-train makes one")
    refuse_links_outside(Path(run), [path])
    require_regular_file(path, LARGEST_YAML)
    return load_config(path, overrides)


def is_run(folder: Path) -> bool:
    """Whether a folder looks like a run directory."""
    return (folder / "config.yaml").is_file() and (folder / "checkpoints").is_dir()


def dump_config(config: Config) -> str:
    """Write a configuration as YAML, defaults included; it loads as an equal configuration."""
    return format_yaml(config.model_dump(mode="json"))


def read_mapping(path: Path, wanted: str) -> dict[str, Any]:
    """Read a YAML file. Raises ConfigError unless it is a mapping; ``wanted`` says in words what would be right."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_YAML + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        place = tried(path) if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}{place}") from None
    if len(content) > LARGEST_YAML:
        raise ConfigError(f"{path}: larger than {LARGEST_YAML} bytes; a configuration is a short YAML file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: line {line}: not UTF-8; save the file as UTF-8") from None
    data = parse_yaml(text, str(path))
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: found {show(data)}; {wanted}")
    return data


def _apply(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"--set {override}: must be KEY=VALUE, as in training.updates=1000")
    value = parse_yaml(text, f"--set {override}")
    for depth, part in enumerate(parts[:-1], 1):
        if data.get(part) is None:
            data[part] = {}
        if isinstance(data[part], str):  # a type alone
            data[part] = {"type": data[part]}
        if not isinstance(data[part], dict):
            outer = ".".join(parts[:depth])
            raise ConfigError(f"--set {override}: {outer} is {show(data[part])}, not a section; set {outer} as a whole")
        data[part] = dict(data[part])  # a copy: by an alias of YAML, another key may have the same section
        data = data[part]
    data[parts[-1]] = value


def _with_origin(problem: Problem, file: str, overrides: Sequence[str]) -> str:
    """The problem with its origin: the last override that set its key, or a key in it; or the file."""
    for override in reversed(overrides):
        key, _, value = override.partition("=")
        key = key.strip()
        if key.startswith(f"{problem.key}.") or f"{problem.key}.".startswith((f"{key}.", f"{key}[")):
            return f"--set {override}: {problem}"
        section, _, name = key.rpartition(".")
        if problem.of_other_type and name in ("type", "mix") and problem.key.startswith(f"{section}."):
            return f"{file}: {problem}; to replace the whole section: --set '{section}={{{name}: {value}}}'"
    return f"{file}: {problem}"


def one_line(problem: str) -> str:
    """Escape control characters, which may come from a stranger's file."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in problem)


# --- YAML 1.2 ---------------------------------------------------------------------------------------------------------

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


class _Dumper(yaml.SafeDumper):
    """Dumper that quotes text which YAML 1.1 or 1.2 would read as another type."""

    def represent_text(self, data: str) -> ScalarNode:
        # unquoted, PyYAML would read U+0085 as a line break; only double quotes escape it
        return self.represent_scalar(f"{_TAG}str", data, style=None if data.isprintable() else '"')


_Loader.yaml_implicit_resolvers = {}  # those of YAML 1.1
for _name, _pattern in _PLAIN.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z"), [None])
_Loader.add_constructor(f"{_TAG}int", lambda _, node: int(node.value, 0 if node.value[:2] in ("0o", "0x") else 10))
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
        what = "" if isinstance(error, ConstructorError) else "not YAML: "
        tab = "'\\t' that cannot start" in str(error.problem)
        advice = "; indent with spaces" if tab else "; configs/small.yaml is an example" if what else ""
        raise ConfigError(f"{name}: {place}{what}{error.problem}{advice}") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{name}: a value cannot be read: {error}") from None


def format_yaml(value: Any) -> str:
    """Write ``value`` so that :func:`parse_yaml` reads it again."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
