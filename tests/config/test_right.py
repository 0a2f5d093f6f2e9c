"""Configurations that are right: defaults, overrides, writing."""

from pathlib import Path
from typing import Any

import pytest

from nmt.config import dump_config
from nmt.config.schema import (
    AdditiveScore,
    ConstantSchedule,
    CosineScore,
    JsonlCorpus,
    LuongAttention,
    NoAttention,
    Sgd,
    XavierInitialization,
)
from nmt.config.yaml12 import parse_yaml
from tests.config.configurations import MINIMAL, load


def test_overrides_replace_values_and_sections_in_their_order(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        MINIMAL,
        "training.optimizer={type: adam, learning_rate: 1e-4}",
        "training.optimizer.learning_rate=2e-3",
        "model.attention={type: none}",
        "data.test.jsonl=test.jsonl",
        "decoding.length_penalty = 0",
        "evaluation.bins=[5, 10]",
        "output=runs/a=b",
    )
    assert config.training.optimizer.learning_rate == 0.002
    assert config.model.attention == NoAttention(type="none")
    assert config.data.test == JsonlCorpus(jsonl="test.jsonl")
    assert config.decoding.length_penalty == 0
    assert config.evaluation.bins == (5, 10)
    assert config.output == "runs/a=b"


def test_a_section_needs_no_more_than_what_differs(tmp_path: Path) -> None:
    """A type alone keeps the keys that the new variant knows; a word is a type with its defaults; no type is the usual
    one."""
    model = load(tmp_path, MINIMAL, "model.attention.type=luong", "model.attention.score.type=concat").model
    assert model.attention == LuongAttention(type="luong", score=AdditiveScore(type="concat", hidden=64))
    words = ("model.attention=luong", "model.attention.score=cosine", "training.optimizer=sgd")
    config = load(tmp_path, MINIMAL, *words, "training.schedule.warmup=7", "model.initialization={}")
    assert config.model.attention == LuongAttention(type="luong", score=CosineScore(type="cosine"))
    assert config.model.initialization == XavierInitialization()
    assert config.training.optimizer == Sgd(type="sgd")
    assert config.training.schedule == ConstantSchedule(warmup=7)


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("tokenizer={type: given, source: a.model, target: a.model}", "model.embeddings={tie: all, size: 32}"),
        ("training.optimizer={type: adamw, betas: [0.8, 0.9], epsilon: 1e-12}", "training.clip=null"),
        ("training.schedule={type: plateau}", "model.initialization={type: uniform}", "data.filter.max_ratio=1.5"),
        ("data.test={hub: owner/name, split: test}", "data.train={tsv: train.tsv.gz}", "seed=123456789012345678"),
        ("data.source_language='1e-3'", "data.target_language='no'", "output='a\\u2028\\x85\\r\\n: #\"'"),
    ],
)
def test_a_written_configuration_loads_as_an_equal_one(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    config = load(tmp_path, MINIMAL, *overrides)
    written = dump_config(config)
    assert load(tmp_path, written) == config
    assert dump_config(load(tmp_path, written)) == written


def test_a_written_configuration_has_every_default_in_it(tmp_path: Path) -> None:
    written = parse_yaml(dump_config(load(tmp_path)), "")

    def complete(value: Any, section: Any) -> None:
        assert list(value) == list(type(section).model_fields)
        for name, part in section:
            if hasattr(part, "model_fields_set"):
                complete(value[name], part)

    complete(written, load(tmp_path))
    assert written["decoding"]["max_length_factor"] == 2.0
