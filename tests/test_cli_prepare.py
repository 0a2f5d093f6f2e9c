"""``nmt-prepare`` from the command line to its table."""

import json
from collections.abc import Callable
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


def test_the_report_is_printed_and_written(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = config.parent / "report.json"
    assert main(["--config", str(config), "--json", str(report)]) == 0
    splits = json.loads(report.read_text())["splits"]
    assert (splits["train"]["read"], splits["train"]["kept"], splits["train"]["dropped"]["empty"]) == (3, 2, 1)
    output = capsys.readouterr()
    lines = [line.split() for line in output.out.splitlines()]
    assert ["pairs", "read", "3", "20", "20"] in lines
    assert ["dropped:", "empty", "1", "0", "0"] in lines
    assert "encoding train" in output.err


def test_a_report_that_must_not_or_cannot_be_written_is_refused(config: Path, refused: Callable[..., str]) -> None:
    source, below_nothing = config.parent / "train.low", config.parent / "no" / "report.json"
    before = source.read_bytes()
    for path, problem in {
        source: f"--json {source}: is the same file as data.train.source; choose another",
        config: f"--json {config}: is the same file as --config; choose another",
        below_nothing: f"{below_nothing}: cannot be written",
    }.items():
        assert problem in refused(main, "--config", config, "--json", path)
    assert source.read_bytes() == before
