"""``nmt-prepare``: the corpus and tokenizer part of a run, for looking before training."""

import argparse
import json
from pathlib import Path

from nmt.cli.common import add_config_options, command, importing, refuse_overwriting, refuse_unwritable, say
from nmt.config import load_config


def parser() -> argparse.ArgumentParser:
    """The options of ``nmt-prepare``."""
    options = argparse.ArgumentParser(
        prog="nmt-prepare",
        description="Read the corpus, learn the tokenizers and encode, as nmt-train would (and finds it done), "
        "and print what was read, what was dropped and why.",
    )
    add_config_options(options)
    options.add_argument("--json", metavar="FILE", help="write the report there too, as JSON")
    return options


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Prepare the corpus and print its report."""
    config = load_config(arguments.config, arguments.overrides)
    if arguments.json is not None:
        sections = config.data.model_dump() | {"tokenizer": config.tokenizer.model_dump()}
        files = [
            (f"{'' if name == 'tokenizer' else 'data.'}{name}.{key}", section[key])
            for name, section in sections.items()
            if isinstance(section, dict)
            for key in ("source", "target", "tsv", "jsonl")
            if key in section
        ]
        refuse_overwriting([("--config", arguments.config), *files], [("--json", arguments.json)])
        refuse_unwritable(arguments.json)

    with importing():
        from nmt.data.dataset import prepare  # noqa: PLC0415
        from nmt.data.report import describe  # noqa: PLC0415  (slow to import: a wrong option is told at once)

    report = prepare(config, say).report
    if arguments.json is not None:
        Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(describe(report))
