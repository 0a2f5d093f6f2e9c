"""From collected runs to the record of a page."""

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from typing import Any

import torch

from nmt import __version__
from nmt.config import Config
from nmt.config.schema import ScoredAttention
from nmt.evaluation.by_length import SEED, UNTRAINED, bins_by_length
from nmt.evaluation.diagnosis import diagnose
from nmt.evaluation.figures import diagnosis
from nmt.evaluation.figures.learning import draw_learning, learning_curves
from nmt.evaluation.figures.length_curve import About, draw_length_curve
from nmt.evaluation.figures.style import svg
from nmt.evaluation.metrics import METRICS, Integers
from nmt.evaluation.significance import Comparison, compare_overall, interval, mean_bleu
from nmt.evaluation.writing import BinnedBy, lengths, unit_of
from nmt.pages.report.collecting import Collected, Say, Trained
from nmt.pages.report.measuring import Measured, choose, measure
from nmt.pages.report.reading import Readings, read, sentence_records
from nmt.pages.report.rendering import Figure, Languages, Report, Row, Sentence, SystemFacts, thinned
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import load_run
from nmt.runs.metrics import best_validation, last_progress, read_metrics, updates_of_best

ELSEWHERE = ("output", "device", "threads", "kernels", "data.cache")
"""Keys that say where and how fast a run is made, not what it is."""
MOST_SAMPLES = 24
"""Validations whose samples are shown."""
LEVEL = 0.05
"""Largest p of a difference that is taken to be more than chance."""


def make_report(collected: Collected, sentences: int, device: torch.device, command: str, say: Say) -> Report:
    """Measure every system on the whole test set, choose ``sentences`` of it, and let every system read these.

    Raises CheckpointError for a run that cannot be loaded.
    """
    systems, data = collected.systems, collected.systems[0].config.data
    unit = unit_of(data.source_language)
    by_words = lengths(collected.sources, unit)
    measured = []
    for system in systems:
        say(f"{system.name}: measuring on {len(collected.pairs):,} sentences")
        measured.append(measure(system, load_run(system.run.path, device), collected, by_words, device))
    bins = bins_by_length(by_words, collected.bins)
    selection = choose(sentences, by_words, [each.members for each in bins.values()], measured)
    readings = []
    for system, one in zip(systems, measured, strict=True):
        say(f"{system.name}: reading {len(selection.indices):,} sentences")
        loaded = load_run(system.run.path, device)
        translations = [one.translations[each] for each in selection.indices]
        readings.append(Readings(loaded.tokenizers, read(loaded, translations, device)))
    settings = differing_settings([system.config for system in systems])
    facts = [
        _facts(system, one, differing, each.views, collected.resamples)
        for system, one, differing, each in zip(systems, measured, settings, readings, strict=True)
    ]
    trained = [one.scores for one in measured if one.scores.comparable]
    compared = compare_overall(trained, resamples=collected.resamples) if trained else []
    records = sentence_records(collected, selection.indices, readings)
    return Report(
        title=collected.title,
        made={"date": date.today().isoformat(), "toolkit": __version__, "command": command},
        languages=Languages(
            data.source_language,
            data.target_language,
            right_to_left(collected.sources),
            unit,
            unit_of(data.target_language),
        ),
        metrics=[metric for name, metric in METRICS.items() if any(name in each.scores for each in facts)],
        score=next(each.label for each in METRICS.values() if each.of_sentence and each.higher_is_better),
        systems=facts,
        pairs=[
            {"a": each.system, "b": each.other, "difference": -each.difference, "p": each.p_value} for each in compared
        ],
        findings=findings(measured, compared),
        figures=_figures(collected, measured, by_words),
        bins=[{"low": each.low, "high": each.high} for each in bins.values()],
        sentences=records,
        example=example(records),
        selection=selection.described,
    )


def _facts(
    system: Trained, measured: Measured, settings: dict[str, str], views: list[str], resamples: int
) -> SystemFacts:
    metrics, progress = read_metrics(system.run.metrics), last_progress(system.run.path)
    tokens, seconds = progress.get("target_tokens"), progress.get("seconds")
    attention = system.config.model.attention
    return SystemFacts(
        name=system.name,
        settings=settings,
        parameters=system.run.parameters("best"),
        update=max(updates_of_best(metrics), default=None),
        seconds=seconds,
        tokens_per_second=tokens / seconds if tokens and seconds else None,
        scores=_scores(measured, best_validation(metrics), resamples),
        hard=isinstance(attention, ScoredAttention) and attention.hard is not None,
        views=views,
        length=[asdict(row) for row in measured.scores.rows],
        samples=samples(system.run),
    )


def _scores(measured: Measured, validated: Mapping[str, Any], resamples: int) -> dict[str, Row]:
    """Return every metric of the test set, and those of the validation set that the test set has no value of."""
    test: dict[str, Row] = {
        name: {"value": score.value, "signature": score.signature, "split": "test"}
        for name, score in measured.scores.scores.items()
    }
    _, [resampled] = mean_bleu([measured.scores.statistics], resamples, SEED)
    low, high = interval(resampled)
    test["bleu"] |= {"low": low, "high": high}
    if measured.aer is not None:
        test["aer"] = {"value": measured.aer, "signature": "", "split": "test"}
    validation = {
        name: {"value": validated[name], "signature": "", "split": "validation"}
        for name in METRICS
        if validated.get(name) is not None
    }
    return {name: (validation | test)[name] for name in METRICS if name in validation | test}


# --- what the overview says -------------------------------------------------------------------------------------------


def findings(measured: Sequence[Measured], compared: Sequence[Comparison]) -> list[str]:
    """Say which of the two best systems is better and by how much, and which systems are not trained enough."""
    scores = sorted((one.scores for one in measured), key=lambda each: -each.bleu.value)
    best = {each.name for each in scores[:2] if each.comparable}
    found = []
    for each in compared:
        if {each.system, each.other} == best:
            turned = each.difference < 0
            names = (each.other, each.system) if turned else (each.system, each.other)
            low, high = (-each.high, -each.low) if turned else (each.low, each.high)
            size = f"by {abs(each.difference):.1f} BLEU (95% interval {low:.1f} to {high:.1f})"
            p = each.p_value
            if p is None:
                found.append(f"{names[0]} scores above {names[1]} {size}; the sentences are too few for a test.")
            elif p <= LEVEL:
                found.append(f"{names[0]} is better than {names[1]} {size}.")
            else:
                found.append(f"{names[0]} scores above {names[1]} {size}, which may be chance (p = {p:.2f}).")
    return found + [f"{each.name}: {UNTRAINED}." for each in scores if not each.comparable]


def example(sentences: Sequence[Sentence]) -> Sentence | None:
    """Return the sentence of median length among those that the systems translate differently, or among all."""
    differing = [each for each in sentences if len({reading.text for reading in each.systems.values()}) > 1]
    ordered = sorted(differing or sentences, key=lambda each: each.length)
    return ordered[len(ordered) // 2] if ordered else None


def flat(section: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten a section to dotted keys and values as text; "" for null."""
    values: dict[str, str] = {}
    for key, value in section.items():
        if isinstance(value, Mapping):
            values |= flat(value, f"{prefix}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            values[f"{prefix}{key}"] = "" if value is None else text
    return values


def differing_settings(configs: Sequence[Config]) -> list[dict[str, str]]:
    """Return for each system the dotted keys whose values are not the same in all systems; "" where unset."""
    every = [flat(config.model_dump(mode="json")) for config in configs]
    keys = [key for key in dict.fromkeys(key for one in every for key in one) if key not in ELSEWHERE]
    differing = [key for key in keys if len({one.get(key, "") for one in every}) > 1]
    return [{key: one.get(key, "") for key in differing} for one in every]


def right_to_left(lines: Iterable[str]) -> bool:
    """Whether most letters of a text are written from right to left."""
    counts = Counter(unicodedata.bidirectional(letter) for letter in "".join(lines) if letter.isalpha())
    return 2 * (counts["R"] + counts["AL"]) > counts.total()


# --- length and training ----------------------------------------------------------------------------------------------


def _figures(collected: Collected, measured: Sequence[Measured], by_words: Integers) -> list[Figure]:
    """Draw the figures of ``nmt-length-curve``, and the learning curves."""
    data, resamples = collected.systems[0].config.data, collected.resamples
    name = collected.test.source.rpartition("/")[2]
    about = About(name, resamples, BinnedBy("source", unit_of(data.source_language)))
    bins = bins_by_length(by_words, collected.bins)
    diagnoses = [diagnose(one.scores.name, bins, [one.measures], resamples) for one in measured]
    curve = draw_length_curve([one.scores for one in measured], about=about)
    found = [Figure("length", "BLEU by source length", svg(curve))]
    for kind, title in diagnosis.TITLES.items():
        if kind != "attention" or any(each.has("entropy") for each in diagnoses):
            drawn = diagnosis.draw_diagnosis(diagnoses, kind, about=about, unit=unit_of(data.target_language))
            found.append(Figure("length", title, svg(drawn)))
    curves = {system.name: learning_curves(read_metrics(system.run.metrics)) for system in collected.systems}
    if runs := {name: each for name, each in curves.items() if each}:
        found.append(Figure("training", "Training loss and validation scores", svg(draw_learning(runs))))
    return found


def samples(run: RunDirectory) -> list[Row]:
    """Read the translations of the same sentences over time: source, reference, and (step, hypothesis) pairs."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for record in read_metrics(run.samples):
        step, lines = record.get("step"), record.get("lines")
        if isinstance(step, int) and isinstance(lines, list):
            for line in lines:
                if isinstance(line, dict):
                    source, reference, text = (str(line.get(key, "")) for key in ("source", "reference", "hypothesis"))
                    found.setdefault((source, reference), []).append((step, text))
    return [
        {"source": source, "reference": reference, "steps": thinned(steps, MOST_SAMPLES)}
        for (source, reference), steps in found.items()
    ]
