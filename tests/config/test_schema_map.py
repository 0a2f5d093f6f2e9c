"""Every key of the schema is explained, and keys of other toolkits lead to ours."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nmt.config import Config
from nmt.config.foreign_keys import COUNTERPARTS
from nmt.config.schema import Section
from nmt.config.schema_map import annotation_of, expected, find, keys_by_name, variants_of
from tests.config.configurations import MINIMAL, problems


def test_every_key_of_the_schema_can_be_explained() -> None:
    assert {"model.attention.hidden", "data.train.hub", "training.optimizer.betas", "seed"} <= keys()
    assert find(("training", "optimizer", "adam", "betas", 1)).key == "training.optimizer.betas[1]"
    assert find(("model", "attention", "none")).key == "model.attention"
    sections: list[type[Section]] = [Config]
    for section in sections:
        annotations = [annotation_of(section, name) for name in section.model_fields]
        assert all(map(expected, annotations))
        sections.extend(variant for annotation in annotations for variant in variants_of(annotation).values())
    ours = {section for section in descendants(Section) if section.__module__.startswith("nmt.config.schema.")}
    assert {section for section in ours if not section.__subclasses__()} <= set(sections) <= ours


def test_foreign_keys_lead_to_keys_that_exist() -> None:
    ours = {key for each in COUNTERPARTS.values() for key in re.split(" and | or ", each.partition(" (")[0])}
    assert ours <= keys()
    elsewhere = {"alpha"}  # tokenizer.sampling.alpha; in other sections, the alpha of length penalties
    assert COUNTERPARTS.keys() & keys_by_name().keys() == elsewhere, "these are keys of this toolkit"


@pytest.mark.parametrize("section", ["", "model.encoder", "training.optimizer"])
@pytest.mark.parametrize(
    ("name", "keys"), [("lr", "training.optimizer.learning_rate"), ("batch-size", "training.batch_tokens")]
)
def test_a_key_of_another_toolkit_is_answered_with_ours(tmp_path: Path, section: str, name: str, keys: str) -> None:
    key = f"{section}.{name}".lstrip(".")
    [said] = problems(tmp_path, MINIMAL, f"{key}=1")
    assert f"{said} ".startswith(f"--set {key}=1: {key}: unknown key; use {keys} ")


def descendants(section: type[Section]) -> Iterator[type[Section]]:
    for child in section.__subclasses__():
        yield child
        yield from descendants(child)


def test_no_name_holds_nul(tmp_path: Path) -> None:
    [line] = problems(tmp_path, MINIMAL, 'output="a\\0b"')
    assert "NUL" in line


def keys() -> set[str]:
    """The keys of the schema, whole."""
    return {key for each in keys_by_name().values() for key in each}
