"""The explorer: weights, steps, sentences, gold links."""

import base64
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.common.keys import Keys

from nmt.report.render import render
from tests.browser import Page
from tests.report_page.made_up import SYSTEMS, fake_report
from tests.report_page.shown import (
    HEADS,
    LUONG,
    REPORT,
    as_record,
    bits,
    matrix,
    of_words,
    painted,
    sentence,
    state,
)


@pytest.mark.parametrize("temperature", [0.125, 0.5, 1.0, 2.83])
def test_weights_and_entropies_equal_numpys(page: Page, path: Path, temperature: float) -> None:
    for number, system, view in ((100, LUONG, "attention"), (200, HEADS, "layer 1 head 2")):
        page.open(path)
        wanted = {"attention": str(number), "system": system, "view": view, "temperature": str(temperature)}
        script = "return exploredSentence(REPORT, arguments[0])".replace("REPORT", "window.report")
        page.until("readReport().then((report) => (window.report = report)); return window.report")
        for unit in ("pieces", "words"):
            model = page.js(script, wanted | {"unit": unit})
            expected = matrix(number, system, view, temperature)
            np.testing.assert_allclose(model["entropies"], bits(expected), atol=1e-9)
            if unit == "words":
                expected = of_words(expected, number, system)
            np.testing.assert_allclose(model["weights"], expected, atol=1e-9)


def test_sharpness_slider(page: Page, path: Path) -> None:
    page.open(path, f"#attention=100&system={LUONG}&step=4")
    slider = page.find("section[data-panel=attention] input[type=range]")
    for keys, temperature in ((Keys.ARROW_LEFT * 6, 0.354), (Keys.HOME, 0.125), (Keys.END, 8.0)):
        slider.send_keys(keys)
        expected = matrix(100, LUONG, "attention", temperature)
        assert page.text("[data-value=entropy]") == f"{bits(expected)[3]:.2f}"
        assert page.text("[data-value=mean-entropy]") == f"{bits(expected).mean():.2f}"
        np.testing.assert_allclose(painted(page, 14), of_words(expected, 100, LUONG), atol=6e-5)
        page.until("return location.hash.includes('temperature=' + arguments[0])", f"{temperature:g}")
        assert f"{temperature:g}" in str(slider.get_attribute("aria-valuetext"))
    assert page.js("return document.activeElement.type") == "range"


def test_hover_lights_the_source(page: Page, path: Path) -> None:
    page.open(path, f"#attention=100&system={LUONG}&temperature=2.83")
    pieces = matrix(100, LUONG, "attention", 2.83)
    expected = of_words(pieces, 100, LUONG)
    row = 5
    page.hover(page.all("table.heat tbody th")[row])
    assert page.attributes("table.heat tbody tr.lit th span", "dir") == ["auto"]
    np.testing.assert_allclose(page.weights("table.heat thead th"), expected[row], atol=6e-5)
    words = sentence(100)["systems"][LUONG]["target_words"]
    own = slice(sum(map(len, words[:row])), sum(map(len, words[: row + 1])))
    assert own.stop - own.start == 2  # a word of two pieces, so that the mean matters
    lit = page.weights(".steps .sentence-row:first-child .tokens span")
    np.testing.assert_allclose(lit, pieces[own].mean(axis=0), atol=6e-5)
    best = int(expected[row].argmax())
    assert f"{expected[row][best]:.2f}" in page.text(".weights")
    assert len(page.all(".links path.lit")) == int((expected[row] >= 0.02).sum())
    opacities = [float(value or 0) for value in page.attributes(".links path.lit", "stroke-opacity")]
    np.testing.assert_allclose(sorted(opacities), sorted(a for a in expected[row] if a >= 0.02), atol=6e-4)
    far = int(expected[row].argmin())
    page.hover(page.all(f"table.heat tbody tr:nth-child({row + 1}) td")[far])
    columns = page.texts("table.heat thead th")
    assert f" attends to {columns[far]} {expected[row][far]:.2f}, {columns[best]} " in page.text(".weights")
    page.hover("h1")
    np.testing.assert_allclose(page.weights("table.heat thead th"), expected[0], atol=6e-5)
    assert "step" not in page.fragment
    page.hover(page.all(".tokens [role=option]")[own.start])
    lit = page.weights(".steps .sentence-row:first-child .tokens span")
    np.testing.assert_allclose(lit, pieces[own.start], atol=6e-5)
    columns_of = np.array([k for k, word in enumerate(sentence(100)["source_words"]) for _ in word])
    joined = [pieces[own.start][columns_of == k].sum() for k in range(columns_of.max() + 1)]
    best = int(np.argmax(joined))
    assert page.text(".weights").startswith(f"{words[row][0][1:]} attends to {columns[best]} {joined[best]:.2f}")


def written(pieces: list[str], step: int, candidate: str) -> str:
    """A candidate as a reader expects it: behind what the output has of its word, without SentencePiece's marks."""
    begins = candidate.startswith(("▁", "<"))
    return (candidate if begins else "".join(pieces[:step]).rsplit("▁", 1)[-1] + candidate).removeprefix("▁")


def test_candidates_are_words_among_words_and_pieces_among_pieces(page: Page, tmp_path: Path) -> None:
    """Where two candidates are spelled alike, one begins a word and the other goes on with one."""
    report = fake_report()
    reading = report["sentences"][0]["systems"][LUONG]
    pieces = [piece for word in reading["target_words"] for piece in word]
    step = next(k for k, piece in enumerate(pieces) if k and not piece.startswith("▁"))
    listed = [pieces[step], "▁on", "on", "▁", "</s>"]
    reading["steps"][step] = [[piece, 0.5 / 2**k] for k, piece in enumerate(listed)]
    for unit, shown in (
        ("words", [f"{pieces[step - 1][1:]}{pieces[step]}", "on", f"{pieces[step - 1][1:]}on", "␣", "</s>"]),
        ("pieces", listed),
    ):
        file = tmp_path / f"{unit}.html"
        file.write_text(render(as_record(report)), encoding="utf-8")
        page.open(file, f"#attention=10&system={LUONG}&step={step + 1}&unit={unit}")
        assert page.texts(".candidates bdi") == shown
    page.open(file, f"#attention=10&system={LUONG}&step={step + 1}")
    assert page.texts(".candidates .begun") == [pieces[step - 1][1:]] * 2
    report["languages"]["target_unit"] = "characters"  # no spaces: a piece is not behind the whole sentence
    file.write_text(render(as_record(report)), encoding="utf-8")
    page.open(file, f"#attention=10&system={LUONG}&step={step + 1}")
    assert page.texts(".candidates bdi") == [pieces[step], "on", "on", "␣", "</s>"]


def test_step_by_step_with_candidates(page: Page, path: Path) -> None:
    page.open(path, f"#attention=100&system={LUONG}")
    reading = sentence(100)["systems"][LUONG]
    pieces = [piece for word in reading["target_words"] for piece in word]
    for step in range(len(pieces)):
        listed = [list(each) for each in reading["steps"][step]]
        if pieces[step] not in [piece for piece, _ in listed]:
            listed.append([pieces[step], reading["chosen"][step]])
        assert page.texts(".candidates bdi") == [written(pieces, step, piece) for piece, _ in listed]
        assert page.texts(".candidates .count") == [f"{p:.3f}" for _, p in listed]
        assert page.texts(".candidates .chosen bdi") == [written(pieces, step, pieces[step])]
        assert page.text(".step-head h3") == f"Step {step + 1} of {len(pieces)}"
        assert page.texts(".tokens [aria-selected=true]") == [pieces[step].removeprefix("▁")]
        if step < len(pieces) - 1:
            page.find("[aria-label='Next step']").click()
    assert page.find("[aria-label='Next step']").get_attribute("disabled")
    page.js("document.querySelector('.tokens [tabindex=\"0\"]').focus()")
    page.keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert page.text(".step-head h3") == f"Step {len(pieces) - 2} of {len(pieces)}"
    page.keys(Keys.HOME)
    assert page.js("return document.activeElement.textContent") == pieces[0].removeprefix("▁")
    page.until("return location.hash.includes('step=1')")


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


def test_search_for_a_sentence(page: Page, path: Path) -> None:
    page.open(path, f"#attention=100&system={LUONG}")
    wanted = sentence(70)
    box = page.find("input[role=combobox]")
    box.send_keys(" ".join(wanted["source"].split()[1:4]).upper())
    found = [each["id"] for each in REPORT["sentences"] if " ".join(wanted["source"].split()[1:4]) in each["source"]]
    assert [int(text) for text in page.texts("#matches .count")] == found
    assert box.get_attribute("aria-expanded") == "true"
    box.send_keys(Keys.ARROW_DOWN)
    assert page.attributes("#matches [aria-selected=true]", "id") == [box.get_attribute("aria-activedescendant")]
    box.send_keys(Keys.ENTER)
    assert state(page)["attention"] == "70"
    assert page.text("section[data-panel=attention] h3").startswith("Sentence 70")
    box.send_keys("no such words")
    assert page.texts("#matches li") == ["No sentence has these words."]
    box.send_keys(Keys.ESCAPE)
    assert not page.find("#matches").is_displayed()
    page.driver.back()
    page.until(
        "return document.querySelector('section[data-panel=attention] h3').textContent.startsWith('Sentence 100')"
    )
    page.find(".picker button:last-of-type").click()
    assert state(page)["attention"] == "110"


def test_views_units_and_systems(page: Page, path: Path) -> None:
    page.open(path, f"#attention=100&system={LUONG}")
    assert not any(each.is_displayed() for each in page.all("label.control") if each.text.startswith("Layer"))
    page.choose("System", HEADS)
    rows = len(sentence(100)["systems"][HEADS]["target_words"])
    for view in SYSTEMS[HEADS][2]:
        page.choose("Layer and head", view)
        expected = of_words(matrix(100, HEADS, view), 100, HEADS)
        np.testing.assert_allclose(painted(page, rows), expected, atol=6e-5)
    page.js("document.querySelector('input[type=radio][value=pieces]').click()")
    expected = matrix(100, HEADS, "layer 1 head 2")
    np.testing.assert_allclose(painted(page, len(expected)), expected, atol=6e-5)
    assert state(page)["view"] == "layer 1 head 2" and state(page)["unit"] == "pieces"
    page.choose("System", "vector-32")
    assert not page.find("table.heat").is_displayed()
    assert "no attention" in page.text("section[data-panel=attention]")
    page.driver.back()
    page.until("return !document.querySelector('.pictures').hidden")


def test_translations_side_by_side_with_differences(page: Page, path: Path) -> None:
    page.open(path, f"#attention=100&system={LUONG}")
    this = sentence(100)
    assert page.texts(".translation a bdi") == list(SYSTEMS)
    assert page.texts(".translation > :last-child")[2:] == [f"{each['bleu']:.1f}" for each in this["systems"].values()]
    assert page.texts(".translation > :nth-child(2) > span:first-child") == [
        this["source"], this["reference"], *[each["text"] for each in this["systems"].values()]
    ]  # fmt: skip
    for number, reading in enumerate(this["systems"].values(), 3):
        marks = page.texts(f".translation:nth-child({number}) mark")
        assert bool(marks) == (reading["text"] != this["reference"])
        assert all(mark in reading["text"] for mark in marks)
    page.find(".translation:nth-child(3) a").click()
    assert page.attributes(".translation[aria-current] bdi", "class") == [None]
    assert state(page) == {"attention": "100", "system": "vector-32"}


def test_common_words_are_a_longest_common_subsequence(page: Page, path: Path) -> None:
    page.open(path)
    dice = np.random.default_rng(1)
    for _ in range(30):
        left, right = (dice.integers(0, 4, dice.integers(0, 12)).tolist() for _ in range(2))
        longest = np.zeros((len(left) + 1, len(right) + 1), int)
        for i, a in enumerate(left):
            for j, b in enumerate(right):
                longest[i + 1, j + 1] = longest[i, j] + 1 if a == b else max(longest[i, j + 1], longest[i + 1, j])
        places = page.js("return commonPlaces(arguments[0], arguments[1])", left, right)
        assert len(places) == longest[-1, -1]
        assert all(left[i] == right[j] for i, j in places)
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(places))


def test_gold_links_of_shared_words(page: Page, path: Path) -> None:
    exact = next(
        each for each in REPORT["sentences"][2:24] if each["systems"][HEADS]["text"] == each["reference"]
    )  # then all links are shown
    page.open(path, f"#attention={exact['id']}&system=%3Ci%3Eheads%3C%2Fi%3E+%26+co")
    script = "return [...document.querySelectorAll('td.gold')].map((c) => [c.cellIndex - 1, c.parentNode.rowIndex - 1])"
    assert sorted(map(tuple, page.js(script))) == sorted(map(tuple, exact["gold"]))
    assert f"{len(exact['gold'])} of {len(exact['gold'])} are framed." in page.text("section[data-panel=attention]")
    page.js("document.querySelector('input[type=radio][value=pieces]').click()")
    groups = (exact["source_words"], exact["systems"][HEADS]["target_words"])
    words = [[k for k, word in enumerate(group) for _ in word] for group in groups]
    links = {tuple(link) for link in exact["gold"]}
    expected = [(s, t) for s, i in enumerate(words[0]) for t, j in enumerate(words[1]) if (i, j) in links]
    assert sorted(map(tuple, page.js(script))) == expected
    page.open(path, "#attention=20")
    assert "This sentence has no gold links." in page.text("section[data-panel=attention] .pictures")


def test_the_page_says_which_gold_links_are_shown_and_why_not_all(page: Page, path: Path) -> None:
    """Half of the words of the reference are in the output: so are their links."""
    page.open(path)
    report = fake_report()
    this = report["sentences"][0]
    reading = this["systems"][LUONG]
    words = this["reference"].split()
    said = [word if k % 2 else "xyz" for k, word in enumerate(words)]
    reading["target_words"] = [[f"▁{word}"] for word in said]
    this["gold"] = [[0, k] for k in range(len(words))]
    links = page.js("return sharedGold(arguments[0], arguments[1], 'words')", this, reading["target_words"])
    assert links == [[0, k] for k in range(len(words)) if k % 2]
    text = page.js("return goldInWords(arguments[0], arguments[1])", this["gold"], len(links))
    left = len(words) - len(links)
    assert text.startswith("Gold links are of the reference")
    assert text.endswith(
        f"{len(links)} of {len(words)} are framed; the words of the other {left} are not in this output."
    )


def test_gold_links_of_a_language_without_spaces(page: Page, path: Path) -> None:
    page.open(path)
    this = {"reference": "我 爱猫。", "gold": [[0, 0], [1, 1], [2, 2]]}
    links = page.js("return sharedGold(arguments[0], arguments[1], 'characters')", this, [["▁我爱"], ["猫"], ["。"]])
    assert links == [[0, 0], [1, 0], [2, 1]]


def test_right_to_left(page: Page, path: Path) -> None:
    page.open(path, f"#attention=260&system={LUONG}")
    script = "return getComputedStyle(document.querySelector(arguments[0])).direction"
    assert page.js(script, ".steps .sentence-row:first-child .tokens") == "rtl"
    assert page.js(script, ".steps .sentence-row:nth-child(2) .tokens") == "ltr"
    assert page.js(script, ".translation:first-child span[dir=auto]") == "rtl"


def test_hard_attention_has_no_temperature(page: Page, tmp_path: Path) -> None:
    report = fake_report()
    reading = report["sentences"][0]["systems"][LUONG]
    size = sum(map(len, report["sentences"][0]["source_words"]))
    codes = np.full((len(reading["chosen"]), size), 255, np.uint8)
    codes[np.arange(len(codes)), np.arange(len(codes)) % size] = 0
    reading["attention"] = {"attention": base64.b64encode(codes.tobytes()).decode()}
    file = tmp_path / "hard.html"
    file.write_text(render(as_record(report)), encoding="utf-8")
    slider = "section[data-panel=attention] input[type=range]"
    page.open(file, f"#attention=10&system={LUONG}")
    assert page.find(slider).is_displayed(), "weights of one are no hard attention: the configuration says what is"
    next(each for each in report["systems"] if each["name"] == LUONG)["hard"] = True
    file.write_text(render(as_record(report)), encoding="utf-8")
    page.open(file, f"#attention=10&system={LUONG}&unit=pieces")
    np.testing.assert_array_equal(painted(page, len(codes)), codes == 0)
    assert page.text("[data-value=entropy]") == "0.00" and not page.find(slider).is_displayed()
    assert "one position alone" in page.text("section[data-panel=attention] .pictures")
    page.open(file, f"#attention=100&system={HEADS.replace(' ', '+').replace('&', '%26')}&temperature=0.125")
    assert page.find(slider).is_displayed()


def test_a_system_with_a_tokenizer_of_its_own(page: Page, tmp_path: Path) -> None:
    own = fake_report()
    reading = own["sentences"][0]["systems"][LUONG]
    words = [[f"▁{letter}" for letter in "ab"], *own["sentences"][0]["source_words"][1:]]
    size = sum(map(len, words))
    uniform = np.full((len(reading["chosen"]), size), round(255 * math.sqrt(math.log(size) / 16)), np.uint8)
    reading |= {"source_words": words, "attention": {"attention": base64.b64encode(uniform.tobytes()).decode()}}
    file = tmp_path / "own.html"
    file.write_text(render(as_record(own)), encoding="utf-8")
    page.open(file, f"#attention=10&system={LUONG}&unit=pieces")
    assert page.texts("table.heat thead th") == [piece for word in words for piece in word]
    assert page.text("[data-value=entropy]") == f"{math.log2(size):.2f}"
