"""``nmt-prepare`` from the command line to its table."""

import json
from pathlib import Path

import pytest

from nmt.cli.prepare import main
from nmt.config import load_config

CONFIG = """\
data:
  source_language: en
  target_language: fr
  train: {{source: {folder}/train.en, target: {folder}/train.fr}}
  validation: {{source: {folder}/train.en, target: {folder}/train.fr}}
  cache: {folder}/cache
tokenizer: {{type: character, vocabulary: 30}}
model: {{attention: {{type: none}}}}
training: {{updates: 1}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "train.en").write_text("a cat\n\na dog\n")
    (tmp_path / "train.fr").write_text("un chat\nvide\nun chien\n")
    file = tmp_path / "run.yaml"
    file.write_text(CONFIG.format(folder=tmp_path))
    return file


def test_the_report_is_printed_and_written(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = config.parent / "report.json"
    assert main(["--config", str(config), "--json", str(report)]) == 0
    splits = json.loads(report.read_text())["splits"]
    assert (splits["train"]["read"], splits["train"]["kept"], splits["train"]["dropped"]["empty"]) == (3, 2, 1)
    output = capsys.readouterr()
    lines = [line.split() for line in output.out.splitlines()]
    assert ["pairs", "read", "3", "3"] in lines
    assert ["dropped:", "empty", "1", "1"] in lines
    assert "encoding train" in output.err


def test_a_report_that_must_not_or_cannot_be_written_is_refused(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(load_config(config).data.train.model_dump()["source"])
    before = Path(source).read_bytes()
    for path, key in ((source, "data.train.source"), (str(config), "--config")):
        assert main(["--config", str(config), "--json", path]) == 2
        assert f"--json {path}: is the same file as {key}; choose another" in capsys.readouterr().err
    assert Path(source).read_bytes() == before
    assert main(["--config", str(config), "--json", str(config.parent / "no" / "report.json")]) == 2
    assert f"{config.parent}/no/report.json: cannot be written" in capsys.readouterr().err
