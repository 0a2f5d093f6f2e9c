"""``nmt-prepare`` from the command line to its table."""

import json
from pathlib import Path

import pytest

from nmt.cli.prepare import main
from tests.small_run import options


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "run.yaml"
    file.write_text(json.dumps(options(tmp_path)))
    for side, text in (("low", "a cat\n\na dog\n"), ("up", "un chat\nvide\nun chien\n")):
        (tmp_path / f"train.{side}").write_text(text)
    return file


def test_the_report_is_printed_and_kept(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--config", str(config)]) == 0
    [report] = (config.parent / "cache").glob("corpus-*/report.json")
    splits = json.loads(report.read_text())["splits"]
    assert (splits["train"]["read"], splits["train"]["kept"], splits["train"]["dropped"]["empty"]) == (3, 2, 1)
    output = capsys.readouterr()
    lines = [line.split() for line in output.out.splitlines()]
    assert ["pairs", "read", "3", "20", "20"] in lines
    assert ["dropped:", "empty", "1", "0", "0"] in lines
    assert "encoding train" in output.err


def test_all_files_that_are_missing_are_named_at_once(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = [config.parent / name for name in ("train.up", "validation.low", "validation.up")]
    for path in missing:
        path.unlink()
    assert main(["--config", str(config)]) == 2
    found = capsys.readouterr().err
    assert [f"data.{path.stem}: {path}: no such file" in found for path in missing] == [True] * 3
