"""Why translations of long sentences are worse, as a value: measures by length of several systems, and the figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nmt.data.corpus import Pair
from nmt.evaluation.by_length import MIN_SENTENCES, bins_by_length
from nmt.evaluation.diagnosis import Diagnosis, diagnose, format_diagnoses, most_frequent, sentence_measures
from nmt.evaluation.metrics import Floats
from nmt.evaluation.writing import BinnedBy, Unit, lengths, unit_of
from nmt.library.evaluation import Systems
from nmt.plots.about import About
from nmt.plots.diagnosis import write_diagnosis


@dataclass(frozen=True)
class Diagnoses:
    """The diagnoses of several systems on one test set; ``print`` shows their table."""

    systems: Sequence[Diagnosis]
    about: About
    unit: Unit
    """Of the target language."""

    def write(self, stem: str | Path) -> list[Path]:
        """Write the figures and their numbers, and return the paths. Raises DataError if that fails."""
        return write_diagnosis(self.systems, stem, about=self.about, unit=self.unit)

    def __str__(self) -> str:
        return format_diagnoses(self.systems, self.about.binned_by.column)


def diagnose_systems(systems: Systems, *, bins: Sequence[int] = (), min_sentences: int = MIN_SENTENCES) -> Diagnoses:
    """Measure, for each bin of source length, which part of the sentence loses content words, how probable the
    reference is, where the attention looks, and how many translations stop early, run on or repeat themselves.

    Each system must be a run, which is forced to read the references. Arguments are those of
    :func:`~nmt.library.length_curve.length_curve`. Raises ConfigError for a system that is no run.
    """
    systems.refuse_files()
    from nmt.device import resolve_device  # noqa: PLC0415  (PyTorch is slow to import)
    from nmt.runs.loading import load_run  # noqa: PLC0415
    from nmt.translation.forced import force  # noqa: PLC0415

    data, evaluation = next(config for config in systems.configs if config).data, systems.evaluation
    binned_by, unit = BinnedBy("source", unit_of(data.source_language)), unit_of(data.target_language)
    device = resolve_device(systems.device)
    runs = [load_run(str(path), device) for _, path in systems.named]  # load all before the slow part
    pairs = [Pair(*each) for each in zip(systems.sources, systems.references, strict=True)]
    function_words = most_frequent(systems.references, unit=unit)
    measured: dict[str, list[Floats]] = {}
    for (name, path), run, hypotheses in zip(systems.named, runs, systems.translations, strict=True):
        systems.say(f"{path}: scoring the references by forced decoding")
        forced = force(run.network, run.tokenizers, pairs, device)
        values = [
            sentence_measures(each.log_probabilities[:-1], each.attention, hypothesis, reference, function_words, unit)
            for each, hypothesis, reference in zip(forced, hypotheses, systems.references, strict=True)
        ]
        measured.setdefault(name, []).append(np.stack(values))
    groups = bins_by_length(lengths(systems.sources, binned_by.unit), bins or evaluation.bins)
    diagnosed = [diagnose(name, groups, seeds, evaluation.bootstrap) for name, seeds in measured.items()]
    return Diagnoses(diagnosed, systems.about(evaluation.bootstrap, binned_by, min_sentences), unit)
