"""One browser and one page for all tests of the report's page."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nmt.pages.report.rendering import render
from nmt.pages.web.exporting import exported
from nmt.runs.loading import load_run
from tests.browser import Page, opened
from tests.report_page.made_up import LUONG, VECTOR
from tests.report_page.shown import REPORT
from tests.small_run import config, train


@pytest.fixture(scope="package")
def browser() -> Iterator[Page]:
    with opened() as page:
        yield page


@pytest.fixture(scope="package")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(render(REPORT), encoding="utf-8")
    return file


@pytest.fixture(scope="package")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs that have learned their task, by the name of the system of the made-up report that they stand for."""
    folder = tmp_path_factory.mktemp("live")
    made = {}
    for name, attention in ((LUONG, "bahdanau"), (VECTOR, "none")):
        quick = {"batch_tokens": 400, "optimizer": {"learning_rate": 5e-3}, "validation": {"every": 120}}
        options = config(folder, attention, output=attention, updates=120, **quick)
        data = options.data.model_copy(update={"reverse_source": attention == "none"})
        train(options.model_copy(update={"data": data}))
        made[name] = folder / attention
    return made


@pytest.fixture(scope="package")
def live(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a report in which these runs translate; the systems without attention come last."""
    file = tmp_path_factory.mktemp("report") / "live.html"
    engines = {name: exported(load_run(run, torch.device("cpu"))) for name, run in runs.items()}
    report = replace(REPORT, systems=REPORT.systems[::-1], engines={**REPORT.engines, **engines})
    file.write_text(render(report), encoding="utf-8")
    return file


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    browser.size(1280)
    browser.console()
    yield browser
    assert browser.console() == []
