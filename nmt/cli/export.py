"""nmt-export: a run for other programs."""

from pathlib import Path
from typing import Annotated

from nmt.cli.command import Command
from nmt.cli.options import RunPath, Value
from nmt.cli.terminal import say
from nmt.errors import ConfigError


def export(run: RunPath, folder: Annotated[str, Value("DIR")], *, web: bool) -> None:
    """Write a run as files that translate without this package.

    With --web: a page that translates while somebody types, an engine in JavaScript without dependencies, and the
    weights in 12 bits. README.md in the directory says how to use the engine in other pages and in Node.

    Args:
        run: run directory
        folder: new directory
        web: for browsers and Node; recurrent networks only (required)

    examples:
      nmt-export --web runs/demo/bahdanau page
    """
    assert web  # the only form that there is
    if Path(folder).is_dir() and any(Path(folder).iterdir()):
        raise ConfigError(f"DIR: {folder} is not empty; choose a new directory")
    from nmt.pages.web.exporting import export_web  # noqa: PLC0415  (slow to import)

    size = export_web(run, Path(folder))
    say(f"written: {folder}, {size / 1000:,.0f} kB; to see it: python3 -m http.server --directory {folder}")


main = Command(export)
