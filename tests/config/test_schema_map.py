"""Every key of the schema is explained, and keys of other toolkits lead to ours."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nmt.config import Config, dump_config, load_run_config
from nmt.config.foreign_keys import COUNTERPARTS
from nmt.config.schema import (
    Section,
)
from nmt.config.schema_map import annotation_of, expected, find, keys_by_name, variants_of
from nmt.config.yaml12 import format_yaml
from nmt.errors import ConfigError
from tests.config.configurations import MINIMAL, load, problems


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
    assert {key for each in COUNTERPARTS.values() for key in each.partition(" (")[0].split(" and ")} <= keys()
    elsewhere = {"alpha"}  # tokenizer.sampling.alpha; in other sections, the alpha of length penalties
    assert COUNTERPARTS.keys() & keys_by_name().keys() == elsewhere, "these are keys of this toolkit"


FOREIGN = {
    "lr": "training.optimizer.learning_rate",
    "batch_size": "training.batch_tokens",
    "num_epochs": "training.epochs",
    "hidden_size": "model.encoder.hidden and model.decoder.hidden",
    "num_layers": "model.encoder.layers and model.decoder.layers",
    "bidirectional": "model.encoder.directions",
    "num_heads": "model.encoder.heads and model.decoder.heads",
    "coverage_attn": "model.attention.coverage",
    "beam": "decoding.beam_size",
    "optimiser": "training.optimizer",
    "initialisation": "model.initialization",
    "normalisation": "tokenizer.normalization",
}


@pytest.mark.parametrize(
    "section", ["", "data", "tokenizer", "model", "model.encoder", "training.optimizer", "decoding"]
)
@pytest.mark.parametrize(("name", "keys"), FOREIGN.items())
def test_a_key_of_another_toolkit_is_answered_with_ours(tmp_path: Path, section: str, name: str, keys: str) -> None:
    key = f"{section}.{name}".lstrip(".")
    [said] = problems(tmp_path, MINIMAL, f"{key}=1")
    assert f"{said} ".startswith(f"--set {key}=1: {key}: unknown key; use {keys} ")
    data: Any = yaml.safe_load(MINIMAL)
    place = data
    for part in filter(None, section.split(".")):
        place = place.setdefault(part, {})
    place[name] = {"type": "adam"}
    [said] = problems(tmp_path, format_yaml(data))
    assert f"{said} ".startswith(f"run.yaml: {key}: unknown key; use {keys} ")


def test_a_run_of_an_earlier_version_says_which_lines_to_rename(tmp_path: Path) -> None:
    text = dump_config(load(tmp_path))
    assert load_run_config(written(tmp_path, text)) == load(tmp_path)
    old = text.replace("optimizer:", "optimiser:").replace("initialization:", "initialisation:")
    with pytest.raises(ConfigError) as caught:
        load_run_config(written(tmp_path, old), ["decoding.beam_size=1"])
    file, lines = tmp_path / "config.yaml", [line.strip() for line in old.splitlines()]
    renamed = "an earlier version made this run; rename the key"
    of_initialization = "(a section: {type: uniform, range: 0.1})"
    of_optimizer = "(a section: {type: adam, learning_rate: 1e-3})"
    assert caught.value.problems == (
        f"{file}: model.initialisation: unknown key; use model.initialization {of_initialization}",
        f"{file}: training.optimiser: unknown key; use training.optimizer {of_optimizer}",
        f"{file}: line {lines.index('initialisation:') + 1}: {renamed} 'initialisation' to 'initialization'",
        f"{file}: line {lines.index('optimiser:') + 1}: {renamed} 'optimiser' to 'optimizer'",
    )


def written(folder: Path, text: str) -> Path:
    """A run directory with this configuration."""
    (folder / "config.yaml").write_text(text, "utf-8")
    return folder


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
