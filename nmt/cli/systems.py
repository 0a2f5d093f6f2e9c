"""The systems of a command that compares some: runs, files of translations, and what is known of both."""

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.cli.common import given, refuse_overwriting, whole
from nmt.cli.evaluate import read_hypotheses
from nmt.config import Config
from nmt.errors import ConfigError, DataError, NmtError, tried
from nmt.foundation.files import printable, read_json
from nmt.plots.about import MIN_SENTENCES, Origin
from nmt.plots.files import stem_of


class System(NamedTuple):
    """A system and where its translations come from."""

    name: str
    path: str
    """A run directory, or a file of hypotheses."""


def add_system_options(arguments: argparse.ArgumentParser, kind: str, written: str) -> None:
    """``--system``, ``--hypotheses``, ``--output`` and ``--min-sentences``.

    Args:
        arguments: gets the options.
        kind: what a system may be: RUN, or RUN_OR_HYPOTHESES.
        written: names the files of a STEM.
    """
    files = ", or a file of translations" if kind != "RUN" else ""
    arguments.add_argument(
        "--system",
        action="append",
        required=True,
        type=system_argument(kind),
        metavar=f"NAME={kind}",
        dest="systems",
        help=f"a run directory{files}; given again under the same name, a further seed of the system, of which the "
        "mean counts",
    )
    arguments.add_argument(
        "--hypotheses",
        action="append",
        default=[],
        type=system_argument("FILE"),
        metavar="NAME=FILE",
        help="translations that are there already, made by a run as its configuration says, in the order of the runs "
        "of this name; otherwise the run translates",
    )
    arguments.add_argument("--output", required=True, type=stem_of, metavar="STEM", help=f"{written} are written")
    arguments.add_argument(
        "--min-sentences",
        type=whole(1),
        default=MIN_SENTENCES,
        metavar="N",
        help=f"draw a bin with fewer hollow, without line and interval (default: {MIN_SENTENCES})",
    )


def system_argument(path: str) -> Callable[[str], System]:
    """An argument type: NAME= and what ``path`` calls the rest."""

    def parse(text: str) -> System:
        name, equals, rest = text.partition("=")
        name = printable(name)
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


def refuse_overwriting_systems(arguments: argparse.Namespace, endings: Sequence[str]) -> None:
    """Raise ConfigError if one of the figure's files is one that is read."""
    read = [("--system", each) for each in arguments.systems] + [
        ("--hypotheses", each) for each in arguments.hypotheses
    ]
    refuse_overwriting(
        [
            ("--source", arguments.source),
            ("--reference", arguments.reference),
            *((f"{option} {each.name}={each.path}", each.path) for option, each in read),
        ],
        [(f"--output {arguments.output}:", f"{arguments.output}{ending}") for ending in endings],
    )


def read_ready(arguments: argparse.Namespace, count: int, useless: Sequence[str]) -> dict[System, list[str]]:
    """The translations that are there, by system: of files, and of runs with ``--hypotheses``.

    Args:
        arguments: of the command.
        count: lines of the source.
        useless: options that have no effect if no run translates.

    Raises ConfigError for ``--hypotheses`` without a run and for options without effect, DataError for a wrong file.
    """
    ready = {
        system: read_hypotheses(system.path, arguments.source, count)
        for system in arguments.systems
        if not Path(system.path).is_dir()
    }
    left = [system for system in arguments.systems if system not in ready]
    for each in arguments.hypotheses:
        run = next((system for system in left if system.name == each.name), None)
        if run is None:
            raise ConfigError(
                f"--hypotheses {each.name}={each.path}: there is no --system {each.name} that is a run and lacks them"
            )
        left.remove(run)
        ready[run] = read_hypotheses(each.path, arguments.source, count)
    if not left and (options := given(arguments, useless)):
        why = "all --hypotheses are given" if arguments.hypotheses else "every --system is a file"
        raise ConfigError(
            *(
                f"--{name.replace('_', '-')}: has no effect: {why}, there is no run to translate with"
                for name in options
            )
        )
    return ready


def origins(
    arguments: argparse.Namespace, configs: Mapping[System, Config], ready: Collection[System]
) -> dict[str, list[Origin]]:
    """The origins that runs record, by system; none for files. Runs that are ``ready`` do not translate now."""
    found: dict[str, list[Origin]] = {system.name: [] for system in arguments.systems}
    for system, config in configs.items():
        search = given(arguments, ("beam_size", "length_penalty")) if system not in ready else {}
        decoding = config.decoding.model_copy(update=search)
        found[system.name].append(
            Origin(
                config.data.source_language,
                config.data.target_language,
                decoding.beam_size,
                decoding.length_penalty,
                _updates(Path(system.path)),
            )
        )
    return found


def _updates(run: Path) -> int | None:
    """How many updates a run has made, if its last checkpoint is there to tell."""
    try:
        updates = read_json(run / "checkpoints" / "last" / "training.json")["update"]
    except (NmtError, OSError, LookupError, TypeError, ValueError):
        return None
    return updates if isinstance(updates, int) else None
