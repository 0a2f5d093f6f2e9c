"""``nmt-length-curve --why`` on tiny trained runs."""

import csv
import json
from pathlib import Path

import pytest

from nmt.cli import length_curve
from nmt.evaluation.diagnosis import MEASURES
from tests.small_run import config, train


def test_every_reason_has_its_figure_and_the_numbers_are_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for attention in ("none", "bahdanau"):
        train(config(tmp_path, attention, output=attention))
    texts = [f"--source={tmp_path}/test.low", f"--reference={tmp_path}/test.up"]
    command = [*texts, f"--output={tmp_path}/curve", "--why"]
    systems = [f"--system={name}={tmp_path}/{name}" for name in ("none", "bahdanau")]
    assert length_curve.main([*command, *systems, "--bins=2,3", "--beam-size=1"]) == 0
    out, err = capsys.readouterr()
    assert "from diagonal" in out
    assert f"{tmp_path}/bahdanau: scoring the references by forced decoding" in err
    for name in ("recall", "probability", "attention", "failures"):
        assert (tmp_path / f"curve.why.{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (tmp_path / f"curve.why.{name}.svg").read_bytes()
    rows = list(csv.DictReader((tmp_path / "curve.why.csv").read_text("utf-8").splitlines()))
    assert list(rows[0]) == ["system", "low", "high", "n", *MEASURES]
    assert [(row["system"], row["low"], row["high"]) for row in rows] == [
        (name, *bin_) for name in ("none", "bahdanau") for bin_ in (("1", "2"), ("3", "3"), ("4", "4"))
    ]
    assert all((row["entropy"] == "") == (row["system"] == "none") for row in rows)
    written = json.loads((tmp_path / "curve.why.json").read_text("utf-8"))
    low, high = written["systems"]["bahdanau"][1]["log_probability_late_interval"]
    assert low <= float(rows[4]["log_probability_late"]) <= high

    given = [f"--system=a={tmp_path}/none", f"--hypotheses=a={tmp_path}/test.up"]
    assert length_curve.main([*command, *given]) == 0
    assert "translating: " not in capsys.readouterr().err, "translations that are there are not made again"
    rows = list(csv.DictReader((tmp_path / "curve.why.csv").read_text("utf-8").splitlines()))
    assert {row["stops_early"] for row in rows} == {"0.0"}
    assert length_curve.main([*command, *given, "--beam-size=2"]) == 2
    assert "beam_size: has no effect, because no run translates" in capsys.readouterr().err
