"""The page of nmt-serve in a browser: it translates while somebody types, shows attention, and runs no other script."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("selenium")

from selenium.webdriver import ActionChains, Keys

from nmt.pages.serving.batches import Answer
from nmt.translation.results import TranslatedHypothesis, Translation
from tests.browser import opened
from tests.test_serving import Client, serving, until

pytestmark = pytest.mark.slow


def capitals(lines: list[str], asked: Any, check_stop: Any) -> Answer:
    """Each word in capitals, from the word itself alone."""
    found: Answer = []
    for line in lines:
        words = line.split()
        upper = [word.upper() for word in words]
        weights = np.eye(len(words), dtype=np.float32)
        best = TranslatedHypothesis(" ".join(upper), -1.0, -1.0, [f"▁{word}" for word in upper], weights)
        warning = "cut off at 1 piece" if line == "cut off" else None
        found.append((Translation(line, [f"▁{word}" for word in words], [best]), warning))
    return found


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving(capitals) as client:
        yield client


@pytest.fixture
def browser(client: Client) -> Iterator[Any]:
    with opened() as page:
        page.size(1000)
        page.driver.get(f"http://127.0.0.1:{client.port}/")
        yield page.driver
        assert [message for message in page.console() if "favicon" not in message] == []


def texts(browser: Any, selector: str) -> list[str]:
    """The texts of the elements, read at one moment: the page replaces them with each answer."""
    found = "return [...document.querySelectorAll(arguments[0])].map(each => each.innerText)"
    return [str(each) for each in browser.execute_script(found, selector)]


def test_what_is_typed_is_translated_and_its_attention_shown(browser: Any) -> None:
    source = browser.find_element("id", "source")
    source.send_keys("one two")
    until(lambda: texts(browser, "#target button") == ["ONE TWO"])
    source.send_keys("\nthree")
    until(lambda: texts(browser, "#target button") == ["ONE TWO", "THREE"])
    assert texts(browser, "#heat tbody th") == ["THREE"], "the line with the cursor"
    browser.find_elements("css selector", "#target button")[0].click()
    assert texts(browser, "#heat thead th") == ["one", "two"] and texts(browser, "#heat tbody th") == ["ONE", "TWO"]
    cells = browser.find_elements("css selector", "#heat td[title]")
    assert [each.get_attribute("title") for each in cells][:2] == ["ONE reads one: 1.000", "ONE reads two: 0.000"]
    assert browser.find_element("id", "model").text == "low to up: tiny"
    painted = [each.value_of_css_property("background-color") for each in cells]
    assert painted[0] == painted[3] != painted[1] == painted[2]
    browser.find_element("id", "pieces").click()
    assert texts(browser, "#heat thead th") == ["▁one", "▁two"] and texts(browser, "#heat tbody th") == ["▁ONE", "▁TWO"]
    browser.find_element("id", "pieces").click()
    assert texts(browser, "#heat thead th") == ["one", "two"]


def test_markup_stays_text(browser: Any) -> None:
    evil = "<img src=x onerror=document.title='hit'><script>document.title='hit'</script>"
    browser.find_element("id", "source").send_keys(evil)
    until(lambda: texts(browser, "#target button") == [evil.upper()])
    assert browser.title == "Translation with attention"
    assert not browser.find_elements("css selector", "#target img, #target script, #heat img, #heat script")


def test_a_refusal_is_shown(browser: Any) -> None:
    script = "const s = document.getElementById('source'); s.value = arguments[0]; s.dispatchEvent(new Event('input'));"
    browser.execute_script(script, "a\n" * 101)
    until(lambda: "102 lines; send at most 100 at a time" in browser.find_element("id", "status").text)
    browser.get_log("browser")  # which tells of the refusal, too


def test_the_page_by_keyboard_alone(browser: Any) -> None:
    """From the text to the lines of the translation, the choice of pieces, and the heat map, whose weights are read."""

    def press(*keys: str, held: str | None = None) -> str:
        actions = ActionChains(browser, duration=0)
        (actions.key_down(held).send_keys(*keys).key_up(held) if held else actions.send_keys(*keys)).perform()
        script = "const e = document.activeElement; return e.getAttribute('aria-label') || e.innerText || e.id"
        return str(browser.execute_script(script))

    browser.find_element("id", "source").send_keys("one two\n\nthree")
    until(lambda: texts(browser, "#target button") == ["ONE TWO", "", "THREE"])
    assert [press(Keys.TAB) for _ in range(3)] == ["ONE TWO", "Line 2, empty", "THREE"]
    assert press(Keys.TAB, Keys.TAB, held=Keys.SHIFT) == press(Keys.ENTER) == "ONE TWO"
    assert press(Keys.TAB, Keys.TAB, Keys.TAB) == "pieces" and press(Keys.TAB) == "1.00"
    assert browser.find_element("id", "reading").text == "ONE reads one: 1.000"
    assert press(Keys.ARROW_LEFT) == press(Keys.ARROW_UP) == "1.00"  # the heads of rows and columns are no cells
    assert press(Keys.ARROW_RIGHT) == "0.00" and browser.find_element("id", "reading").text == "ONE reads two: 0.000"
    assert press(Keys.ARROW_DOWN) == "1.00" and browser.find_element("id", "reading").text == "TWO reads two: 1.000"
    assert press(Keys.HOME) == "0.00" and browser.find_element("id", "reading").text == "TWO reads one: 0.000"
    press(Keys.TAB)
    assert press(Keys.TAB, held=Keys.SHIFT) == "0.00", "the heat map is one stop"
    event = "document.getElementById('heat').dispatchEvent(new FocusEvent('focusin', {bubbles: true}))"
    browser.execute_script(event)  # as in a browser where what scrolls is a stop of its own
    assert len(browser.find_elements("css selector", "#heat td[tabindex='0']")) == 1
    assert browser.find_element("id", "heat").get_attribute("tabindex") is None
    browser.find_element("id", "pieces").click()
    assert browser.find_element("id", "reading").text.startswith("Point at a cell")


def test_nothing_is_wider_than_a_phone(browser: Any) -> None:
    metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.find_element("id", "source").send_keys("a sentence of many words whose heat map has no room on a phone")
    until(lambda: len(texts(browser, "#heat thead th")) == 14)
    wide, room = browser.execute_script(
        "const heat = document.getElementById('heat'); return [document.documentElement.scrollWidth, "
        "heat.scrollWidth - heat.clientWidth]"
    )
    assert wide == 390 and room > 0, "the heat map alone scrolls"
