"""Scores by length of several systems as values: the length curve, and the diagnosis of long sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nmt.config.schema import BleuTokenizer
from nmt.data.corpus import Pair, Text
from nmt.evaluation import significance
from nmt.evaluation.by_length import UNTRAINED, Scoring, SystemScores, format_rows, format_scores
from nmt.evaluation.diagnosis import Diagnosis, diagnose, format_diagnoses, most_frequent, sentence_measures
from nmt.evaluation.figures.diagnosis import draw_diagnoses
from nmt.evaluation.figures.files import numbers, table, write_all
from nmt.evaluation.figures.length_curve import About, draw_length_curve
from nmt.evaluation.figures.style import png, svg
from nmt.evaluation.metrics import Floats
from nmt.evaluation.significance import Comparison, Range, Retention
from nmt.evaluation.writing import Unit
from nmt.experiments.evaluation import System, Systems, warn


@dataclass(frozen=True)
class LengthCurve:
    """BLEU by sentence length of several systems, and comparisons of every two of them."""

    systems: tuple[SystemScores, ...]
    about: About
    """The content of the caption: test set, runs, bins."""
    comparisons: tuple[Comparison, ...] = ()
    """Differences in every bin, between systems that are trained enough to be compared."""
    overall: tuple[Comparison, ...] = ()
    """Likewise on the whole test set."""
    retention: Retention | None = None
    """Retained BLEU of those with LEAST_SHORT BLEU on short sentences; None without such, or without two bins of 30."""

    def figure(self) -> Figure:
        """Draw the curves (after Bahdanau et al. 2015, Fig. 2)."""
        return draw_length_curve(self.systems, about=self.about)

    def as_dict(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        return self.about.as_dict() | {
            "sentences": sum(row.n for row in self.systems[0].rows),
            "signature": self.systems[0].bleu.signature,
            "systems": {system.name: system.as_dict() for system in self.systems},
            "comparisons": [asdict(each) for each in self.comparisons],
            "overall": [asdict(each) for each in self.overall],
            "kept": None if self.retention is None else asdict(self.retention),
        }

    def write(self, stem: str | Path) -> list[Path]:
        """Write ``stem``.png, .svg, .json and .csv, and return the paths. Raises DataError if that fails."""
        figure, rows = self.figure(), [row.as_dict() for system in self.systems for row in system.rows]
        files = {".png": png(figure), ".svg": svg(figure), ".json": numbers(self.as_dict()), ".csv": table(rows)}
        return write_all(stem, files)

    def __str__(self) -> str:
        parts = [f"{each.name}\n{format_scores(each)}" for each in self.systems]
        parts.append(format_rows([row for each in self.systems for row in each.rows], self.about.unit))
        if self.comparisons:
            parts.append("differences (95% interval, two-sided p of the paired bootstrap):")
            parts.append(significance.format_comparisons([*self.comparisons, *self.overall]))
        parts += [f"{each.name}: {UNTRAINED}" for each in self.systems if not each.comparable]
        if self.retention:
            parts.append(significance.format_retention(self.retention, self.about.unit))
        return "\n".join(parts)


def compare_systems(
    systems: Systems, scoring: Scoring, short: Range | None = None, long: Range | None = None
) -> LengthCurve:
    """Score systems by sentence length and compare them; arguments and errors as of :func:`length_curve`."""
    sides = significance.ranges(scoring, short, long)
    scored = systems.score(scoring)
    compared = [each for each in scored if each.comparable]
    return LengthCurve(
        scored,
        systems.about(scoring, scored),
        tuple(significance.compare_by_length(compared, scoring)),
        tuple(significance.compare_overall(compared, resamples=scoring.resamples)),
        significance.retention(compared, scoring, *sides) if sides and compared else None,
    )


def length_curve(
    systems: Mapping[str, System] | Sequence[tuple[str, System]],
    source: Text,
    reference: Text,
    *,
    bins: Sequence[int] = (),
    bleu_tokenizer: BleuTokenizer | None = None,
    short: Range | None = None,
    long: Range | None = None,
    device: str = "auto",
    precision: str = "fp32",
    **changes: Any,
) -> LengthCurve:
    """Score systems by sentence length and compare them, as ``nmt-length-curve`` does.

    >>> curve = length_curve({"tiny": "runs/tiny", "copy": "test.low"}, "test.low", "test.up", bins=[1, 2, 3])
    >>> [(row.system, row.low, row.n) for row in curve.systems[0].rows][:2]
    [('tiny', 1, 6), ('tiny', 2, 5)]
    >>> [path.name for path in curve.write("curve")]
    ['curve.png', 'curve.svg', 'curve.json', 'curve.csv']

    ``print(curve)`` shows the tables that the command prints; a notebook shows ``curve.figure()``.

    Args:
        systems: by name, each as for :func:`evaluate`. In a list of pairs the same name again is another seed of the
            same system; seeds are averaged.
        short: smallest and largest length of short sentences, in retained BLEU; default: the shortest bin of at least
            30 sentences.
        long: likewise of long ones.

    The other arguments are those of :func:`evaluate`; ``changes`` hold for all runs. Raises its errors, and ConfigError
    for ranges of length that overlap.
    """
    named = list(systems.items() if isinstance(systems, Mapping) else systems)
    compared = Systems(named, source, reference, (), device, precision, changes, warn)
    return compare_systems(compared, compared.scoring(bins, bleu_tokenizer), short, long)


# --- why long sentences are worse ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Diagnoses:
    """The diagnoses of several systems on one test set; ``print`` shows their table."""

    systems: Sequence[Diagnosis]
    about: About
    unit: Unit
    """The unit of length in the target language."""

    def write(self, stem: str | Path) -> list[Path]:
        """Write the figures ``stem``.recall, .probability, .attention and .failures, each as .png and .svg, and their
        numbers as ``stem``.json and .csv; return the paths. Raises DataError if that fails."""
        files: dict[str, bytes] = {}
        for name, figure in draw_diagnoses(self.systems, about=self.about, unit=self.unit).items():
            files |= {f".{name}.png": png(figure), f".{name}.svg": svg(figure)}
        systems = {each.system: each.rows(intervals=True) for each in self.systems}
        files[".json"] = numbers(self.about.as_dict() | {"systems": systems})
        files[".csv"] = table([row for each in self.systems for row in each.rows()])
        return write_all(stem, files)

    def __str__(self) -> str:
        return format_diagnoses(self.systems, self.about.unit)


def diagnose_systems(systems: Systems, scoring: Scoring, about: About) -> Diagnoses:
    """Measure, for each bin of length, which part of the sentence loses content words, how probable the reference is,
    where the attention looks, and how many translations stop early, run on or repeat themselves.

    Each system is a run, which is forced to read the references.
    """
    from nmt.device import resolve_device  # noqa: PLC0415  (PyTorch is slow to import)
    from nmt.runs.loading import load_run  # noqa: PLC0415
    from nmt.translation.forced import force  # noqa: PLC0415
    from nmt.translation.searching import SearchOptions  # noqa: PLC0415

    unit = scoring.reference_unit
    device = resolve_device(systems.device)
    runs = [load_run(entry.path, device) for entry in systems.entries]  # load all before the slow part
    pairs = [Pair(*each) for each in zip(systems.sources, systems.references, strict=True)]
    function_words = most_frequent(systems.references, unit=unit)
    measured: dict[str, list[Floats]] = {}
    for entry, run, hypotheses in zip(systems.entries, runs, systems.translations, strict=True):
        systems.say(f"{entry.path}: scoring the references by forced decoding")
        limits = SearchOptions.from_config(run.config.decoding, **systems.changes)
        forced = force(run.network, run.tokenizers, pairs, device, limits=limits)
        values = [
            sentence_measures(each.log_probabilities[:-1], each.attention, hypothesis, reference, function_words, unit)
            for (_, each), hypothesis, reference in zip(forced, hypotheses, systems.references, strict=True)
        ]
        measured.setdefault(entry.name, []).append(np.stack(values))
    diagnosed = [diagnose(name, scoring.bins, seeds, scoring.resamples) for name, seeds in measured.items()]
    return Diagnoses(diagnosed, about, unit)
