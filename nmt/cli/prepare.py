"""nmt-prepare: the corpus and the tokenizer of a configuration."""

from nmt.cli.command import Command
from nmt.cli.files import look_at_corpora
from nmt.cli.options import InputFile, Overrides
from nmt.cli.terminal import say
from nmt.config import load_config


def prepare(*, config: InputFile, set: Overrides | None = None) -> None:
    """Read the corpora, learn the tokenizers and encode the text, as nmt-train would, and print a report.

    nmt-train reuses the result.

    Args:
        config: YAML configuration

    examples:
      nmt-prepare --config en-fr.yaml
      nmt-prepare --config en-fr.yaml --set tokenizer.vocabulary=4000
    """
    loaded = load_config(config, set or ())
    look_at_corpora(loaded)
    from nmt.data.dataset import prepare as prepare_data  # noqa: PLC0415  (slow to import)
    from nmt.data.report import table  # noqa: PLC0415
    from nmt.runs.directory import refuse_other_parts  # noqa: PLC0415

    refuse_other_parts(loaded)
    report = prepare_data(loaded, say).report
    source, target = report["vocabulary"].values()
    print(f"{table(report)}\nvocabulary: {source:,} source, {target:,} target pieces")


main = Command(prepare)
