"""The systems that a command compares: runs and files of translations, and their origins."""

import argparse
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.cli.decoding import SEARCH_OPTIONS
from nmt.cli.files import refuse_missing, refuse_overwriting
from nmt.cli.options import given, refuse_useless, whole
from nmt.config import Config, load_run_config
from nmt.data.corpus import read_aligned
from nmt.errors import ConfigError, DataError, tried
from nmt.evaluation.by_length import MIN_SENTENCES
from nmt.evaluation.writing import BinnedBy
from nmt.files import printable
from nmt.library.evaluation import origin_of
from nmt.plots.about import About, Origin
from nmt.plots.files import stem_of
from nmt.plots.style import DPI


class System(NamedTuple):
    """A named system and the origin of its translations."""

    name: str
    path: str
    """A run directory, or a file of translations."""


def add_system_options(arguments: argparse.ArgumentParser, kind: str, written: str) -> None:
    """Add ``--system``, ``--hypotheses``, ``--output`` and ``--min-sentences``.

    ``kind`` is RUN or RUN_OR_HYPOTHESES; ``written`` is the help text that names the files of a STEM.
    """
    files = " or file of translations" if kind != "RUN" else ""
    arguments.add_argument(
        "--system",
        action="append",
        required=True,
        type=system_argument(kind),
        metavar=f"NAME={kind}",
        dest="systems",
        help=f"run directory{files}; repeat it for more systems, or under the same name for more seeds of a system, "
        "which are averaged",
    )
    arguments.add_argument(
        "--hypotheses",
        action="append",
        default=[],
        type=system_argument("FILE"),
        metavar="NAME=FILE",
        help="existing translations by the run of this name, which then does not translate; repeat it for several "
        "runs, in their order",
    )
    arguments.add_argument("--output", required=True, type=stem_of, metavar="STEM", help=written)
    add_min_sentences(arguments)


def add_min_sentences(arguments: argparse.ArgumentParser) -> None:
    """Add ``--min-sentences``."""
    arguments.add_argument(
        "--min-sentences",
        type=whole(1),
        default=MIN_SENTENCES,
        metavar="N",
        help="draw a bin with fewer sentences as a hollow point, without line and interval",
    )


def add_figure_options(arguments: argparse.ArgumentParser, written: str) -> None:
    """Add ``--output``, ``--title`` and ``--dpi``; ``written`` is the help text that names the files of a STEM."""
    arguments.add_argument("--output", required=True, type=stem_of, metavar="STEM", help=written)
    arguments.add_argument("--title", metavar="TEXT", help="title of the figure")
    arguments.add_argument("--dpi", type=whole(30, 1200), default=DPI, metavar="N", help="pixels per inch of the PNG")


def system_argument(path: str) -> Callable[[str], System]:
    """Make an argument type: NAME= followed by a path; ``path`` names it in errors."""

    def parse(text: str) -> System:
        name, equals, rest = text.partition("=")
        name = printable(name)
        if not (name.strip() and equals and rest):
            raise argparse.ArgumentTypeError(f"'{text}' is not NAME={path}, for example bahdanau=runs/demo/bahdanau")
        return System(name.strip(), rest)

    return parse


def maybe_named(text: str) -> System:
    """Parse an argument: PATH or NAME=PATH; :func:`with_names` names those without a name."""
    name, equals, path = text.partition("=")
    name = printable(name).strip()
    if equals and path and name and not Path(text).exists():
        return System(name, path)
    if not text:
        raise argparse.ArgumentTypeError("'' is not a path")
    return System("", text)


def with_names(systems: Sequence[System]) -> list[System]:
    """Name each system without a name after the parts of its path that tell the paths apart: of ``a/seed-1`` and
    ``b/seed-1``, a and b; a seed alone has the name of the directory above it.

    Raises ConfigError if two have the same name.
    """
    unnamed = [Path(system.path).absolute().parts for system in systems if not system.name]
    while len({parts[-1] for parts in unnamed}) == 1 < len(set(unnamed)):
        unnamed = [parts[:-1] for parts in unnamed]
    above = [parts[:-1] if re.fullmatch(r"seed-\d+", parts[-1]) else parts for parts in unnamed]
    if len(set(above)) == len(set(unnamed)):
        unnamed = above
    count = next((k for k in range(1, 9) if len({parts[-k:] for parts in unnamed}) == len(unnamed)), 1)
    names = iter(["/".join(parts[-count:]) for parts in unnamed])
    named = [System(system.name or printable(next(names)), system.path) for system in systems]
    taken = [system.name for system in named]
    if repeated := sorted({name for name in taken if taken.count(name) > 1}):
        raise ConfigError(*(f"{name}: is the name of two systems; write NAME=PATH to name them" for name in repeated))
    return named


def load_configs(
    arguments: argparse.Namespace, endings: Sequence[str], *, runs_only: bool = False, option: str = "--system "
) -> dict[System, Config]:
    """Check the systems, and load the configuration of each run; ``option`` is what names a system in messages.

    Raises ConfigError for a system that is given twice and if a file of the figure, the output with one of ``endings``,
    is also an input; DataError for a path that is no system; CheckpointError for an unusable run.
    """
    systems: list[System] = arguments.systems
    places = [(system.name, Path(system.path).resolve()) for system in systems]
    repeated = sorted({system for number, system in enumerate(systems) if places[number] in places[:number]})
    if repeated:
        raise ConfigError(*(f"{option}{name}={path}: is given twice" for name, path in repeated))
    wanted = "run directory" if runs_only else "run directory or file of translations"
    problems = []
    for system in systems:
        path = Path(system.path)
        if not path.exists():
            problems.append(f"{option}{system.name}: {path}: no such {wanted}{tried(path)}")
        elif (runs_only or path.is_dir()) and not (path / "config.yaml").is_file():
            problems.append(f"{option}{system.name}: {path}: is not a run directory: config.yaml is missing")
    if problems:
        raise DataError(*problems)
    read = [("--source", arguments.source), ("--reference", arguments.reference)]
    for named, given_paths in ((option, systems), ("--hypotheses ", arguments.hypotheses)):
        read += [(f"{named}{name}={path}", path) for name, path in given_paths]
    written = [(f"--output {arguments.output}:", f"{arguments.output}{ending}") for ending in endings]
    refuse_overwriting(read, written)
    ready = {each.name for each in arguments.hypotheses}
    refuse_missing(
        [path for _, path in read if not Path(path).is_dir()],
        [system.path for system in systems if Path(system.path).is_dir() and system.name not in ready],
    )
    return {system: load_run_config(system.path) for system in systems if Path(system.path).is_dir()}


def read_ready(arguments: argparse.Namespace, count: int, useless: Sequence[str]) -> dict[System, list[str]]:
    """Read the ``count`` translations that exist, by system: files, and runs with ``--hypotheses``.

    The options ``useless`` have no effect if no run translates. Raises ConfigError for ``--hypotheses`` without a run
    and for options without effect, DataError for a wrong file.
    """
    ready = {
        system: read_aligned(system.path, arguments.source, count)
        for system in arguments.systems
        if not Path(system.path).is_dir()
    }
    left = [system for system in arguments.systems if system not in ready]
    for each in arguments.hypotheses:
        run = next((system for system in left if system.name == each.name), None)
        if run is None:
            raise ConfigError(
                f"--hypotheses {each.name}={each.path}: no --system {each.name} is a run without --hypotheses"
            )
        left.remove(run)
        ready[run] = read_aligned(each.path, arguments.source, count)
    if not left:
        why = "every run has --hypotheses" if arguments.hypotheses else "every system is a file"
        refuse_useless(arguments, useless, f"because {why}; no run translates")
    return ready


def about(
    arguments: argparse.Namespace,
    configs: Mapping[System, Config],
    ready: Collection[System],
    resamples: int,
    binned_by: BinnedBy,
) -> About:
    """Describe the figures of a command. Runs in ``ready`` have existing translations; files have no origin."""
    origins: dict[str, list[Origin]] = {system.name: [] for system in arguments.systems}
    for system, config in configs.items():
        search = given(arguments, SEARCH_OPTIONS) if system not in ready else {}
        origins[system.name].append(origin_of(system.path, config, search))
    return About(printable(Path(arguments.source).name), resamples, binned_by, arguments.min_sentences, origins)
