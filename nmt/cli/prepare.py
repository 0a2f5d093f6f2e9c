"""nmt-prepare: the corpus and the tokenizer of a configuration."""

import json as json_format
from pathlib import Path

from nmt.cli.command import Command
from nmt.cli.files import NamedPath, files_of, look_at_corpora, refuse_overwriting
from nmt.cli.options import InputFile, OutputFile, Overrides
from nmt.cli.terminal import say
from nmt.config import load_config


def prepare(*, config: InputFile, set: Overrides | None = None, json: OutputFile | None = None) -> None:
    """Read the corpora, learn the tokenizers and encode the text, as nmt-train would, and print a report.

    nmt-train reuses the result.

    Args:
        config: YAML configuration
        json: also write the report to this file, as JSON

    examples:
      nmt-prepare --config en-fr.yaml
      nmt-prepare --config en-fr.yaml --set tokenizer.vocabulary=4000 --json report.json
    """
    loaded = load_config(config, set or ())
    if json is not None:
        read = [NamedPath(key, path) for key, path in files_of(loaded)]
        refuse_overwriting([*read, NamedPath("--json", json, written=True)])
    look_at_corpora(loaded)
    from nmt.data.dataset import prepare as prepare_data  # noqa: PLC0415  (slow to import)
    from nmt.data.report import describe  # noqa: PLC0415
    from nmt.runs.directory import refuse_other_parts  # noqa: PLC0415

    refuse_other_parts(loaded)
    report = prepare_data(loaded, say).report
    if json is not None:
        Path(json).write_text(json_format.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(describe(report))


main = Command(prepare)
