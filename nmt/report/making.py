"""From collected runs to the record of a page."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from typing import Any

import numpy as np
import torch

from nmt import __version__
from nmt.data.tokenizer import Tokenizers
from nmt.evaluation.by_length import PERCENTILES, SEED, LengthRow, bins_by_length
from nmt.evaluation.metrics import Integers
from nmt.evaluation.significance import compare_overall, mean_bleu
from nmt.evaluation.writing import lengths, unit_of
from nmt.report import history
from nmt.report.collecting import Collected, Say
from nmt.report.measuring import Measured, diagnosis, measure, translated
from nmt.report.reading import read
from nmt.report.records import Languages, Report, Row, System
from nmt.report.selection import choose, typical
from nmt.report.sentences import Readings, sentence_records
from nmt.report.settings import bottleneck, differing_settings, is_hard
from nmt.report.systems import Trained
from nmt.report.test_set import right_to_left
from nmt.runs.loading import load_run
from nmt.runs.metrics import read_metrics


def make_report(collected: Collected, sentences: int, device: torch.device, command: str, say: Say) -> Report:
    """Measure every system on the whole test set, choose ``sentences`` of it, and let every system read these.

    Raises CheckpointError for a run that cannot be loaded.
    """
    test, systems = collected.test, collected.systems
    data = systems[0].config.data
    unit = unit_of(data.source_language)
    tokenizer = Tokenizers.load(systems[0].run.tokenizer).source
    by_words = lengths(test.sources, unit)
    by_pieces = np.array([len(ids) for ids in tokenizer.encode(test.sources)], np.int64)
    measured = []
    for system in systems:
        say(f"{system.name}: measuring on {len(test.pairs):,} sentences")
        measured.append(measure(system, load_run(system.run.path, device), collected, by_words, by_pieces, device))
    selection = choose(
        sentences,
        by_words,
        [each.members.tolist() for each in bins_by_length(by_words, collected.bins).values()],
        np.stack([one.bleu for one in measured]),
        np.array([list(map(bool, one.failures)) for one in measured]),
    )
    readings = []
    for system, one in zip(systems, measured, strict=True):
        say(f"{system.name}: reading {len(selection.indices):,} sentences")
        readings.append(_reading(system, one, test.sources, selection.indices, device))
    settings = differing_settings([system.config for system in systems])
    resamples = collected.resamples
    return Report(
        collected.title,
        {"date": date.today().isoformat(), "toolkit": __version__, "command": command},
        Languages(
            data.source_language,
            data.target_language,
            right_to_left(test.sources),
            right_to_left(test.references),
            unit,
            unit_of(data.target_language),
        ),
        [
            _system(system, one, differing, views, collected, (by_words, by_pieces), selection.indices)
            for system, one, differing, views in zip(
                systems, measured, settings, [each.views for each in readings], strict=True
            )
        ],
        _pairs(measured, resamples),
        bottleneck([system.name for system in systems], [system.config for system in systems]),
        sentence_records(collected, selection.indices, readings),
        selection.described,
        collected.notes,
    )


def _reading(
    system: Trained, measured: Measured, sources: Sequence[str], shown: Sequence[int], device: torch.device
) -> Readings:
    """Read what the system made of the sentences that are ``shown``; they are translated if only their texts are there,
    which say nothing of their pieces."""
    loaded = load_run(system.run.path, device)
    if measured.translations is None:
        translations = translated(loaded, [sources[each] for each in shown], device)
    else:
        translations = [measured.translations[each] for each in shown]
    return Readings(loaded.tokenizers, read(loaded, translations, device))


def _pairs(measured: Sequence[Measured], resamples: int) -> list[Row]:
    """Differences in BLEU, b's minus a's, with the p of approximate randomization where there are enough sentences."""
    compared = compare_overall([one.scores for one in measured], resamples=resamples)
    return [
        {"a": each.system, "b": each.other, "difference": -each.difference, "p": each.p_randomization}
        for each in compared
    ]


def _system(
    system: Trained,
    measured: Measured,
    settings: dict[str, str],
    views: list[str],
    collected: Collected,
    measures: tuple[Integers, Integers],
    shown: Sequence[int],
) -> System:
    """The record of a system; ``measures`` are the lengths of all sources in words and in pieces."""
    metrics = read_metrics(system.run.metrics)
    facts = history.facts(system.run, metrics)
    validated = facts.pop("aer")
    aer = validated if measured.aer is None else measured.aer
    [[bleu], [resampled]] = mean_bleu([measured.scores.statistics], collected.resamples, SEED)
    low, high = np.percentile(resampled, PERCENTILES)
    of_bleu, of_chrf = measured.scores.scores
    by_words, by_pieces = measures
    return System(
        name=system.name,
        settings=settings,
        **facts,
        bleu={"value": float(bleu), "low": float(low), "high": float(high), "signature": of_bleu.signature},
        chrf={"value": of_chrf.value, "signature": of_chrf.signature},
        aer=aer,
        aer_of=None if aer is None else "validation" if measured.aer is None else "test",
        attends=bool(views),
        hard=is_hard(system.config),
        views=views,
        length=_by_length(measured.scores.rows, by_words, measured, collected, shown),
        length_pieces=_by_length(measured.pieces, by_pieces, measured, collected, shown),
        diagnosis=diagnosis(measured, bins_by_length(by_words, collected.bins)),
        training=history.curves(metrics),
        samples=history.samples(system.run),
    )


def _by_length(
    rows: Sequence[LengthRow], lengths: Integers, measured: Measured, collected: Collected, shown: Sequence[int]
) -> list[Row]:
    """The rows of a length curve, each with two typical sentences of those that are ``shown``."""
    found: list[Row] = []
    for row, each in zip(rows, bins_by_length(lengths, collected.bins).values(), strict=True):
        values: dict[str, Any] = asdict(row)
        del values["system"]
        found.append(values | {"examples": typical(each.members.tolist(), measured.bleu, shown)})
    return found
