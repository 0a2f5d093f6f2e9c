"""The page of nmt-serve in a browser: it translates while somebody types, shows attention, and runs no other script."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("selenium")

from selenium.webdriver.common.keys import Keys

from nmt.pages.serving.batches import Answer
from nmt.translation.results import TranslatedHypothesis, Translation
from tests.browser import Page, opened
from tests.processes import until
from tests.test_serving import Client, serving

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
        candidates = [[(f"▁{word}", 0.75), ("▁<b>", 0.25)] for word in upper]
        found.append((Translation(line, [f"▁{word}" for word in words], [best]), warning, candidates))
    return found


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving(capitals) as client:
        yield client


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with opened() as browser:
        yield browser


@pytest.fixture
def page(client: Client, browser: Page) -> Iterator[Page]:
    browser.size(1000)
    browser.driver.get(f"http://127.0.0.1:{client.port}/")
    yield browser
    assert [message for message in browser.console() if "favicon" not in message] == []


def seen(page: Page, selector: str) -> list[str]:
    """The texts of the elements as they are seen."""
    return page.each(selector, "node.innerText")


def test_what_is_typed_is_translated_and_its_attention_shown(page: Page) -> None:
    source = page.find("#source")
    assert page.text("#status") == "The translation appears here as you type."
    source.send_keys("one two")
    until(lambda: seen(page, "#target button") == ["ONE TWO"])
    source.send_keys("\nthree")
    until(lambda: seen(page, "#target button") == ["ONE TWO", "THREE"])
    assert page.text("#status") == ""
    assert seen(page, ".heat tbody th") == ["THREE"], "the line with the cursor"
    page.find("#target button").click()
    assert seen(page, ".heat thead th") == ["one", "two"] and seen(page, ".heat tbody th") == ["ONE", "TWO"]
    assert page.text(".weights") == "ONE attends to one 1.00"
    assert seen(page, ".candidates bdi") == ["ONE", "<b>"] and seen(page, ".candidates .count") == ["0.750", "0.250"]
    assert page.text("#model") == "low-v2 to up, system tiny", "whatever a run calls its languages"
    painted = page.each(".heat tbody td", "getComputedStyle(node).backgroundColor")
    assert painted[0] == painted[3] != painted[1] == painted[2]
    page.js("document.querySelector('input[value=pieces]').click()")
    assert seen(page, ".heat thead th") == ["▁one", "▁two"] and seen(page, ".heat tbody th") == ["▁ONE", "▁TWO"]


def test_markup_stays_text_and_a_refusal_is_shown(page: Page) -> None:
    evil = "<img src=x onerror=document.title='hit'><script>document.title='hit'</script>"
    page.find("#source").send_keys(evil)
    until(lambda: seen(page, "#target button") == [evil.upper()])
    assert page.driver.title == "Translation with attention"
    assert not page.all("main img, main script, main b")

    half = "const s = arguments[1]; s.value = arguments[0] + '\\ud83d'; s.dispatchEvent(new Event('input'));"
    page.js(half, f"{evil}\n{'a' * 2001}\nb ", page.find("#source"))
    until(lambda: len(seen(page, "#target button")) == 3)
    assert seen(page, "#target button") == [evil.upper(), "", "B \ufffd"]
    assert seen(page, "#target .note") == ["text: the line has 2,001 characters; it may have up to 2,000"]
    page.console()  # which tells of the refusal, too


def test_only_changed_lines_are_translated_again(page: Page) -> None:
    page.js("const own = fetch; window.asked = []; fetch = (path, how) => (asked.push(how.body), own(path, how))")
    for typed, lines in (("one\ntwo\none", "ONE,TWO,ONE"), ("one\ntwo\nones", "ONE,TWO,ONES")):
        page.type("#source", typed)
        texts = "[...document.querySelectorAll('#target button')].map((n) => n.innerText)"
        page.until(f"return {texts}.join() === arguments[0]", lines)
    assert [json.loads(each)["text"] for each in page.js("return asked")][-1:] == ["ones"]
    assert len(page.js("return asked.filter((each) => each.includes('two'))")) == 1


def test_lines_that_are_too_many_are_left_out_and_announced(page: Page) -> None:
    page.type("#source", "a\n" * 101)
    until(lambda: len(seen(page, "#target button")) == 100)
    assert page.text("#status") == "Only the first 100 lines are translated."
    until(lambda: page.text("p[role=status]") == "A  Only the first 100 lines are translated.")


def test_a_server_that_does_not_answer_is_announced(page: Page) -> None:
    block = {"urls": ["*/health"]}
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", block)
    try:
        page.driver.refresh()
        until(lambda: page.texts("[role=alert]") == ["The server does not answer."])
    finally:
        page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    page.console()  # which tells of the request, too


def test_the_page_by_keyboard_alone(page: Page) -> None:
    """From the text to the lines of the translation, the choice of pieces, the steps, and the heat map."""

    def press(*keys: str, held: str | None = None) -> str:
        page.keys(*keys, held=held)
        script = """
            const e = document.activeElement;
            return e.getAttribute("aria-label") || e.innerText || e.value || e.id
        """
        return str(page.js(script))

    def read() -> str:
        return page.text(".weights")

    page.find("#source").send_keys("one two\n\nthree")
    until(lambda: seen(page, "#target button") == ["ONE TWO", "", "THREE"])
    assert [press(Keys.TAB) for _ in range(3)] == ["ONE TWO", "Line 2, empty", "THREE"]
    assert press(Keys.TAB, Keys.TAB, held=Keys.SHIFT) == press(Keys.ENTER) == "ONE TWO"
    assert press(Keys.TAB, Keys.TAB, Keys.TAB) == "words"
    assert press(Keys.TAB) == "ONE" and read() == "ONE attends to one 1.00"
    assert press(Keys.ARROW_RIGHT) == "TWO" and read() == "TWO attends to two 1.00"
    assert press(Keys.HOME) == "ONE" and press(Keys.TAB) == "Previous step" and press(Keys.TAB, Keys.TAB) == "1.00"
    assert press(Keys.ARROW_LEFT) == press(Keys.ARROW_UP) == "1.00"  # the heads of rows and columns are no cells
    assert press(Keys.ARROW_RIGHT) == "0.00" and read() == "ONE attends to two 0.00, one 1.00"
    assert press(Keys.ARROW_DOWN) == "1.00" and read() == "TWO attends to two 1.00"
    assert press(Keys.HOME) == "0.00" and read() == "TWO attends to one 0.00, two 1.00"
    press(Keys.TAB)
    assert press(Keys.TAB, held=Keys.SHIFT) == "0.00", "the heat map is one stop"
    page.js("document.querySelector('.heat').parentNode.dispatchEvent(new FocusEvent('focusin', {bubbles: true}))")
    assert page.js("return document.querySelector('.heat').parentNode.getAttribute('tabindex')") is None
    assert len(page.all(".heat td[tabindex='0']")) == 1, "also in a browser where what scrolls is a stop of its own"


def test_nothing_is_wider_than_a_phone(page: Page) -> None:
    page.size(390)
    page.find("#source").send_keys("a sentence of many words whose heat map has no room on a phone " * 2)
    until(lambda: len(seen(page, ".heat thead th")) == 28)
    widths = "[document.documentElement.scrollWidth, node.parentNode.scrollWidth - node.parentNode.clientWidth]"
    [(wide, room)] = page.each(".heat", widths)
    assert wide == 390 and room > 0, "the heat map alone scrolls"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_fault(page: Page, theme: str) -> None:
    page.size(390 if theme == "dark" else 1280, theme)
    page.find("#source").send_keys("one two\ncut off")
    until(lambda: seen(page, "#target button") == ["ONE TWO", "CUT OFF"])
    page.driver.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    assert page.faults() == []
