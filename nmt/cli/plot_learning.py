"""Draw the learning curves of runs: training loss, validation perplexity and BLEU, by update and by hours.

examples:
  nmt-plot learning runs/en-fr runs/none --output learning
  nmt-plot learning attention=runs/en-fr 'no attention=runs/none' --output learning --title 'en-fr'
"""

import argparse
from contextlib import suppress
from pathlib import Path

from nmt.cli.common import command, say
from nmt.cli.files import refuse_overwriting
from nmt.cli.options import CommandParser
from nmt.cli.systems import System, add_figure_options, maybe_named, with_names
from nmt.config import Config, load_run_config
from nmt.errors import DataError, NmtError, tried
from nmt.files import read_json
from nmt.plots.files import make_folder
from nmt.plots.learning import KINDS, Curve, Learning, write_learning
from nmt.runs.learning import read_learning


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-plot learning``."""
    arguments = CommandParser(prog="nmt-plot learning", description=__doc__)
    arguments.add_argument(
        "runs", nargs="+", type=maybe_named, metavar="[NAME=]RUN", help="run directories of nmt-train, also unfinished"
    )
    add_figure_options(arguments, "write STEM.png, .svg and .json")
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Read the metrics of all runs, and draw the figure."""
    systems = with_names(arguments.runs)
    problems = [
        f"{path}: no such run directory{tried(path)}" if not Path(path).is_dir() else f"{path}: is not a run directory"
        for _, path in systems
        if not (Path(path) / "config.yaml").is_file()
    ]
    if problems:
        raise DataError(*problems)
    written = [(f"--output {arguments.output}:", f"{arguments.output}{ending}") for ending in KINDS]
    refuse_overwriting([("RUN", system.path) for system in systems], written)
    configs = {system: load_run_config(system.path) for system in systems}
    read = {system.name: read_learning(system.path) for system in systems}
    runs = [Learning(name, {measure: Curve(*each) for measure, each in found.items()}) for name, found in read.items()]
    for system, run in zip(systems, runs, strict=True):
        if any(curve.hours is None for curve in run.curves.values()):
            say(f"{system.path}: its checkpoints/last is missing or unreadable: no curves by hours")
    make_folder(arguments.output)
    paths = write_learning(runs, arguments.output, title=arguments.title, caption=_caption(configs), dpi=arguments.dpi)
    for run in runs:
        if (bleu := run.curves.get("bleu")) is not None:
            best = int(bleu.values.argmax())
            print(f"{run.name}: best BLEU {bleu.values[best]:.2f} at update {bleu.updates[best]:,.0f}")
    say("written: " + ", ".join(map(str, paths)))


def _caption(configs: dict[System, Config]) -> list[str]:
    """Say which sentences are scored, and how."""
    sizes = dict.fromkeys(map(_validated, configs, configs.values()))
    sets = " or ".join("all sentences" if size is None else f"{size:,} sentences" for size in sizes)
    beams = sorted({config.training.validation.beam_size for config in configs.values()})
    search = " or ".join("greedy search" if beam == 1 else f"beam {beam}" for beam in beams)
    signature = " or ".join(dict.fromkeys(filter(None, map(_signature, configs))))
    scored = "; ".join(filter(None, (sets, search, signature)))
    return [
        f"Validation BLEU: {scored}. Rings: the best of each run.",
        "Hours: updates and validations, from the rate of each line of metrics.jsonl.",
    ]


def _validated(system: System, config: Config) -> int | None:
    """Return how many sentences a run translates at each validation; None if that is not known."""
    with suppress(NmtError, OSError, LookupError, TypeError):
        kept = int(read_json(Path(system.path) / "data_report.json")["splits"]["validation"]["kept"])
        most = config.training.validation.sentences
        return kept if most is None else min(kept, most)
    return config.training.validation.sentences


def _signature(system: System) -> str:
    """Return sacreBLEU's version and tokenizer, as far as the run's manifest has them."""
    with suppress(NmtError, OSError, LookupError, TypeError):
        manifest = read_json(Path(system.path) / "manifest.json")
        return f"sacreBLEU {manifest['versions']['sacrebleu']}, tokenizer {manifest['bleu_tokenizer']}"
    return ""
