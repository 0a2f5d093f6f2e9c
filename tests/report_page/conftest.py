"""One browser and one page for all tests of the report's page."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nmt.pages.report.rendering import render
from tests.browser import Page, opened
from tests.report_page.shown import REPORT


@pytest.fixture(scope="package")
def browser() -> Iterator[Page]:
    with opened() as page:
        yield page


@pytest.fixture(scope="package")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(render(REPORT), encoding="utf-8")
    return file


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    browser.size(1280)
    browser.console()
    yield browser
    assert browser.console() == []
