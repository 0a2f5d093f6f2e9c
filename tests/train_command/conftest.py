"""A corpus with a finished run, and ``nmt-train`` on it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt.cli.train import main
from tests.small_run import options

Train = Callable[..., tuple[int, str]]


def write_config(folder: Path, values: dict[str, Any]) -> Path:
    """As a file; JSON is YAML."""
    path = folder / "config.yaml"
    path.write_text(json.dumps(values))
    return path


def refused(result: tuple[int, str]) -> list[str]:
    """The lines of an error."""
    code, err = result
    assert code == 2 and "Traceback" not in err
    return [line.removeprefix("nmt-train: error: ") for line in err.splitlines()]


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Path:
    """The folder of one corpus, its cache, and a finished run."""
    write_config(folder, options(folder, updates=2, log_every=2))
    assert main(["--config", str(folder / "config.yaml")]) == 0
    return folder


@pytest.fixture
def train(corpus: Path, capsys: pytest.CaptureFixture[str]) -> Train:
    """Run the command on the corpus: exit code and standard error; there must be no standard output."""

    def call(*arguments: str | Path, config: Path = corpus / "config.yaml") -> tuple[int, str]:
        code = main(["--config", str(config), *map(str, arguments)])
        out, err = capsys.readouterr()
        assert out == ""
        return code, err

    return call


@pytest.fixture
def run(corpus: Path, tmp_path: Path) -> Path:
    """A finished run that a test may change."""
    return shutil.copytree(corpus / "run", tmp_path / "run")
