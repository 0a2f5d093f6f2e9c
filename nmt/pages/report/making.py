"""From collected runs to the record of a page."""

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import torch

from nmt import __version__
from nmt.config import Config
from nmt.config.schema import Gumbel, Reinforce, ScoredAttention
from nmt.errors import ConfigError
from nmt.evaluation.by_length import SEED, UNTRAINED, Scoring, SystemScores, interval, mean_bleu
from nmt.evaluation.diagnosis import diagnose
from nmt.evaluation.figures import diagnosis
from nmt.evaluation.figures.length_curve import About, draw_length_curve
from nmt.evaluation.figures.style import svg
from nmt.evaluation.metrics import METRICS, bleu_of_statistics, format_values
from nmt.evaluation.significance import Comparison, compare_overall
from nmt.messages import Say, counted
from nmt.pages.report.collecting import Collected, Trained
from nmt.pages.report.reading import Measured, choose, grouped, measure, packed, read
from nmt.pages.report.rendering import LEVEL, Languages, Reading, Report, Row, Sentence, SystemFacts
from nmt.pages.web.exporting import exported
from nmt.runs.directory import ELSEWHERE, RunDirectory, flat
from nmt.runs.loading import load_run
from nmt.runs.log import best_validation, last_progress, read_film, read_metrics, updates_of_best

MOST_SAMPLES = 24
"""Validations whose samples are shown, beside the last one."""


def make_report(collected: Collected, sentences: int, device: torch.device, command: str, say: Say) -> Report:
    """Measure every system on the whole test set, choose ``sentences`` of it, and let every system read these. Raises
    FileError for a run that cannot be loaded."""
    systems, data = collected.systems, collected.systems[0].config.data
    measured = []
    for system in systems:
        say(f"{system.name}: measuring on {len(collected.sources):,} sentences")
        measured.append(measure(system.name, load_run(system.run.path, device), collected, device))
    scoring, bins = collected.scoring, collected.scoring.bins
    bleu = np.stack([bleu_of_statistics(each.scores.statistics[0], effective_order=True) for each in measured])
    failing = np.any([each.failing.any(axis=1) for each in measured], axis=0)
    lengths = scoring.lengths * np.all([[each.pieces != [] for each in one.translations] for one in measured], axis=0)
    shown, selection = choose(sentences, lengths, [each.members for each in bins.values()], bleu, failing)
    readings: list[list[Reading]] = []
    engines: dict[str, dict[str, bytes] | str] = {}
    for system, one in zip(systems, measured, strict=True):
        say(f"{system.name}: reading {len(shown):,} sentences")
        run = load_run(system.run.path, device)  # one at a time is in memory
        counting = counted(shown, f"{system.name}: reading", len(shown), "sentences")
        readings.append([read(run, one, each, collected, device) for each in counting])
        try:
            engines[system.name] = exported(run)
            if system.config.data.rough:
                say(f"{system.name}: data.rough: nmt-translate lowercases text in capitals; the page does not")
        except ConfigError as error:
            engines[system.name] = "; ".join(error.problems)
    settings = differing_settings([system.config for system in systems])
    facts = [
        _facts(system, one, differing, list(read_by[0].attention), scoring)
        for system, one, differing, read_by in zip(systems, measured, settings, readings, strict=True)
    ]
    scores = [one.scores for one in measured]
    compared = compare_overall([each for each in scores if each.comparable], resamples=scoring.resamples)
    records = _sentences(collected, shown, readings)
    units = scoring.source_unit, scoring.reference_unit
    say("drawing the figures")
    return Report(
        title=collected.title,
        made={"date": date.today().isoformat(), "toolkit": __version__, "command": command},
        languages=Languages(data.source_language, data.target_language, right_to_left(collected.sources), *units),
        metrics=[metric for name, metric in METRICS.items() if any(name in each.scores for each in facts)],
        score=next(each.label for each in METRICS.values() if each.of_sentence and each.higher_is_better),
        systems=facts,
        pairs=[
            {"a": each.system, "b": each.other, "difference": -each.difference, "p": each.p_value} for each in compared
        ],
        findings=findings(scores, compared),
        figures=_figures(collected, measured),
        bins=[{"low": each.low, "high": each.high} for each in bins.values()],
        sentences=records,
        example=example(records),
        selection=selection,
        engines=engines,
    )


def _facts(
    system: Trained, measured: Measured, settings: dict[str, str], views: list[str], scoring: Scoring
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
        scores=_scores(measured, best_validation(metrics), scoring.resamples),
        hard=isinstance(attention, ScoredAttention) and isinstance(attention.hard, Gumbel | Reinforce),
        views=views,
        length=[row.as_dict() for row in measured.scores.rows],
        samples=samples(system.run),
        film=film(system.run, metrics, scoring),
    )


def _scores(measured: Measured, validated: Mapping[str, Any], resamples: int) -> dict[str, Row]:
    """Return every metric of the test set, and those of the validation set that the test set has no value of."""
    found: dict[str, Row] = {
        name: {"value": validated[name], "signature": "", "split": "validation"}
        for name in METRICS
        if validated.get(name) is not None
    }
    for name, score in measured.scores.scores.items():
        found[name] = {"value": score.value, "signature": score.signature, "split": "test"}
    if measured.aer is not None:
        found["aer"] = {"value": measured.aer, "signature": "", "split": "test"}
    _, [resampled] = mean_bleu([measured.scores.statistics], resamples, SEED)
    low, high = interval(resampled)
    found["bleu"] |= {"low": low, "high": high}
    return found


def _sentences(collected: Collected, shown: Sequence[int], readings: Sequence[Sequence[Reading]]) -> list[Sentence]:
    """Return the records of the sentences that are shown."""
    records = []
    for index, *own in zip(shown, *readings, strict=True):
        by_name = {system.name: each for system, each in zip(collected.systems, own, strict=True)}
        scoring = collected.scoring
        texts, length = (collected.sources[index], scoring.references[index]), int(scoring.lengths[index])
        records.append(Sentence(index + 1, *texts, length, by_name))
    return records


# --- what the overview says -------------------------------------------------------------------------------------------


def findings(systems: Sequence[SystemScores], compared: Sequence[Comparison]) -> list[str]:
    """Say which of the two best systems is better and by how much, and whose BLEU is too low to compare."""
    scores = sorted(systems, key=lambda each: -each.bleu.value)
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
    untrained = [each.name for each in systems if not each.comparable]
    return [*found, f"{', '.join(untrained)}: {UNTRAINED}."] if untrained else found


def example(sentences: Sequence[Sentence]) -> Sentence | None:
    """Return the sentence of median length among those that the systems translate differently, or among all."""
    differing = [each for each in sentences if len({reading.text for reading in each.systems.values()}) > 1]
    ordered = sorted(differing or sentences, key=lambda each: each.length)
    return ordered[len(ordered) // 2] if ordered else None


def differing_settings(configs: Sequence[Config]) -> list[dict[str, str]]:
    """Return for each system the dotted keys whose values are not the same in all systems; "" where unset."""
    every = [{key: _shown(value) for key, value in flat(config.model_dump(mode="json")).items()} for config in configs]
    keys = [key for key in dict.fromkeys(key for one in every for key in one) if key not in ELSEWHERE]
    differing = [key for key in keys if len({one.get(key, "") for one in every}) > 1]
    return [{key: one.get(key, "") for key in differing} for one in every]


def _shown(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def right_to_left(lines: Iterable[str]) -> bool:
    """Whether most letters of a text are written from right to left."""
    counts = Counter(unicodedata.bidirectional(letter) for letter in "".join(lines) if letter.isalpha())
    return 2 * (counts["R"] + counts["AL"]) > counts.total()


# --- length and training ----------------------------------------------------------------------------------------------


def _figures(collected: Collected, measured: Sequence[Measured]) -> dict[str, bytes]:
    """Draw the figures of ``nmt-length-curve``, as SVG by title."""
    scoring = collected.scoring
    untrained = [one.scores.name for one in measured if not one.scores.comparable]
    test_set = collected.test.source.rpartition("/")[2]
    about = About(test_set, scoring.resamples, scoring.source_unit, untrained=untrained)
    diagnoses = [diagnose(one.scores.name, scoring.bins, [one.measures], scoring.resamples) for one in measured]
    curve = draw_length_curve([one.scores for one in measured], about=about)
    found = {"BLEU by source length": svg(curve, "none")}
    for kind, drawn in diagnosis.draw_diagnoses(diagnoses, about=about, unit=scoring.reference_unit).items():
        found[diagnosis.TITLES[kind]] = svg(drawn, "none")
    return found


def samples(run: RunDirectory) -> list[Row]:
    """Read the translations of the same sentences over time: source, reference, and (step, hypothesis) pairs."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for record in read_metrics(run.samples):
        for line in record["lines"]:
            found.setdefault((line["source"], line["reference"]), []).append((record["step"], line["hypothesis"]))
    every = -(-max(map(len, found.values()), default=0) // MOST_SAMPLES)
    return [
        {"source": source, "reference": reference, "steps": [*steps[:-1:every], steps[-1]]}
        for (source, reference), steps in found.items()
    ]


def film(run: RunDirectory, metrics: Sequence[Mapping[str, Any]], scoring: Scoring) -> Row | None:
    """Read the film of a run, whose records are ``metrics``: the updates, the scores of each validation, and for each
    sentence its words and the packed weights of every frame; None without one."""
    found = read_film(run.film)
    if found is None:
        return None
    validations = [each for each in metrics if each.get("split") == "validation"]
    updates = found.updates.tolist()
    return {
        "updates": updates,
        "scores": [" ".join(format_values(each) for each in validations if each.get("step") == one) for one in updates],
        "sentences": [
            {
                "source": each.source,
                "reference": each.reference,
                "source_words": grouped(each.source_pieces, each.source, scoring.source_unit)[0],
                "target_words": grouped(each.target_pieces, each.reference, scoring.reference_unit)[0],
                "frames": [packed(frame) for frame in weights],
            }
            for each, weights in zip(found.sentences, found.weights, strict=True)
        ],
    }
