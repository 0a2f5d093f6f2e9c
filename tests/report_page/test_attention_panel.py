"""The explorer: weights, steps, sentences, gold links."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from selenium.webdriver.common.keys import Keys

from nmt.evaluation.diagnosis import entropy
from nmt.pages.report.reading import packed
from nmt.pages.report.rendering import render
from tests.browser import Page
from tests.report_page.made_up import HEADS, LUONG, SYSTEMS, fake_report
from tests.report_page.shown import REPORT, matrix, of_words, painted, sentence, state


@pytest.mark.parametrize(
    ("system", "view", "unit"), [(LUONG, "attention", "words"), (HEADS, "layer 1 head 2", "pieces")]
)
def test_sharper_weights_and_entropies_equal_numpys(page: Page, path: Path, system: str, view: str, unit: str) -> None:
    page.open(path, f"#attention=100&step=4&{urlencode({'system': system, 'view': view, 'unit': unit})}")
    slider = page.find("section[data-panel=attention] input[type=range]")
    words = sentence(100).systems[system].target_words
    own = slice(sum(map(len, words[:3])), sum(map(len, words[:4]))) if unit == "words" else slice(3, 4)
    for keys, temperature in ((Keys.ARROW_LEFT * 6, 0.354), (Keys.END, 8.0)):
        slider.send_keys(keys)
        expected = matrix(100, system, view, temperature)
        assert page.text("[data-value=entropy]") == f"{entropy(expected[own]):.2f}"
        assert page.text("[data-value=mean-entropy]") == f"{entropy(expected):.2f}"
        shown = of_words(expected, 100, system) if unit == "words" else expected
        np.testing.assert_allclose(painted(page, len(shown)), shown, atol=6e-5)
        page.until("return location.hash.includes('temperature=' + arguments[0])", f"{temperature:g}")
        assert f"{temperature:g}" in str(slider.get_attribute("aria-valuetext"))
    assert page.js("return document.activeElement.type") == "range"


@pytest.mark.parametrize("unit", ["words", "pieces"])
def test_a_step_is_a_word_or_a_piece(page: Page, path: Path, unit: str) -> None:
    """Its row of the heat map, its source and its candidates are those of the word where words are shown."""
    page.open(path, f"#attention=100&system={LUONG}&unit={unit}")
    reading = sentence(100).systems[LUONG]
    groups = reading.target_words if unit == "words" else [[each] for word in reading.target_words for each in word]
    expected = matrix(100, LUONG, "attention")
    if unit == "words":
        expected = of_words(expected, 100, LUONG)
    columns = page.texts("table.heat thead th")
    place = 0
    for step, group in enumerate(groups):
        name = "".join(group).removeprefix("▁") if unit == "words" else group[0]
        assert page.text(".step-head h3") == f"{unit.capitalize()[:-1]} {step + 1} of {len(groups)}"
        assert page.texts("table.heat tr.lit th") == [name]
        best = int(expected[step].argmax())
        assert page.text(".weights").startswith(f"{name} attends to {columns[best]} {expected[step][best]:.2f}")
        np.testing.assert_allclose(page.weights(".steps .tokens span:not([role])"), expected[step], atol=6e-5)
        beginnings = ["".join(group[: k + 1]).removeprefix("▁") for k in range(len(group))]
        assert page.texts(".candidates .chosen bdi") == (beginnings if unit == "words" else group)
        listed = [dict(reading.steps[place + k]) | {group[k]: reading.chosen[place + k]} for k in range(len(group))]
        assert page.texts(".candidates .count") == [f"{p:.3f}" for each in listed for p in each.values()]
        place += len(group)
        if step < len(groups) - 1:
            page.find("[aria-label='Next step']").click()
    assert page.find("[aria-label='Next step']").get_attribute("aria-disabled") == "true"
    page.js("document.querySelector('.tokens [tabindex=\"0\"]').focus()")
    page.keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert page.text(".step-head h3").startswith(f"{unit.capitalize()[:-1]} {len(groups) - 2} ")
    page.until("return location.hash.includes('step=' + arguments[0])", str(len(groups) - 2))


def test_heat_map_by_keyboard(page: Page, path: Path) -> None:
    page.open(path, f"#attention=100&system={LUONG}")
    expected = of_words(matrix(100, LUONG, "attention"), 100, LUONG)
    rows, columns = expected.shape

    def at() -> tuple[int, int]:
        script = "const c = document.activeElement; return [c.parentNode.rowIndex - 1, c.cellIndex - 1]"
        row, column = page.js(script)
        name = str(page.js("return document.activeElement.getAttribute('aria-label')"))
        assert name.startswith(f"{expected[row, column]:.2f}")
        assert page.js("return document.activeElement.getAttribute('role')") == "gridcell"
        return row, column

    page.js("document.querySelector('table.heat [tabindex=\"0\"]').focus()")
    assert at() == (0, 0)
    last = columns - 1
    for key, place in (
        (Keys.ARROW_RIGHT, (0, 1)), (Keys.ARROW_DOWN, (1, 1)), (Keys.END, (1, last)), (Keys.ARROW_LEFT, (1, last - 1)),
        (Keys.PAGE_DOWN, (rows - 1, last - 1)), (Keys.ARROW_DOWN, (rows - 1, last - 1)), (Keys.HOME, (rows - 1, 0)),
        (Keys.ARROW_UP, (rows - 2, 0)), (Keys.PAGE_UP, (0, 0)), (Keys.ARROW_LEFT, (0, 0)),
    ):  # fmt: skip
        page.keys(key)
        assert at() == place
        assert page.js("return document.querySelector('table.heat tr.lit').rowIndex - 1") == place[0]
    assert len(page.all("table.heat [tabindex='0']")) == 1


def test_choose_a_sentence(page: Page, path: Path) -> None:
    page.open(path, f"#attention=100&system={LUONG}")
    page.choose("Sentence", f"70: {sentence(70).source}")
    assert state(page)["attention"] == "70"
    assert page.text("section[data-panel=attention] h3").startswith("Sentence 70")
    page.driver.back()
    title = "document.querySelector('section[data-panel=attention] h3').textContent"
    page.until(f"return {title}.startsWith('Sentence 100')")
    page.find("section[data-panel=attention] .stepper button:last-of-type").click()
    assert state(page)["attention"] == "110"


def test_translations_side_by_side_with_differences(page: Page, path: Path) -> None:
    page.open(path, f"#attention=100&system={LUONG}")
    this = sentence(100)
    assert page.texts(".translation a bdi") == list(SYSTEMS)
    scores = [f"{each.scores['BLEU']:.1f}" for each in this.systems.values()]
    assert page.texts(".translation > :last-child")[2:] == scores
    assert page.texts(".translation > :nth-child(2) > span:first-child") == [
        this.source, this.reference, *[each.text for each in this.systems.values()]
    ]  # fmt: skip
    for number, reading in enumerate(this.systems.values(), 3):
        marks = page.texts(f".translation:nth-child({number}) mark")
        assert bool(marks) == (reading.text != this.reference)
        assert all(mark in reading.text for mark in marks)
    page.find(".translation:nth-child(3) a").click()
    assert page.attributes(".translation[aria-current] bdi", "class") == [None]
    assert state(page) == {"attention": "100", "system": "vector-32"}


def test_gold_links_of_shared_words(page: Page, path: Path) -> None:
    exact = next(each for each in REPORT.sentences[2:24] if each.systems[HEADS].text == each.reference)  # all are shown
    gold = exact.systems[HEADS].gold
    page.open(path, f"#attention={exact.id}&{urlencode({'system': HEADS})}")
    script = "return [...document.querySelectorAll('td.gold')].map((c) => [c.cellIndex - 1, c.parentNode.rowIndex - 1])"
    assert sorted(map(tuple, page.js(script))) == sorted(map(tuple, gold))
    assert f"{len(gold)} of {len(gold)} end" in page.text("section[data-panel=attention]")
    page.js("document.querySelector('input[type=radio][value=pieces]').click()")
    groups = (exact.systems[HEADS].source_words, exact.systems[HEADS].target_words)
    words = [[k for k, word in enumerate(group) for _ in word] for group in groups]
    links = {tuple(link) for link in gold}
    expected = [(s, t) for s, i in enumerate(words[0]) for t, j in enumerate(words[1]) if (i, j) in links]
    assert sorted(map(tuple, page.js(script))) == expected
    page.open(path, "#attention=20")
    assert "This sentence has no gold links." in page.text("section[data-panel=attention] figure")


def test_gold_links_of_a_language_without_spaces(page: Page, path: Path) -> None:
    page.open(path)
    this = {"target_words": [["▁我爱"], ["猫"], ["。"]], "gold": [[0, 0], [1, 1], [2, 2]]}
    shared = "return modules['report/page/attention.js'].sharedGold(...arguments)"
    links = page.js(shared, this, "我 爱猫。", "characters")
    assert links == [[0, 0], [1, 0], [2, 1]]


def test_right_to_left(page: Page, path: Path) -> None:
    page.open(path, f"#attention=260&system={LUONG}")
    script = "return getComputedStyle(document.querySelector(arguments[0])).direction"
    assert page.js(script, ".steps .sentence-row:first-child .tokens") == "rtl"
    assert page.js(script, ".steps .sentence-row:nth-child(2) .tokens") == "ltr"
    assert page.js(script, ".translation:first-child span[dir=auto]") == "rtl"


def test_hard_attention_has_no_temperature(page: Page, tmp_path: Path) -> None:
    report = fake_report()  # records of its own
    reading = report.sentences[0].systems[LUONG]
    size = sum(map(len, reading.source_words))
    weights = np.eye(size)[np.arange(len(reading.chosen)) % size]
    reading.attention["attention"] = packed(weights)
    file = tmp_path / "hard.html"
    file.write_text(render(report), encoding="utf-8")
    slider = "section[data-panel=attention] input[type=range]"
    page.open(file, f"#attention=10&system={LUONG}")
    assert page.find(slider).is_displayed(), "weights of one are no hard attention: the configuration says what is"
    systems = [replace(each, hard=each.name == LUONG) for each in report.systems]
    file.write_text(render(replace(report, systems=systems)), encoding="utf-8")
    page.open(file, f"#attention=10&system={LUONG}&unit=pieces")
    np.testing.assert_array_equal(painted(page, len(weights)), weights)
    assert page.text("[data-value=entropy]") == "0.00" and not page.find(slider).is_displayed()
    assert "only one position" in page.text("section[data-panel=attention] figure")
    page.open(file, f"#attention=100&temperature=0.125&{urlencode({'system': HEADS})}")
    assert page.find(slider).is_displayed()
