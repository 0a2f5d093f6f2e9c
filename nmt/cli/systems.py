"""The systems of a command that compares some: runs, and files of their translations."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.cli.evaluate import read_hypotheses
from nmt.errors import ConfigError, DataError, tried
from nmt.files import readable


class System(NamedTuple):
    """A system and where its translations come from."""

    name: str
    path: str
    """A run directory, or a file of hypotheses."""


def system_argument(path: str) -> Callable[[str], System]:
    """An argument type: NAME= and what ``path`` calls the rest."""

    def parse(text: str) -> System:
        name, equals, rest = text.partition("=")
        name = readable(name)
        if not (name.strip() and equals and rest):
            raise argparse.ArgumentTypeError(f"'{text}' is not NAME={path}, as in bahdanau=runs/demo/bahdanau")
        return System(name.strip(), rest)

    return parse


def check_systems(systems: Sequence[System], *, runs_only: bool = False) -> None:
    """Raise ConfigError for a system that is given twice, DataError for a path that is not what it should be."""
    places = [(system.name, Path(system.path).resolve()) for system in systems]
    repeated = sorted({system for number, system in enumerate(systems) if places[number] in places[:number]})
    if repeated:
        raise ConfigError(*(f"--system {name}={path}: is given twice" for name, path in repeated))
    wanted = "run directory" if runs_only else "run directory or file of translations"
    problems = []
    for system in systems:
        path = Path(system.path)
        if not path.exists():
            problems.append(f"--system {system.name}: {path}: no such {wanted}{tried(path)}")
        elif (runs_only or path.is_dir()) and not (path / "config.yaml").is_file():
            problems.append(f"--system {system.name}: {path}: no run directory of nmt-train: config.yaml is missing")
    if problems:
        raise DataError(*problems)


def read_ready(systems: Sequence[System], given: Sequence[System], source: str, count: int) -> dict[System, list[str]]:
    """The translations that are there, by run. Raises ConfigError if one is of no run, DataError for a wrong file."""
    ready = {}
    left = list(systems)
    for each in given:
        run = next((system for system in left if system.name == each.name), None)
        if run is None:
            raise ConfigError(f"--hypotheses {each.name}={each.path}: there is no --system {each.name} that lacks them")
        left.remove(run)
        ready[run] = read_hypotheses(each.path, source, count)
    return ready
