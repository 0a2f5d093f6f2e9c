"""Read the corpora, learn the tokenizers and encode the text, as nmt-train would, and print a report.

nmt-train reuses the result.

examples:
  nmt-prepare --config en-fr.yaml
  nmt-prepare --config en-fr.yaml --set tokenizer.vocabulary=4000 --json report.json
"""

import argparse
import json
from pathlib import Path

from nmt.cli.common import command, importing, say
from nmt.cli.files import refuse_overwriting, refuse_unwritable
from nmt.cli.options import add_config_options
from nmt.config import load_config


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-prepare``."""
    arguments = argparse.ArgumentParser(prog="nmt-prepare", description=__doc__)
    add_config_options(arguments)
    arguments.add_argument("--json", metavar="FILE", help="also write the report to this file, as JSON")
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Prepare the corpora and print the report."""
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
        from nmt.data.report import describe  # noqa: PLC0415  (slow to import: invalid options must not wait)

    report = prepare(config, say).report
    if arguments.json is not None:
        Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(describe(report))
