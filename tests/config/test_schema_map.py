"""Every key of the schema is explained, and frequent keys of other toolkits lead to ours."""

from collections.abc import Iterator
from pathlib import Path

from nmt.config import Config
from nmt.config.problems import ELSEWHERE
from nmt.config.schema import Section
from nmt.config.schema_map import annotation_of, expected, find, keys_by_name, variants_of
from tests.config.configurations import MINIMAL, problems


def test_every_key_of_the_schema_can_be_explained() -> None:
    assert {"model.attention.score.hidden", "data.train.hub", "training.optimizer.betas", "seed"} <= keys()
    assert find(("training", "optimizer", "adam", "betas", 1)).key == "training.optimizer.betas[1]"
    assert find(("model", "attention", "none")).key == "model.attention"
    sections: list[type[Section]] = [Config]
    for section in sections:
        annotations = [annotation_of(section, name) for name in section.model_fields]
        assert all(map(expected, annotations))
        sections.extend(variant for annotation in annotations for variant in variants_of(annotation).values())
    ours = {section for section in descendants(Section) if section.__module__.startswith("nmt.config.schema.")}
    assert {section for section in ours if not section.__subclasses__()} <= set(sections) <= ours


def test_keys_of_other_toolkits_lead_to_keys_that_exist(tmp_path: Path) -> None:
    assert {key for each in ELSEWHERE.values() for key in each.split(" and ")} <= keys()
    assert not ELSEWHERE.keys() & keys_by_name().keys(), "these are keys of this toolkit"
    [said] = problems(tmp_path, MINIMAL, "training.optimizer.lr=1")
    assert said.endswith("training.optimizer.lr: unknown key; use training.optimizer.learning_rate")


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
