"""Measure why translations of long sentences are worse.

For each bin of source length: which part of the sentence loses content words, how probable the reference is, where the
attention looks, and how many translations stop early, run on or repeat themselves.

examples:
  nmt-diagnose --source test.en --reference test.fr --output why --system rnn=runs/en-fr
  nmt-diagnose --source test.en --reference test.fr --output why --system rnn=runs/en-fr --system none=runs/none
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmt.cli.common import command, importing, say
from nmt.cli.decoding import SEARCH_OPTIONS, add_decoding_options
from nmt.cli.systems import (
    System,
    about,
    add_system_options,
    check_systems,
    read_ready,
    refuse_overwriting_systems,
)
from nmt.cli.test_set import add_test_set_options, read_test_set, translate
from nmt.config import load_run_config
from nmt.data.corpus import Pair
from nmt.evaluation.by_length import bins_by_length
from nmt.evaluation.diagnosis import diagnose, format_diagnoses, most_frequent, sentence_measures
from nmt.evaluation.metrics import Floats
from nmt.evaluation.writing import BinnedBy, Unit, lengths, unit_of
from nmt.plots.diagnosis import ENDINGS, write_diagnosis
from nmt.plots.files import make_folder

if TYPE_CHECKING:
    import torch

    from nmt.runs.loading import LoadedRun


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-diagnose``."""
    arguments = argparse.ArgumentParser(prog="nmt-diagnose", description=__doc__)
    add_test_set_options(arguments)
    add_system_options(arguments, "RUN", "write STEM.csv, .json, .recall.png, .probability.png, ...")
    add_decoding_options(arguments)
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Measure every system, draw the figures, and print the table."""
    systems: list[System] = arguments.systems
    check_systems(systems, runs_only=True)
    refuse_overwriting_systems(arguments, ENDINGS)
    configs = {system: load_run_config(system.path) for system in systems}
    data, evaluation = configs[systems[0]].data, configs[systems[0]].evaluation
    binned_by, unit = BinnedBy("source", unit_of(data.source_language)), unit_of(data.target_language)
    sources, references = read_test_set(arguments.source, arguments.reference)
    ready = read_ready(arguments, len(sources), (*SEARCH_OPTIONS, "precision"))
    make_folder(arguments.output)
    with importing():
        from nmt.foundation.device import resolve_device  # noqa: PLC0415
        from nmt.runs.loading import load_run  # noqa: PLC0415  (PyTorch is slow to import)

    device = resolve_device(arguments.device or "auto")
    runs = [load_run(system.path, device) for system in systems]  # load all before the slow part
    function_words = most_frequent(references, unit=unit)
    measured: dict[str, list[Floats]] = {}
    for system, run in zip(systems, runs, strict=True):
        hypotheses = ready.get(system) or list(translate(system.path, arguments.source, sources, arguments))
        say(f"{system.path}: scoring the references by forced decoding")
        values = measures(run, sources, references, hypotheses, function_words, unit, device)
        measured.setdefault(system.name, []).append(values)
    bins = bins_by_length(lengths(sources, binned_by.unit), arguments.bins or evaluation.bins)
    diagnoses = [diagnose(name, bins, seeds, evaluation.bootstrap) for name, seeds in measured.items()]
    paths = write_diagnosis(
        diagnoses,
        arguments.output,
        about=about(arguments, configs, ready, evaluation.bootstrap, binned_by),
        unit=unit,
    )
    print(format_diagnoses(diagnoses, binned_by.column))
    say("written: " + ", ".join(map(str, paths)))


def measures(
    run: "LoadedRun",
    sources: Sequence[str],
    references: Sequence[str],
    hypotheses: Sequence[str],
    function_words: frozenset[str],
    unit: Unit,
    device: "torch.device",
) -> Floats:
    """Measure each sentence, (sentences, MEASURES)."""
    import numpy as np  # noqa: PLC0415

    from nmt.translation.forced import force  # noqa: PLC0415  (PyTorch is slow to import)

    pairs = [Pair(*each) for each in zip(sources, references, strict=True)]
    forced = force(run.network, run.tokenizers, pairs, device)
    return np.stack(
        [
            sentence_measures(each.log_probabilities[:-1], each.attention, hypothesis, reference, function_words, unit)
            for each, hypothesis, reference in zip(forced, hypotheses, references, strict=True)
        ]
    )
