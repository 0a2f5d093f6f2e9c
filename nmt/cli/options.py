"""Options that several commands share, and argument types with bounds."""

import argparse
import sys
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NoReturn

from nmt.errors import ConfigError, nearest

LARGEST_WHOLE = 2**63 - 1
"""Upper bound of a whole number without another bound: more does not fit into a tensor."""


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors name the nearest option of each that it does not have."""

    _words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does."""
        self._words = sys.argv[1:] if args is None else list(args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit with code 2."""
        if message.startswith(("unrecognized arguments", "the following arguments are required")):
            message = "; ".join([message, *self._misspelt()])
        super().error(message)

    def _misspelt(self) -> list[str]:
        """Name the nearest option of each word that looks like one and is none."""
        known = list(self._option_string_actions)
        words = (word.partition("=")[0] for word in self._words if word.startswith("--"))
        unknown = [word for word in words if not any(option.startswith(word) for option in known)]
        return [f"{word}: {hint}" for word in unknown for hint in nearest(word, known)]


def add_config_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add ``--config FILE`` and ``--set KEY=VALUE``, for ``load_config(arguments.config, arguments.overrides)``."""
    default = "" if required else " (default: with --resume, the configuration of the run)"
    parser.add_argument("--config", required=required, metavar="FILE", help=f"YAML configuration{default}")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="override a key of the configuration, for example training.updates=100; may be repeated",
    )


def given(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Return those of the options that the command line sets."""
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}


def refuse_useless(arguments: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Raise ConfigError if the command line sets one of these options, which would have no effect."""
    if useless := [name.replace("_", "-") for name in given(arguments, names)]:
        raise ConfigError(*(f"--{name}: has no effect {why}" for name in useless))


def whole(least: int, most: int = LARGEST_WHOLE) -> Callable[[str], int]:
    """Make an argument type: a whole number from ``least`` to ``most``."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            bounds = "" if most == LARGEST_WHOLE and value < least else f" and at most {most}"
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least {least}{bounds}")
        return value

    return parse


def number(least: float, most: float = inf) -> Callable[[str], float]:
    """Make an argument type: a finite number from ``least`` to ``most``."""

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
