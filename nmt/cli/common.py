"""What all commands share: how they end, how they speak, and the options that several of them have."""

import argparse
import codecs
import contextlib
import errno
import functools
import io
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from nmt import __version__
from nmt.config.schema import LARGEST_BATCH, LARGEST_BEAM, LARGEST_LENGTH_PENALTY
from nmt.errors import ConfigError, DataError, MissingFile, NmtError
from nmt.foundation.files import printable, why_unwritable

FAILED = 2
"""Exit code of what a user can put right (argparse uses it too)."""
INTERRUPTED = 130
BROKEN_PIPE = 141
LARGEST_WHOLE = 2**63 - 1
"""What an option may say where nothing else bounds it: more fits into no tensor."""

T = TypeVar("T")
Work = Callable[[argparse.Namespace], int | None]


def command(parser: Callable[[], argparse.ArgumentParser]) -> Callable[[Work], Callable[..., int]]:
    """Turn a function of parsed arguments into the entry point of a command.

    The entry point takes the arguments (``None``: those of the process) and returns the exit code. What a user can put
    right ends as lines on standard error and code 2, a traceback with them only if ``--verbose`` is given; whoever
    stops reading standard output ends the command without a word.
    """

    def decorate(work: Work) -> Callable[..., int]:
        @functools.wraps(work)
        def main(argv: Sequence[str] | None = None) -> int:
            if argv is None:
                _speak_utf8()
            _open_closed_streams()
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(errors="backslashreplace")  # results are not lost for a terminal without UTF-8
            options = parser()
            options.add_argument("--verbose", action="store_true", help="show where an error came from")
            options.add_argument("--version", action="version", version=f"nmt-attention {__version__}")
            try:
                arguments = options.parse_args(argv)
            except SystemExit as end:  # --help, --version, or what argparse has already explained
                _settle_standard_output()
                return int(end.code or 0)
            return _run(work, arguments, options.prog)

        return main

    return decorate


def _speak_utf8() -> None:
    """Start again in Python's UTF-8 mode where it would take names of files for something else (``LC_ALL=C
    PYTHONUTF8=0``): all text here is UTF-8."""
    again = os.environ.get("PYTHONUTF8") == "1"  # it did not help: -X utf8=0, say
    if codecs.lookup(sys.getfilesystemencoding()).name != "utf-8" and not again:
        os.environ["PYTHONUTF8"] = "1"  # of processes that this one starts, too
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _open_closed_streams() -> None:
    """In the place of streams that whoever started this has closed: nothing can be read there, results cannot be
    written, which is an error like any other, and messages go nowhere."""
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Around what is slow to import: Ctrl-C ends the process there and then. As an exception it could be caught by
    whoever imports, and leave half a module."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run(work: Work, arguments: argparse.Namespace, name: str) -> int:
    try:
        code = work(arguments) or 0
        with writing("standard output"):
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        return BROKEN_PIPE
    except KeyboardInterrupt:
        say(f"{name}: interrupted")
        return INTERRUPTED
    except (NmtError, OSError) as error:
        if arguments.verbose:
            traceback.print_exc()
        problems = error.problems if isinstance(error, NmtError) else [_describe(error)]
        if isinstance(error, MissingFile):
            there = _found_elsewhere(error.path, getattr(arguments, "config", None))
            problems = [f"{problem}{there}" for problem in problems]
        for problem in problems:
            say(f"{name}: error: {problem}")
        return FAILED
    except (RuntimeError, MemoryError) as error:
        from nmt.foundation.device import out_of_memory  # noqa: PLC0415  (PyTorch is slow to import)

        if not out_of_memory(error):
            raise
        if arguments.verbose:
            traceback.print_exc()
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        say(f"{name}: error: memory does not suffice ({reason}); smaller batches or a smaller model need less")
        return FAILED
    finally:
        _settle_standard_output()


def _describe(error: OSError) -> str:
    place = f"{error.filename}: " if error.filename is not None else ""
    return place + (error.strerror or str(error) or type(error).__name__)


DATA_FOLDERS = ("", "data", "data/downloads")
"""Below which corpora usually lie."""


def _found_elsewhere(path: Path, config: str | None) -> str:
    """Find a missing file in a home directory, or below a folder of the configuration or of its corpora."""
    bases = [Path.cwd(), *(Path(config).absolute().parents if config else ())]
    places = (base / folder / os.path.expanduser(path) for base in bases for folder in DATA_FOLDERS)  # noqa: PTH111
    there = next((place for place in places if os.path.isfile(place)), None)  # noqa: PTH113  (never raises)
    if there is None:
        return ""
    shown = there.relative_to(bases[0]) if bases[0] in there.parents else there
    return f"; there is {shown}"


def _settle_standard_output() -> None:
    """Write out what is pending; if that cannot be done, let the interpreter's own attempt at exit go nowhere."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


# --- what a person reads while it runs --------------------------------------------------------------------------------


def say(line: str) -> None:
    """A line on standard error, for a person. Nobody may be listening: that is no reason to stop."""
    with contextlib.suppress(OSError):
        print(printable(line), file=sys.stderr, flush=True)


def with_progress(items: Iterable[T], total: int | None, what: str) -> Iterator[T]:
    """The same items; at a terminal, how many there have been, of how many, and the time left, on standard error."""
    from tqdm import tqdm  # noqa: PLC0415  (only where something takes long)

    yield from tqdm(items, desc=what, total=total, unit=" lines", disable=None, mininterval=0.5, leave=True)


def as_typed(name: str) -> str:
    """What runs this command again: its name, or the path it was begun by where the shell would not find it."""
    began, found = sys.argv[0], shutil.which(name)
    with contextlib.suppress(OSError):  # one of them is gone
        if Path(began).name == name and not (found and Path(found).samefile(began)):
            return began
    return name


# --- what it writes ---------------------------------------------------------------------------------------------------


def refuse_unwritable(path: str) -> None:
    """Raise DataError, before hours of work, for a file that could not be written after them."""
    file, folder = Path(path), Path(path).absolute().parent
    if not folder.exists():
        problem = os.strerror(errno.ENOENT)
    elif file.is_dir():
        problem = os.strerror(errno.EISDIR)
    else:
        problem = why_unwritable(file if file.exists() else folder)
    if problem:
        raise DataError(f"{path}: cannot be written: {problem}")


Named = Sequence[tuple[str, str | None]]
"""Files, each by what names it, an option or a key; None where that is not given."""


def refuse_overwriting(reads: Named, writes: Named) -> None:
    """Raise ConfigError where an output would be written over a file that is read, into a run directory that is read,
    or twice."""
    seen: dict[Any, str] = {}
    runs: list[tuple[str, Path]] = []
    for name, path in reads:
        _refuse_empty(name, path)
        if path is not None and os.path.isdir(path):  # noqa: PTH112  (a name may hold a NUL)
            runs.append((f"{name} {path}", Path(path)))
        elif path is not None:
            seen.setdefault(_place(path), name)
            runs += [(f"{name} {path}", run) for run in _runs_around(Path(path))]
    for name, path in writes:
        _refuse_empty(name, path)
        if path is None or (place := _place(path)) is None:
            continue
        if place in seen:
            raise ConfigError(f"{name} {path}: the same file as {seen[place]}; name another")
        for run, folder in runs:
            if _lies_in(Path(path), folder):
                raise ConfigError(f"{name} {path}: lies in the run directory of {run}; name a file outside of it")
        if around := _runs_around(Path(path)):
            raise ConfigError(f"{name} {path}: lies in the run directory {around[0]}; name a file outside of it")
        seen[place] = name


def _runs_around(file: Path) -> list[Path]:
    """The run directories that a file lies in."""
    folders = Path(os.path.realpath(file)).parents
    return [each for each in folders if (each / "config.yaml").is_file() and (each / "checkpoints").is_dir()]


def _lies_in(file: Path, run: Path) -> bool:
    """Whether a file is part of a run directory, by whatever link."""
    if run.resolve() in Path(os.path.realpath(file)).parents:
        return True
    linked = file.exists() and file.stat().st_nlink > 1
    return linked and any(each.is_file() and file.samefile(each) for each in run.rglob("*"))


def _refuse_empty(name: str, path: str | None) -> None:
    if path == "":
        raise ConfigError(f"{name}: an empty name; name a file")


def _place(path: str) -> Any:
    """A value that all names of a file share, hard links too; None for pipes and devices, which may be shared."""
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
        return None
    there = Path(path).stat() if Path(path).exists() else None
    return (there.st_dev, there.st_ino) if there else os.path.realpath(path)


@contextlib.contextmanager
def writing(name: str) -> Iterator[None]:
    """Raise DataError, with the name, for what goes wrong; but BrokenPipeError if nobody reads any more."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"{name}: cannot be written: {error.strerror or error}") from error


# --- options ----------------------------------------------------------------------------------------------------------


def add_config_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """``--config FILE`` and ``--set KEY=VALUE``, for ``load_config(arguments.config, arguments.overrides)``."""
    parser.add_argument("--config", required=required, metavar="FILE", help="the YAML configuration")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="override one dotted key, as in training.updates=100; may be given again",
    )


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """How lines are translated: SEARCH_OPTIONS and DEVICE_OPTIONS, for :func:`given`."""
    group = parser.add_argument_group("decoding (default: as in the configuration of the run)")
    group.add_argument(
        "--beam-size", type=whole(1, LARGEST_BEAM), metavar="N", help="hypotheses of each line; 1 is greedy search"
    )
    group.add_argument(
        "--length-penalty",
        type=number(0, LARGEST_LENGTH_PENALTY),
        metavar="A",
        help="0 none; larger: longer translations",
    )
    group.add_argument(
        "--batch-tokens", type=whole(1, LARGEST_BATCH), metavar="N", help="most source tokens translated at once"
    )
    group.add_argument("--device", metavar="NAME", help="auto (the default: a GPU if there is one), cpu, cuda:1, ...")
    group.add_argument(
        "--precision",
        choices=("auto", "fp32", "bf16", "int8"),
        help="of products, whatever the run was trained in (default: fp32); int8: on CPUs",
    )


SEARCH_OPTIONS = ("beam_size", "length_penalty", "batch_tokens")
"""For ``SearchOptions.from_config``."""
DEVICE_OPTIONS = ("device", "precision")
"""For ``Translator.load``."""


def given(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Those of the options that the command line sets; what it leaves out is not decided here."""
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}


def whole(least: int, most: int = LARGEST_WHOLE) -> Callable[[str], int]:
    """An argument type: a whole number from ``least`` to ``most``."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            bounds = "" if most == LARGEST_WHOLE and value < least else f" and up to {most}"
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least {least}{bounds}")
        return value

    return parse


def number(least: float, most: float = inf) -> Callable[[str], float]:
    """An argument type: a finite number from ``least`` to ``most``."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = inf
        if not least <= value <= most or value == inf:
            bounds = f"of at least {least:g}" if most == inf else f"from {least:g} to {most:g}"
            raise argparse.ArgumentTypeError(f"'{text}' is not a number {bounds}")
        return value

    return parse
