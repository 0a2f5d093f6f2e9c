"""Reasons by length, error rates of alignment."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nmt.cli import length_curve
from nmt.evaluation.diagnosis import MEASURES
from nmt.evaluation.figures.diagnosis import FIGURES, draw_diagnosis
from tests.figures import ABOUT, DECADES, boxes, inside, on_the_page, reasons
from tests.small_run import write_corpus
from tests.small_translator import ATTENTIONS, save_run


def test_no_marker_is_clipped_and_the_unit_is_named() -> None:
    one, values = reasons("a", DECADES), np.tile([[0.0], [1.0]], (4, len(MEASURES)))
    for name, drawn in (("recall", values), ("attention", 0.25 + 0.02 * values), ("failures", 0 * values)):
        diagnosis = replace(one, means=drawn, lows=drawn, highs=drawn)
        figure = draw_diagnosis([diagnosis], name, about=ABOUT, unit="characters")
        inside(figure)
    assert "The same four characters 3 times" in [text for text, _ in boxes(figure)]


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("bins", [DECADES, DECADES[:1]], ids=["decades", "one bin"])
def test_the_reasons_are_drawn_where_they_belong(name: str, bins: Sequence[tuple[int, int]]) -> None:
    several = [reasons("RNNencdec-50", bins, attention=False), reasons("RNNsearch-50", bins)]
    figure = draw_diagnosis(several, name, about=ABOUT, unit="words")
    _, measures = FIGURES[name]
    panels, bars = figure.axes[: len(measures)], figure.axes[len(measures) :]
    assert [axes.get_title() for axes in panels] == [heading.format(unit="words") for heading in measures.values()]
    for axes, measure in zip(panels, measures, strict=True):
        drawn = several if name != "attention" else several[1:]
        lines = [line.get_ydata() for line in axes.get_lines()]
        np.testing.assert_equal(lines, [each.means[:, MEASURES.index(measure)] for each in drawn])
        assert len(axes.collections) == len(drawn) * (2 if len(bins) == 1 else 1), "a band, and alone an upright line"
    for axes in bars:
        assert [bar.get_height() for bar in axes.patches] == [40] * len(bins)  # type: ignore[attr-defined]
    on_the_page(figure)


def test_every_reason_has_its_figure_and_its_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_corpus(tmp_path)
    for name, attention in (("none", ATTENTIONS[2]), ("bahdanau", ATTENTIONS[0])):
        save_run(tmp_path / name, attention)
    texts = [f"--source={tmp_path}/test.low", f"--reference={tmp_path}/test.up"]
    command = [*texts, f"--output={tmp_path}/curve", "--why"]
    systems = [f"--system={name}={tmp_path}/{name}" for name in ("none", "bahdanau")]
    given = f"--hypotheses=none={tmp_path}/test.up"
    assert length_curve.main([*command, *systems, given, "--bins=2,3", "--beam-size=1", "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert "bahdanau: translating: " in err and "none: translating: " not in err
    assert "from diagonal" in out
    assert f"{tmp_path}/bahdanau: scoring the references by forced decoding" in err
    for name in ("recall", "probability", "attention", "failures"):
        assert (tmp_path / f"curve.why.{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (tmp_path / f"curve.why.{name}.svg").read_bytes()
    rows = list(csv.DictReader((tmp_path / "curve.why.csv").read_text("utf-8").splitlines()))
    assert list(rows[0]) == ["system", "low", "high", "n", *MEASURES]
    bins = [("1", "2"), ("3", "3"), ("4", "4")]
    expected = [(name, *bin_) for name in ("none", "bahdanau") for bin_ in bins]
    assert [(row["system"], row["low"], row["high"]) for row in rows] == expected
    assert all((row["entropy"] == "") == (row["system"] == "none") for row in rows)
    assert {row["stops_early"] for row in rows[:3]} == {"0.0"}, "of the translations that are there"
    written = json.loads((tmp_path / "curve.why.json").read_text("utf-8"))
    low, high = written["systems"]["bahdanau"][1]["log_probability_late_interval"]
    assert low <= float(rows[4]["log_probability_late"]) <= high
