"""The probability that a translation is good: fitted, written into a run, and put before translations."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nmt.cli.evaluate import main as evaluate
from nmt.cli.translate import main as translate
from nmt.errors import DataError
from nmt.evaluation.confidence import Calibration, calibration_error, fit, reliability
from nmt.translation.translator import Translator
from tests.small_translator import LINES, save_run


def test_the_probabilities_that_made_the_labels_are_found() -> None:
    generator = np.random.default_rng(1)
    per_piece, true = -generator.gamma(2.0, 0.5, 20_000), Calibration(4.0, 3.0)
    found = fit(per_piece.tolist(), generator.random(20_000) < true.probability(per_piece))
    assert (found.slope, found.intercept) == pytest.approx(true, rel=0.05)
    assert found.probability(-np.inf) == 0
    parted = fit([-2.0] * 10 + [-1.0] * 30, np.arange(40) >= 10)  # by Platt's targets, 1/12 and 31/32
    assert parted.probability([-2.0, -1.0]) == pytest.approx([1 / 12, 31 / 32])
    with pytest.raises(DataError):
        fit([-1.0] * 10 + [-2.0] * 30, np.arange(40) >= 10)


def test_bins_by_hand() -> None:
    bins = reliability(np.array([0.11, 0.19, 0.95, 1.0]), np.array([False, True, True, True]))
    assert bins == pytest.approx(np.array([[2, 0.15, 0.5], [2, 0.975, 1.0]]))
    assert calibration_error(bins) == pytest.approx((2 * 0.35 + 2 * 0.025) / 4)


def test_a_run_is_calibrated(tmp_path: Path, command: Callable[..., tuple[int, str, str]]) -> None:
    run, source, reference = save_run(tmp_path / "run"), tmp_path / "source", tmp_path / "reference"
    source.write_text("".join(f"{line}\n" for line in LINES))
    options = ("--model", run, "--device", "cpu")
    text = (*options, "--source", source, "--reference", reference, "--calibrate", "--json", tmp_path / "scores")
    code, _, err = command(translate, *options, "--confidence", "--input", source)
    assert code == 2 and f"{run}/confidence.json: no calibration of the current weights; make it" in err
    found = Translator.load(run, "cpu").translate(LINES)
    reference.write_text("".join(f"{each.text}\n" for each in found))
    code, out, err = command(evaluate, *text)
    assert out.startswith("BLEU ") and "bleu" in json.loads((tmp_path / "scores").read_text())
    assert code == 2 and "40 of 40 translations are good, with a chrF of at least 50; a calibration needs 10" in err
    per_piece = [each.hypotheses[0].log_probability / len(each.pieces) for each in found]
    better = per_piece > np.median(per_piece)
    reference.write_text("".join(f"{each.text if good else '-'}\n" for each, good in zip(found, better, strict=True)))
    code, out, err = command(evaluate, *text)
    assert code == 0 and out.startswith("BLEU ") and f"written: {run}/confidence.json, {run}/confidence.png" in err
    assert (run / "confidence.png").read_bytes()[:4] == b"\x89PNG"
    content = json.loads((run / "confidence.json").read_text())
    assert sum(each["translations"] for each in content["bins"]) == 40
    calibration = Calibration(content["slope"], content["intercept"])
    _, out, _ = command(translate, *options, "--confidence", "--input", source)
    rows = [line.split("\t") for line in out.splitlines()]
    assert [text for _, text in rows] == [each.text for each in found]
    assert [float(each) for each, _ in rows] == pytest.approx(calibration.probability(per_piece), abs=1e-4)
    both = command(translate, *options, "--confidence", "--scores", "--input", source)[1].splitlines()
    assert [line.split("\t")[1:] for line in both] == rows
    source.write_text("\n\u200b\n")
    assert command(translate, *options, "--confidence", "--input", source)[1] == "0.0000\t\n" * 2
    code, _, err = command(translate, *options, "--confidence", "--beam-size", 7)
    assert code == 2 and "was made with beam_size 2, not 7; use 2, or calibrate again" in err
    _, _, err = command(translate, *options, "--confidence", "--precision", "bf16", "--input", source)
    assert "was made with precision fp32, not bf16" in err
    weights = run / "checkpoints/best/model.safetensors"
    weights.write_bytes(weights.read_bytes() + b" ")
    assert "no calibration of the current weights" in command(translate, *options, "--confidence")[2]
