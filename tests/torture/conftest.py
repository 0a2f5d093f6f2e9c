"""What the trials of the reliability tree share: how often each is made, the runs, and the figure of what passed."""

import json
import random
import shlex
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from machine import provenance
from tests.small_run import options
from tests.torture.training import Training


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", type=int, default=1, metavar="N", help="make each trial with random numbers N times")
    parser.addoption("--record", metavar="FILE", help="write how many trials passed to FILE, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("record", None)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Figure(Path(path)))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "generator" in metafunc.fixturenames:
        metafunc.parametrize("generator", range(metafunc.config.getoption("times", 1)), indirect=True)


class Figure:
    """Counts the trials of each test, and how many of them passed."""

    def __init__(self, path: Path) -> None:
        self.path, self.begun = path, time.monotonic()
        self.tried, self.passed = Counter[str](), Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("[")[0].rpartition("/")[2]
        if report.when == "call" or report.failed:
            self.tried[name] += 1
            self.passed[name] += report.passed

    def pytest_sessionfinish(self) -> None:
        figure = {
            **provenance(),
            "command": shlex.join(["pytest", *sys.argv[1:]]),
            "seconds": round(time.monotonic() - self.begun),
            "passed": {name: f"{self.passed[name]} of {tried}" for name, tried in sorted(self.tried.items())},
        }
        self.path.write_text(json.dumps(figure, indent=1) + "\n", "utf-8")


@pytest.fixture
def generator(request: pytest.FixtureRequest) -> random.Random:
    """The random numbers of a trial, the same at each call."""
    return random.Random(request.node.name)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a corpus, a configuration, and the run ``undisturbed``, which is about two seconds of training.

    Every update is saved, every fifth is validated.
    """
    folder = tmp_path_factory.mktemp("torture")
    training: dict[str, Any] = {"updates": 60, "average": 2, "save_every": 1, "log_every": 2}
    training["validation"] = {"every": 5}
    (folder / "config.yaml").write_text(json.dumps(options(folder, **training) | {"threads": 1}), "utf-8")
    code, err = Training(folder, folder / "undisturbed").call()
    assert code == 0, err
    return folder


@pytest.fixture
def training(corpus: Path, tmp_path: Path) -> Training:
    """A run that has not begun."""
    return Training(corpus, tmp_path / "run")
