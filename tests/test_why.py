"""``nmt-length-curve --why`` on tiny trained runs."""

import csv
import json
from pathlib import Path

import pytest

from nmt.cli import length_curve
from nmt.evaluation.diagnosis import MEASURES
from tests.small_run import config, train


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diagnose")
    for attention in ("none", "bahdanau"):
        train(config(folder, attention, output=attention))
    return folder


def arguments(folder: Path, *more: str) -> list[str]:
    return [f"--source={folder}/test.low", f"--reference={folder}/test.up", f"--output={folder}/curve", "--why", *more]


def test_every_reason_has_its_figure_and_the_numbers_are_beside_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    systems = [f"--system={name}={folder}/{name}" for name in ("none", "bahdanau")]
    assert length_curve.main(arguments(folder, *systems, "--bins=2,3", "--beam-size=1")) == 0
    out, err = capsys.readouterr()
    assert "none" in out
    assert f"{folder}/bahdanau: scoring the references by forced decoding" in err
    for name in ("recall", "probability", "attention", "failures"):
        assert (folder / f"curve.why.{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (folder / f"curve.why.{name}.svg").read_bytes()
    with (folder / "curve.why.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["system", "low", "high", "n", *MEASURES]
    assert [(row["system"], row["low"], row["high"]) for row in rows] == [
        (name, *bin_) for name in ("none", "bahdanau") for bin_ in (("1", "2"), ("3", "3"), ("4", "4"))
    ]
    assert all((row["entropy"] == "") == (row["system"] == "none") for row in rows)
    written = json.loads((folder / "curve.why.json").read_text("utf-8"))
    low, high = written["systems"]["bahdanau"][1]["log_probability_late_interval"]
    assert low <= float(rows[4]["log_probability_late"]) <= high


def test_translations_that_are_there_are_not_made_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    references = folder / "test.up"
    given = [f"--system=a={folder}/none", f"--hypotheses=a={references}"]
    assert length_curve.main(arguments(folder, *given)) == 0
    assert "translating: " not in capsys.readouterr().err
    with (folder / "curve.why.csv").open(encoding="utf-8", newline="") as file:
        assert {row["stops_early"] for row in csv.DictReader(file)} == {"0.0"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--system=a={}/test.up"], "a: is a file of translations; only a run has a diagnosis"),
        (
            ["--system=a={}/none", "--hypotheses=a={}/test.up", "--beam-size=2"],
            "beam_size: has no effect, because no run translates",
        ),
    ],
)
def test_what_it_refuses(folder: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = [option.replace("{}", str(folder)) for option in options]
    assert length_curve.main(arguments(folder, *given)) == 2
    assert message.replace("{}", str(folder)) in capsys.readouterr().err
