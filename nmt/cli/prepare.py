"""nmt-prepare: the corpus and the tokenizer of a configuration."""

import json as json_format
from datetime import datetime
from pathlib import Path
from typing import Literal

from nmt.cli.command import Command
from nmt.cli.files import NamedPath, files_of, look_at_corpora, refuse_overwriting
from nmt.cli.options import InputFile, OutputFile, Overrides
from nmt.cli.terminal import say
from nmt.config import load_config
from nmt.data.cache import cache_folder, clean, entries
from nmt.errors import ConfigError


def prepare(
    *,
    config: InputFile | None = None,
    set: Overrides | None = None,
    json: OutputFile | None = None,
    cache: Literal["list", "clean"] | None = None,
) -> None:
    """Read the corpora, learn the tokenizers and encode the text, as nmt-train would, and print a report.

    nmt-train reuses the result.

    Args:
        config: YAML configuration (required without --cache)
        json: also write the report to this file, as JSON
        cache: list or delete the cache, and prepare nothing; the cache is that of --config, else $NMT_CACHE or
            ~/.cache/nmt

    examples:
      nmt-prepare --config en-fr.yaml
      nmt-prepare --config en-fr.yaml --set tokenizer.vocabulary=4000 --json report.json
      nmt-prepare --cache list
    """
    if config is None and (cache is None or set):
        raise ConfigError("--config: is required")
    loaded = load_config(config, set or ()) if config else None
    if cache is not None or loaded is None:
        _show_cache(cache_folder(loaded.data.cache if loaded else None), empty=cache == "clean")
        return
    if json is not None:
        read = [NamedPath(key, path) for key, path in files_of(loaded)]
        refuse_overwriting([*read, NamedPath("--json", json, written=True)])
    look_at_corpora(loaded)
    from nmt.data.dataset import prepare as prepare_data  # noqa: PLC0415  (slow to import)
    from nmt.data.report import describe  # noqa: PLC0415

    report = prepare_data(loaded, say).report
    if json is not None:
        Path(json).write_text(json_format.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(describe(report))


main = Command(prepare)


def _show_cache(cache: Path, *, empty: bool) -> None:
    """Print what a cache holds, and remove it if it is to be empty."""
    found = entries(cache)
    total = sum(entry.size for entry in found) / 1e6
    for entry in found:
        day = datetime.fromtimestamp(entry.made).strftime("%Y-%m-%d")
        print(f"{entry.size / 1e6:>9,.1f} MB  made {day}  {entry.kind:<10} {entry.text}".rstrip())
    if empty:
        clean(cache)
    print(f"{total:>9,.1f} MB  {'removed from' if empty else 'in'} {cache}")
