"""Systems of the tests' table go the whole way: trained, stopped, resumed, asked for translations."""

import json
from pathlib import Path
from typing import Any

import pytest

from nmt.cli.train import main as nmt_train
from nmt.cli.translate import main as nmt_translate
from nmt.config import Config
from tests.models import AFTER, NO_DROPOUT, model_config
from tests.small_run import ATTENTIONS, config, options, train_whole_and_in_parts, translate


def of_variant(folder: Path, variant: str) -> Config:
    """A run of three updates with dropout."""
    common: dict[str, Any] = {"log_every": 4, "validation": {"every": 3, "metric": "loss", "sentences": 2}}
    made = config(folder, updates=3, **common)
    return made.model_copy(update={"model": model_config(variant, dropout=dict.fromkeys(NO_DROPOUT, 0.1))})


WHOLE = [
    "luong general",
    "heads after, local",
    "coverage",
    "deep lstm, normalized",
    "hard",
    "hard by gumbel",
    "hard by reinforce",  # its moving average of the rewards is no parameter
    "transformer relative",
]
"""One of each kind of memory, state and objective; test_epochs.py has Bahdanau's."""


@pytest.mark.parametrize("variant", WHOLE)
def test_stopped_and_resumed_is_never_stopped(folder: Path, tmp_path: Path, variant: str) -> None:
    train_whole_and_in_parts(of_variant(folder, variant), tmp_path, stop_after=2)


# --- learning ---------------------------------------------------------------------------------------------------------

WIDE: dict[str, Any] = {"encoder": {"hidden": 32}, "decoder": {"hidden": 48, "readout": 32}}
LAYERS: dict[str, Any] = {"layers": 2, "residual": True, "layer_norm": True}
LEARNERS: dict[str, tuple[float, dict[str, Any]]] = {
    **{attention: (share, {}) for attention, share in zip(ATTENTIONS, (0.7, 0.95, 0.95, 0.8), strict=True)},
    "deep": (0.8, {part: WIDE[part] | LAYERS for part in WIDE}),
    **{
        estimator: (share, WIDE | {"attention": AFTER | {"hard": {"type": estimator}}})
        for estimator, share in (("marginal", 0.8), ("gumbel", 0.6), ("reinforce", 0.6))
    },
    "one vector": (
        0.5,
        {
            "encoder": {"type": "lstm", "hidden": 64, "layers": 2, "directions": "forward"},
            "decoder": {"type": "lstm", "hidden": 64, "layers": 2, "readout": 32},
            "attention": {"type": "none", "context": "initial_state"},
        },
    ),
}
"""Least share of the test set that is translated without a mistake; the network. Reversing the source turns the task
into copying, for one vector holds few words."""
TRAINING: dict[str, Any] = {
    "updates": 300,
    "batch_tokens": 200,
    "optimizer": {"type": "adam", "learning_rate": 8e-3},
    "schedule": {"type": "inverse_square_root", "warmup": 60},
    "validation": {"every": 100},
}
LONGER = {"updates": 600, "optimizer": {"type": "adam", "learning_rate": 3e-3}, "validation": {"metric": "loss"}}
"""For a Transformer."""


@pytest.mark.parametrize(
    "system", [each if each == "bahdanau" else pytest.param(each, marks=pytest.mark.slow) for each in LEARNERS]
)
def test_it_learns_to_reverse(tmp_path: Path, system: str) -> None:
    """From raw text to translations through the commands alone; the run can be moved."""
    least, model = LEARNERS[system]
    attention = system if system in ATTENTIONS else "bahdanau"
    values = options(tmp_path, attention, **TRAINING | (LONGER if system == "transformer" else {}))
    values["model"] |= model
    values["data"]["reverse_source"] = system == "one vector"
    (tmp_path / "config.yaml").write_text(json.dumps(values))
    assert nmt_train(["--config", str(tmp_path / "config.yaml")]) == 0
    found = (tmp_path / "run/test.hypotheses.txt").read_text("utf-8").splitlines()
    sources = (tmp_path / "test.low").read_text("utf-8").splitlines()
    assert sum(translate(line) == each for line, each in zip(sources, found, strict=True)) >= least * len(sources)
    moved, output = (tmp_path / "run").rename(tmp_path / "moved"), tmp_path / "output"
    files = ["--input", str(tmp_path / "test.low"), "--output", str(output)]
    assert nmt_translate(["--model", str(moved), *files, "--batch-tokens", "1"]) == 0
    assert output.read_text("utf-8").splitlines() == found
