"""Measure why translations of long sentences are worse.

For each bin of source length: which part of the sentence loses content words, how probable the reference is, where the
attention looks, and how many translations stop early, run on or repeat themselves.

examples:
  nmt-diagnose --source test.en --reference test.fr --output why --system rnn=runs/en-fr
  nmt-diagnose --source test.en --reference test.fr --output why --system rnn=runs/en-fr --system none=runs/none
"""

import argparse

import numpy as np

from nmt.cli.common import command, importing, say
from nmt.cli.decoding import SEARCH_OPTIONS, add_decoding_options
from nmt.cli.options import CommandParser
from nmt.cli.systems import about, add_system_options, load_configs, read_ready
from nmt.cli.test_set import add_test_set_options, translate
from nmt.data.corpus import Pair, read_test_set
from nmt.evaluation.by_length import bins_by_length
from nmt.evaluation.diagnosis import diagnose, format_diagnoses, most_frequent, sentence_measures
from nmt.evaluation.metrics import Floats
from nmt.evaluation.writing import BinnedBy, lengths, unit_of
from nmt.plots.diagnosis import ENDINGS, write_diagnosis
from nmt.plots.files import make_folder


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-diagnose``."""
    arguments = CommandParser(prog="nmt-diagnose", description=__doc__)
    add_test_set_options(arguments)
    add_system_options(arguments, "RUN", "write STEM.csv, .json, .recall.png, .probability.png, ...")
    add_decoding_options(arguments)
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Measure every system, draw the figures, and print the table."""
    configs = load_configs(arguments, ENDINGS, runs_only=True)
    data, evaluation = next((each.data, each.evaluation) for each in configs.values())
    binned_by, unit = BinnedBy("source", unit_of(data.source_language)), unit_of(data.target_language)
    sources, references = read_test_set(arguments.source, arguments.reference)
    ready = read_ready(arguments, len(sources), (*SEARCH_OPTIONS, "precision"))
    make_folder(arguments.output)
    with importing():
        from nmt.device import resolve_device  # noqa: PLC0415
        from nmt.runs.loading import load_run  # noqa: PLC0415  (PyTorch is slow to import)
        from nmt.translation.forced import force  # noqa: PLC0415

    device = resolve_device(arguments.device or "auto")
    runs = {system: load_run(system.path, device) for system in configs}  # load all before the slow part
    pairs = [Pair(*each) for each in zip(sources, references, strict=True)]
    function_words = most_frequent(references, unit=unit)
    measured: dict[str, list[Floats]] = {}
    for system, run in runs.items():
        hypotheses = ready.get(system) or list(translate([system.path], arguments.source, sources, arguments))
        say(f"{system.path}: scoring the references by forced decoding")
        forced = force(run.network, run.tokenizers, pairs, device)
        values = [
            sentence_measures(each.log_probabilities[:-1], each.attention, hypothesis, reference, function_words, unit)
            for each, hypothesis, reference in zip(forced, hypotheses, references, strict=True)
        ]
        measured.setdefault(system.name, []).append(np.stack(values))
    bins = bins_by_length(lengths(sources, binned_by.unit), arguments.bins or evaluation.bins)
    diagnoses = [diagnose(name, bins, seeds, evaluation.bootstrap) for name, seeds in measured.items()]
    content = about(arguments, configs, ready, evaluation.bootstrap, binned_by)
    paths = write_diagnosis(diagnoses, arguments.output, about=content, unit=unit)
    print(format_diagnoses(diagnoses, binned_by.column))
    say("written: " + ", ".join(map(str, paths)))
