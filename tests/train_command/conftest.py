"""A corpus with a finished run, and the command on it."""

import shutil
from pathlib import Path

import pytest

from nmt.cli.train import main
from tests.small_run import options
from tests.train_command.commands import Train, write_config


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
