"""A small configuration, loaded with changes, and what is said of it."""

from pathlib import Path

import pytest

from nmt.config import Config, load_config
from nmt.errors import ConfigError

MINIMAL = """\
data:
  source_language: en
  target_language: fr
  train: {source: train.en, target: train.fr}
  validation: {source: validation.en, target: validation.fr}
tokenizer: {type: bpe, vocabulary: 1000}
model:
  attention: {type: bahdanau, score: {hidden: 64}}
training: {updates: 100}
"""


def load(folder: Path, text: str | bytes = MINIMAL, *overrides: str) -> Config:
    file = folder / "run.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_config(file, overrides)


def problems(folder: Path, text: str | bytes = MINIMAL, *overrides: str) -> list[str]:
    """What is said of a configuration, the folder left out."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text, *overrides)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return [problem.replace(f"{folder}/", "") for problem in caught.value.problems]
