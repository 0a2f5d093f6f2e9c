"""Reading a configuration from a YAML file and overrides, and writing it.

An override replaces one value: ``decoding.beam_size=12``. Its right side is YAML, so it can also replace a whole
section: ``model.attention={type: none}``. Setting ``model.attention.type`` alone keeps the other keys of the section.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nmt.config.problems import explain, show
from nmt.config.schema import Config, Problem
from nmt.config.yaml12 import format_yaml, parse_yaml
from nmt.errors import CheckpointError, ConfigError, tried
from nmt.files import refuse_links_outside, require_regular_file

MOST_RUNS = 6
"""Runs that a message names."""
LARGEST_YAML = 1 << 15
"""Bytes of a file; configurations have a tenth of it."""


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Load a YAML file, with overrides ``a.b=value`` applied in their order.

    Raises ConfigError with every problem, each a line ``FILE: a.b: what was found; what would be right``, or
    ``--set a.b=value: a.b: ...`` for a problem of an override.
    """
    data: dict[str, Any] = {}
    problems: list[str] = []
    try:
        data = read_mapping(Path(path), "must have the sections data, tokenizer, model, training")
    except ConfigError as error:
        problems.extend(error.problems)
    if "systems" in data:
        raise ConfigError(f"{path}: describes an experiment; use nmt-experiment --config {path}")
    for override in overrides:
        try:
            _apply(data, override)
        except ConfigError as error:
            problems.extend(error.problems)
    if not problems:
        try:
            config = Config.model_validate(data)
        except ValidationError as error:
            found = [explain(detail) for detail in error.errors(include_url=False)]
        else:
            found = list(config.contradictions())
            if not found:
                return config
        problems = [_with_origin(problem, str(path), overrides) for problem in found]
    raise ConfigError(*map(one_line, problems))


def load_run_config(run: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Load the configuration of a run directory, which may come from a stranger, as :func:`load_config` does.

    Raises CheckpointError without a run directory, FileError for a pipe, a device or a link out of it.
    """
    path = Path(run) / "config.yaml"
    if not path.exists():
        near = *Path(run).parents, *sorted(Path(run).glob("*")), *sorted(Path(run).glob("*/*"))
        if runs := [str(each) for each in near if is_run(each)]:
            raise CheckpointError(f"{run}: not a run directory; must be {' or '.join(runs[:MOST_RUNS])}")
        if Path(run).is_dir():
            raise CheckpointError(f"{path}: missing; {run} is not a run directory of nmt-train")
        raise CheckpointError(f"{run}: no such run directory{tried(run)}; nmt-train makes one")
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
        data = data[part]
    data[parts[-1]] = value


def _with_origin(problem: Problem, file: str, overrides: Sequence[str]) -> str:
    """The problem with its origin: the last override that set its key, or a key in an unknown section; or the file."""
    for override in reversed(overrides):
        key, _, value = override.partition("=")
        key = key.strip()
        unknown = problem.text.startswith("unknown key") and key.startswith(f"{problem.key}.")
        if unknown or f"{problem.key}.".startswith((f"{key}.", f"{key}[")):
            return f"--set {override}: {problem}"
        section = key.removesuffix(".type")
        if section != key and problem.key.startswith(f"{section}.") and "has no effect" in problem.text:
            return f"{file}: {problem}; to replace the whole section: --set '{section}={{type: {value}}}'"
    return f"{file}: {problem}"


def one_line(problem: str) -> str:
    """Escape control characters, which may come from a stranger's file."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in problem)
