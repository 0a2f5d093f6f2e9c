"""Configurations that are right: defaults, overrides, writing. Files that are none; YAML 1.2; any bytes."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nmt.config import dump_config, load_config, schema
from nmt.config.loading import LARGEST_YAML, format_yaml, parse_yaml
from nmt.config.problems import keys_by_name
from nmt.errors import ConfigError
from tests.config.configurations import MINIMAL, load, problems


def test_overrides_replace_values_and_sections_in_their_order(tmp_path: Path) -> None:
    changes = [
        "training.optimizer={type: adam, learning_rate: 1e-4}",
        "training.optimizer.learning_rate=2e-3",
        "model.attention={type: none}",
        "data.test.jsonl=test.jsonl",
        "decoding.length_penalty = 0",
        "evaluation.bins=[5, 10]",
        "output=runs/a=b",
    ]
    config = load(tmp_path, MINIMAL, *changes)
    assert config.training.optimizer.learning_rate == 0.002
    assert config.model.attention == schema.NoAttention(type="none")
    assert config.data.test == schema.JsonlCorpus(jsonl="test.jsonl")
    assert config.decoding.length_penalty == 0
    assert config.evaluation.bins == (5, 10)
    assert config.output == "runs/a=b"


def test_an_override_leaves_other_uses_of_an_alias(tmp_path: Path) -> None:
    text = MINIMAL.replace("model:", "model:\n  encoder: &recurrent {hidden: 8, layers: 2}\n  decoder: *recurrent")
    model = load(tmp_path, text, "model.decoder.layers=1").model.model_dump()
    assert (model["encoder"]["layers"], model["decoder"]["layers"]) == (2, 1)


def test_a_section_needs_no_more_than_what_differs(tmp_path: Path) -> None:
    """A type alone keeps keys that the new variant knows; a word is a type with its defaults; no type is the usual."""
    model = load(tmp_path, MINIMAL, "model.attention.type=luong", "model.attention.score.type=concat").model
    assert model.attention == schema.LuongAttention(type="luong", score=schema.AdditiveScore(type="concat", hidden=64))
    words = ("model.attention=luong", "model.attention.score=cosine", "training.optimizer=sgd")
    config = load(tmp_path, MINIMAL, *words, "training.schedule.warmup=7", "model.initialization={}")
    assert config.model.attention == schema.LuongAttention(type="luong", score=schema.CosineScore(type="cosine"))
    assert config.model.initialization == schema.XavierInitialization()
    assert config.training.optimizer == schema.Sgd(type="sgd")
    assert config.training.schedule == schema.ConstantSchedule(warmup=7)


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


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, reason in (tmp_path / "no.yaml", "No such file or directory"), (tmp_path, "Is a directory"):
        with pytest.raises(ConfigError) as caught:
            load_config(path)
        assert str(caught.value) == f"{path}: cannot be read: {reason}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "found nothing; must have the sections data, tokenizer, model, training"),
        ("- a\n", "found a list of 1"),
        ("systems: {a: {}}\n", "describes an experiment; use nmt-experiment --config"),
        (b"seed: 1\noutput: \xff\n", "line 2: not UTF-8"),
        ("seed: 1\na\0b: 1\n", "line 2: the character '\\x00'"),
        ("a: b: c\n", "line 1, column 5: not YAML: mapping values are not allowed here"),
        ("seed: 1\ndata: 2\nseed: 3\n", "line 3, column 1: key 'seed' is repeated"),
        (
            "a:\n\tb: 1\n",
            "line 2, column 1: not YAML: found character '\\t' that cannot start any token; indent with spaces",
        ),
        ("seed: 1\n5: 2\n", "line 2, column 1: a key that is not text"),
        ("a: !!python/object/apply:os.system [ls]\n", "line 1, column 4: could not determine a constructor"),
        ("#" * (LARGEST_YAML + 1), f"larger than {LARGEST_YAML} bytes"),
        (f"seed: {'9' * 5000}\n", "a value cannot be read"),
        ("--- {}\n--- {}\n", "line 2, column 1: not YAML: but found another document"),
    ],
)
def test_text_that_is_no_configuration(tmp_path: Path, text: str | bytes, problem: str) -> None:
    [found] = problems(tmp_path, text)
    assert found.startswith(f"run.yaml: {problem}")


# --- YAML 1.2 ---------------------------------------------------------------------------------------------------------


def test_plain_scalars() -> None:
    numbers = {"1e-3": 0.001, "-.5": -0.5, "010": 10, "0o17": 15, "0x1F": 31, ".inf": math.inf}
    texts = {text: text for text in ("no", "1_000", "2024-01-01", "<<")}
    for text, value in {**numbers, "~": None, "": None, "TRUE": True, **texts}.items():
        parsed = parse_yaml(text, "")
        assert (type(parsed), parsed) == (type(value), value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=10,
)


@given(VALUES)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert repr(parse_yaml(format_yaml(value), "")) == repr(value)


KEYS = sorted({key for keys in keys_by_name().values() for key in keys})


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(changes=[("data.train.mix", {"": None})])
@given(changes=st.lists(st.tuples(st.sampled_from(KEYS), VALUES | st.sampled_from(["none", "luong", "adam", "word"]))))
def test_any_values_are_a_configuration_or_a_config_error(tmp_path: Path, changes: list[tuple[str, Any]]) -> None:
    data = copy.deepcopy(yaml.safe_load(MINIMAL))
    for key, value in changes:
        *parents, name = key.split(".")
        section = data
        for parent in parents:
            if not isinstance(section.get(parent), dict):
                section[parent] = {}
            section = section[parent]
        section[name] = value
    try:
        config = load(tmp_path, format_yaml(data))
    except ConfigError as error:
        assert error.problems and all(problem.isprintable() for problem in error.problems)
    else:
        assert load(tmp_path, dump_config(config)) == config
