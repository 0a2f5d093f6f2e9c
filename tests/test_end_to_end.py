"""From raw text to translations: each attention learns a small language, through the commands alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from nmt.cli.train import main as train
from nmt.cli.translate import main as translate
from tests.small_run import ATTENTIONS, options
from tests.small_run import translate as expected

LEARNED = {"none": 0.7, "bahdanau": 0.95, "luong": 0.95, "transformer": 0.8}
"""Least share of the test sentences that are translated without a mistake."""
LONGER: dict[str, dict[str, Any]] = {
    "transformer": {
        "updates": 600,
        "optimizer": {"type": "adam", "learning_rate": 3e-3},
        "validation": {"every": 150, "metric": "loss"},
    }
}
"""Where the options below are too few updates, or too large a learning rate."""
LUONG = {"type": "luong", "score": {"type": "concat", "hidden": 32}, "input_feeding": False}


def run_command(folder: Path, attention: str, **sections: Any) -> Path:
    """Train on the corpus in a folder; -> the run."""
    training: dict[str, Any] = {
        "updates": 300,
        "batch_tokens": 200,
        "optimizer": {"type": "adam", "learning_rate": 8e-3},
        "schedule": {"type": "inverse_square_root", "warmup": 60},
        "validation": {"every": 150},
    }
    values = options(folder, attention, **training | LONGER.get(attention, {}))
    config = folder / "config.yaml"
    config.write_text(json.dumps(values | sections))
    assert train(["--config", str(config)]) == 0
    return folder / "run"


def translations(run: Path, *arguments: str) -> list[str]:
    """Translations of the test set by nmt-translate."""
    output = run.parent / "output.txt"
    source = run.parent / "test.low"
    assert translate(["--model", str(run), "--input", str(source), "--output", str(output), *arguments]) == 0
    return output.read_text("utf-8").splitlines()


def accuracy(folder: Path, hypotheses: list[str]) -> float:
    """Share of the test set that is right."""
    lines = (folder / "test.low").read_text("utf-8").splitlines()
    return sum(expected(line) == hypothesis for line, hypothesis in zip(lines, hypotheses, strict=True)) / len(lines)


@pytest.mark.parametrize(
    "attention", [each if each == "bahdanau" else pytest.param(each, marks=pytest.mark.slow) for each in ATTENTIONS]
)
def test_it_learns(attention: str, tmp_path: Path) -> None:
    run = run_command(tmp_path, attention)
    found = translations(run)
    assert accuracy(tmp_path, found) >= LEARNED[attention]
    # training scored the same path, and the run needs nothing beside itself
    assert (run / "test.hypotheses.txt").read_text("utf-8").splitlines() == found
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "test.low").write_bytes((tmp_path / "test.low").read_bytes())
    moved = run.rename(tmp_path / "elsewhere" / "moved")
    assert translations(moved, "--batch-tokens", "1") == found
