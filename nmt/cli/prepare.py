"""Read the corpora, learn the tokenizers and encode the text, as nmt-train would, and print a report.

nmt-train reuses the result.

examples:
  nmt-prepare --config en-fr.yaml
  nmt-prepare --config en-fr.yaml --set tokenizer.vocabulary=4000 --json report.json
  nmt-prepare --cache list
"""

import argparse
import json
from datetime import datetime
from pathlib import Path

from nmt.cli.common import command, importing, say
from nmt.cli.files import files_of, refuse_missing_corpora, refuse_overwriting, refuse_unwritable
from nmt.cli.options import CommandParser, add_config_options
from nmt.config import load_config
from nmt.data.cache import cache_folder, clean, contents
from nmt.errors import ConfigError


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-prepare``."""
    arguments = CommandParser(prog="nmt-prepare", description=__doc__)
    add_config_options(arguments, required=False)
    arguments.add_argument("--json", metavar="FILE", help="also write the report to this file, as JSON")
    arguments.add_argument(
        "--cache",
        choices=("list", "clean"),
        help="instead, list what the cache holds, or remove it; the cache is that of --config, else $NMT_CACHE or "
        "~/.cache/nmt",
    )
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Prepare the corpora and print the report; or print or remove what the cache holds."""
    if arguments.config is None and (arguments.cache is None or arguments.overrides):
        raise ConfigError("--config: is required")
    if arguments.cache is not None:
        named = load_config(arguments.config, arguments.overrides).data.cache if arguments.config else None
        _show_cache(cache_folder(named), empty=arguments.cache == "clean")
        return
    config = load_config(arguments.config, arguments.overrides)
    if arguments.json is not None:
        refuse_overwriting([("--config", arguments.config), *files_of(config)], [("--json", arguments.json)])
        refuse_unwritable(arguments.json)
    refuse_missing_corpora(config)
    with importing():
        from nmt.data.dataset import prepare  # noqa: PLC0415
        from nmt.data.report import describe  # noqa: PLC0415  (slow to import: invalid options must not wait)

    report = prepare(config, say).report
    if arguments.json is not None:
        Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(describe(report))


def _show_cache(cache: Path, *, empty: bool) -> None:
    """Print what a cache holds, and remove it if it is to be empty."""
    parts = contents(cache)
    total = sum(part.size for part in parts) / 1e6
    for part in parts:
        day = datetime.fromtimestamp(part.used).strftime("%Y-%m-%d")
        print(f"{part.size / 1e6:>9,.1f} MB  used {day}  {part.name:<11} {part.text}".rstrip())
    if empty:
        clean(cache)
    print(f"{total:>9,.1f} MB  {'removed from' if empty else 'in'} {cache}")
