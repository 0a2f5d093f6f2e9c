"""The page of the report in a real browser: what people do, what changes, and that nothing leaves the page."""

import base64
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import numpy.typing as npt
import pytest
from selenium.webdriver.common.keys import Keys

from nmt.report.records import Languages, Reading, Report, Sentence, System
from nmt.report.render import render
from tests.browser import Page, axe_source, opened
from tests.report_page_data import BINS, FAILURES, HOSTILE, SYSTEMS, decoded, fake_report

REPORT = fake_report()
LUONG, HEADS = "luong-64", "<i>heads</i> & co"
STATES = (
    "#overview",
    "#length&bin=2&reason=failures",
    "#bottleneck&width=64",
    "#attention=100&system=luong-64&step=4",
    "#attention=100&unit=pieces&view=layer+1+head+2&system=%3Ci%3Eheads%3C%2Fi%3E+%26+co&temperature=0.5",
    "#attention=250&system=vector-32",
    "#sentences&against=vector-64&system=luong-64&sort=gain",
    "#training&curve=train&step=500",
)


def as_record(report: dict[str, Any]) -> Report:
    sentences = [
        Sentence(**each | {"systems": {name: Reading(**reading) for name, reading in each["systems"].items()}})
        for each in report["sentences"]
    ]
    systems = [System(**each) for each in report["systems"]]
    languages = Languages(**report["languages"])
    return Report(**report | {"languages": languages, "systems": systems, "sentences": sentences})


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with opened() as page:
        yield page


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(render(as_record(REPORT)), encoding="utf-8")
    return file


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    browser.size(1280)
    browser.console()
    yield browser
    assert browser.console() == []


def sentence(number: int) -> dict[str, Any]:
    return next(each for each in REPORT["sentences"] if each["id"] == number)


def matrix(number: int, system: str, view: str, temperature: float = 1.0) -> npt.NDArray[np.float64]:
    """The attention between pieces, (T, S), in NumPy."""
    reading = sentence(number)["systems"][system]
    weights = decoded(reading["attention"][view], len(reading["chosen"]))
    with np.errstate(divide="ignore"):
        energies = np.log(weights) / temperature
    weights = np.exp(energies - energies.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def of_words(weights: npt.NDArray[np.float64], number: int, system: str) -> npt.NDArray[np.float64]:
    """Sums over the pieces of a source word, means over those of a target word."""
    columns = np.array([k for k, word in enumerate(sentence(number)["source_words"]) for _ in word])
    rows = np.array([k for k, word in enumerate(sentence(number)["systems"][system]["target_words"]) for _ in word])
    return np.array(
        [
            [weights[rows == j][:, columns == i].sum(axis=1).mean() for i in range(columns.max() + 1)]
            for j in range(rows.max() + 1)
        ]
    )


def bits(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.array([-sum(a * math.log2(a) for a in row if a > 0) for row in weights.tolist()])


def painted(page: Page, rows: int) -> npt.NDArray[np.float64]:
    return np.array(page.weights("table.heat tbody td")).reshape(rows, -1)


def state(page: Page) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(page.fragment, keep_blank_values=True).items()}


# --- the page as a whole ----------------------------------------------------------------------------------------------


def test_every_panel_opens_and_the_back_button_returns(page: Page, path: Path) -> None:
    page.open(path)
    names = ["overview", "length", "bottleneck", "attention", "sentences", "training"]
    assert page.attributes("nav a", "data-panel") == names
    for name in names[1:]:
        page.find(f"nav a[data-panel={name}]").click()
        assert page.until("return location.hash").startswith(f"#{name}")
        assert page.attributes("main > section:not([hidden])", "data-panel") == [name]
        assert page.attributes("nav a[aria-current=page]", "data-panel") == [name]
    for name in reversed(names[:-1]):
        page.driver.back()
        page.until("return !document.querySelector(`section[data-panel=${arguments[0]}]`).hidden", name)
        assert page.js("return document.title").lower().startswith(name)


def test_nothing_leaves_the_page(page: Page, path: Path) -> None:
    page.requests()
    for fragment in STATES:
        page.open(path, fragment)
    own = {f"{page.address}{fragment}" for fragment in STATES} | {page.address}
    assert {address for address in page.requests() if address != "about:blank"} <= own
    assert page.js("return performance.getEntriesByType('resource').length") == 0
    assert page.js("return document.querySelector('meta[http-equiv]').content").startswith("default-src 'none'")


def test_policy_refuses_script_style_and_images_from_elsewhere(page: Page, path: Path) -> None:
    page.open(path)
    page.js(
        """
        window.refused = [];
        document.addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
        const script = document.createElement("script");
        script.textContent = "window.owned = true";
        const image = document.createElement("img");
        image.src = "https://example.org/x.png";
        const style = document.createElement("style");
        style.textContent = "body { color: red }";
        document.body.append(script, image, style);
        """
    )
    page.until("return refused.length >= 3")
    assert sorted(page.js("return refused")) == ["img-src", "script-src-elem", "style-src-elem"]
    assert page.js("return window.owned") is None
    page.console()  # the three refusals


def test_hostile_text_stays_text(page: Page, path: Path) -> None:
    for fragment in ("#overview", "#attention=250&system=vector-64", "#sentences&search=onerror", "#length"):
        page.open(path, fragment)
        assert page.js("return document.querySelectorAll('img, main script, nav script, main i').length") == 0
        assert "owned" not in page.js("return document.title")
    assert page.text("h1") == REPORT["title"]
    page.open(path, "#sentences&search=onerror")
    assert page.texts(".sentences dd")[:2] == [HOSTILE, HOSTILE]
    assert HEADS in page.texts("section[data-panel=overview] tbody th")


def test_overview_is_there_without_javascript(page: Page, path: Path) -> None:
    page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.driver.get("about:blank")
        page.driver.get(path.as_uri())
    finally:
        page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    rows = page.texts("section[data-panel=overview] table:first-of-type tbody tr")
    for row, system in zip(rows, REPORT["systems"], strict=False):
        assert system["name"] in row and f"{system['bleu']['value']:.1f}" in row and f"{system['parameters']:,}" in row
        assert "10m 40s" in row  # as everywhere: 640.5 s
    assert "nrefs:1|case:mixed|tok:13a" in page.text("section[data-panel=overview]")


def test_overview_has_differences_and_settings(page: Page, path: Path) -> None:
    page.open(path)
    cells = " ".join(page.text("section[data-panel=overview]").split())
    for pair in REPORT["pairs"]:
        assert f"+{pair['difference']:.1f}" in cells
    assert cells.count("p < ") + cells.count("p = ") == len(REPORT["pairs"])
    assert "p < 0.001" in cells and "p = 0.020" in cells
    assert "model.encoder.hidden" in cells


def test_a_state_is_a_link(page: Page, path: Path) -> None:
    """What the address says is what is shown, however one came there."""
    page.open(path, "#attention=70&system=luong-64")
    page.find("[aria-label='Next step']").click()
    page.find("[aria-label='Next step']").click()
    page.js("document.querySelector('input[type=radio][value=pieces]').click()")
    page.until("return location.hash.includes('unit=pieces') && location.hash.includes('step=3')")
    shown, fragment = page.text("section[data-panel=attention]"), page.fragment
    page.open(path, f"#{fragment}")
    assert page.text("section[data-panel=attention]") == shown
    assert page.text(".step-head h3") == f"Step 3 of {len(sentence(70)['systems'][LUONG]['chosen'])}"


def test_senseless_addresses_show_something(page: Page, path: Path) -> None:
    fragments = (
        "#nonsense",
        "#attention=999&system=x&step=-4&temperature=abc&view=q",
        "#length&systems=%E0%A4%A&bin=77",
        "#sentences&sort=x&show=y&against=z",
        "#bottleneck&width=7&on=maybe",
        "#training&step=1e99&sample=99&curve=%3Cb%3E",
    )
    for fragment in fragments:
        page.open(path, fragment)
        assert len(page.all("main > section:not([hidden])")) == 1


@pytest.mark.parametrize(
    ("fragment", "missing", "shown"),
    [
        ("attention=999&system=nope", ["no sentence “999”", "no system “nope”"], "attention=260&system=vector-32"),
        ("attention=118&system=luong-64", ["no sentence “118”"], "attention=120&system=luong-64"),
        ("attention=100&view=head 9", ["no layer and head “head 9”"], "attention=100&view=attention"),
        ("sentences&system=x&against=y", ["no system “x”", "no system “y”"], "sentences&system=vector-32"),
        ("length&systems=luong-64,y", ["no system “y”"], "length&systems=luong-64"),
        ("training&systems=<b>", ["no system “<b>”"], "training"),
        ("bottleneck&width=50", ["no vector of width “50”"], "bottleneck&width=64"),
        ("nonsense=3", ["no panel “nonsense”"], "overview"),
    ],
)
def test_a_link_to_what_is_not_there_says_so(
    page: Page, path: Path, fragment: str, missing: list[str], shown: str
) -> None:
    page.open(path, f"#{fragment}")
    assert page.text("#notice") == f"This report has {' and '.join(missing)}. What comes nearest is shown."
    assert page.attributes("#notice", "aria-live") == ["polite"] and page.find("#notice").is_displayed()
    assert page.fragment == shown
    page.size(1000)  # drawing again does not take it back; going on does
    assert page.text("#notice")
    page.find("nav a[data-panel=sentences]").click()
    page.until("return document.getElementById('notice').textContent === ''")


def test_links_that_the_page_makes_are_not_refused(page: Page, path: Path) -> None:
    for fragment in STATES:
        page.open(path, fragment)
        assert page.text("#notice") == "" and f"#{page.fragment}" == fragment
    page.open(path, "#attention=100&system=nope")
    page.find("[aria-label='Next step']").click()
    assert page.text("#notice") == ""


# --- attention --------------------------------------------------------------------------------------------------------


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


def test_step_by_step_with_candidates(page: Page, path: Path) -> None:
    page.open(path, f"#attention=100&system={LUONG}")
    reading = sentence(100)["systems"][LUONG]
    pieces = [piece for word in reading["target_words"] for piece in word]
    for step in range(len(pieces)):
        listed = [list(each) for each in reading["steps"][step]]
        if pieces[step] not in [piece for piece, _ in listed]:
            listed.append([pieces[step], reading["chosen"][step]])
        assert page.texts(".candidates bdi") == [piece for piece, _ in listed]
        assert page.texts(".candidates .count") == [f"{p:.3f}" for _, p in listed]
        assert page.texts(".candidates .chosen bdi") == [pieces[step]]
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
    page.open(file, f"#attention=10&system={LUONG}&unit=pieces")
    np.testing.assert_array_equal(painted(page, len(codes)), codes == 0)
    assert page.text("[data-value=entropy]") == "0.00" and not page.find(slider).is_displayed()
    assert "one position alone" in page.text("section[data-panel=attention] .pictures")
    page.open(file, f"#attention=100&system={LUONG}&temperature=0.125")
    assert page.find(slider).is_displayed()


# --- the other panels -------------------------------------------------------------------------------------------------


def test_length_bins(page: Page, path: Path) -> None:
    page.open(path, "#length")
    stops = page.all(".beside .stop")
    assert len(stops) == len(BINS)
    page.hover(stops[2])
    assert page.text(".detail h3") == "21–30 words n = 150"
    for system, row in zip(REPORT["systems"], page.texts(".detail tbody tr"), strict=True):
        wanted = system["length"][2]
        assert all(f"{wanted[key]:.1f}" in row for key in ("bleu", "bleu_low", "bleu_high"))
    page.hover("h1")
    assert "Point at a bin" in page.text(".detail")
    page.js("document.querySelector('.beside .stop').focus()")
    assert page.text(".detail h3") == "1–10 words n = 250"
    page.keys(Keys.ARROW_RIGHT)
    assert page.text(".detail h3") == "11–20 words n = 200"
    page.until("return location.hash === '#length&bin=2'")
    assert page.js("return document.activeElement.getAttribute('aria-selected')") == "true"
    label = page.js("return document.activeElement.getAttribute('aria-label')")
    assert f"{REPORT['systems'][2]['length'][1]['bleu']:.1f}" in label
    examples = [REPORT["sentences"][k] for k in REPORT["systems"][0]["length"][1]["examples"]]
    assert [text.split(" Explore")[0] for text in page.texts(".example")] == [each["source"] for each in examples]
    page.find(".example a").click()
    page.until("return location.hash.startsWith('#attention')")
    assert state(page) == {"attention": str(examples[0]["id"]), "system": "vector-32"}
    page.driver.back()
    page.until("return document.querySelector('.detail h3')?.textContent === '11–20 words n = 200'")


def test_length_of_chosen_systems_and_in_pieces(page: Page, path: Path) -> None:
    page.open(path, "#length&bin=1")
    page.find("section[data-panel=length] input[value=vector-32]").click()
    shown = page.js("return [...document.querySelectorAll('.beside .series')].map((s) => s.dataset.series)")
    assert shown == list(SYSTEMS)[1:]
    assert len(page.texts(".detail tbody tr")) == 3
    page.find("section[data-panel=length] .segments label:nth-child(2)").click()
    page.until("return location.hash.includes('unit=pieces')")
    page.js("document.querySelector('.beside .stop').focus()")
    assert page.text(".detail h3").startswith("2–20 pieces")
    for key, measures in (("failures", 3), ("attention", 2), ("probability", 3), ("recall", 3)):
        page.js("document.querySelector(`input[type=radio][value=${arguments[0]}]`).click()", key)
        page.until("return location.hash.includes('reason=' + arguments[0])", key)
        assert len(page.all(".multiples figure")) == measures
    page.driver.back()
    page.until("return location.hash.includes('reason=probability')")


def test_points_of_a_chart_are_where_the_numbers_say(page: Page, path: Path) -> None:
    """A BLEU of b stands at the height b of the axis that its labels describe."""
    page.open(path, "#length")
    script = """
        const chart = document.querySelector(".beside .chart");
        const ticks = [...chart.querySelectorAll(".axes text[text-anchor=end]")].filter((t) => !isNaN(t.textContent))
          .map((t) => [+t.textContent, +t.getAttribute("y") - 4]);
        const points = [...chart.querySelectorAll(".series:first-child .marker")]
          .map((m) => m.transform.baseVal[0].matrix.f);
        return [ticks, points];
    """
    ticks, points = page.js(script)
    (low, bottom), (high, top) = ticks[0], ticks[-1]
    values = [low + (bottom - y) / (bottom - top) * (high - low) for y in points]
    np.testing.assert_allclose(values, [row["bleu"] for row in REPORT["systems"][0]["length"]], atol=0.05)


def test_bins_of_few_sentences_are_weak_evidence(page: Page, tmp_path: Path) -> None:
    """Hollow, apart from the line, without an interval and no say in the scale; 30 are enough."""
    report = fake_report()
    for system in report["systems"]:
        for number, n in ((1, 30), (2, 29), (3, 3)):
            for part in ("length", "length_pieces", "diagnosis"):
                system[part][number]["n"] = n
        system["length"][3]["bleu_high"] = 1000.0
    file = tmp_path / "few.html"
    file.write_text(render(as_record(report)), encoding="utf-8")
    colors = "return [...document.querySelectorAll(arguments[0])].map((marker) => getComputedStyle(marker).fill)"
    for panel, chart, intervals in (
        ("length", ".beside", 2),
        ("length", ".multiples figure:first-child", 0),
        ("bottleneck", ".pair figure:first-child", 2),
    ):
        page.open(file, f"#{panel}")
        last = f"section[data-panel={panel}] {chart} .series:last-of-type"
        assert [str(each).endswith("weak") for each in page.attributes(f"{last} .marker", "class")] == [0, 0, 1, 1]
        [line] = page.attributes(f"{last} .line", "d")
        assert line is not None and (line.count("L"), line.count("M")) == (1, 3)
        assert len(page.all(f"{last} .interval")) == intervals
        fills = page.js(colors, f"{last} .marker")
        assert fills[0] != fills[2] == fills[3] == "rgb(255, 255, 255)"
        assert "Hollow points: fewer than 30 sentences" in page.text(f"section[data-panel={panel}]")
        assert max(float(text) for text in page.texts(f"{chart} .axes text") if text.isdigit()) <= 100
    page.open(file, "#length")
    page.hover(page.all(".beside .stop")[3])
    assert page.text(".detail h3") == "31–40 words n = 3"


def test_bottleneck(page: Page, path: Path) -> None:
    page.open(path, "#bottleneck")
    systems = {each["name"]: each for each in REPORT["systems"]}
    assert f"{systems['vector-32']['bleu']['value']:.1f}" in page.text(".says")
    page.find("section[data-panel=bottleneck] input[type=range]").send_keys(Keys.ARROW_RIGHT)
    assert page.text(".says").startswith("64 units without attention")
    assert f"{systems['vector-64']['bleu']['value']:.1f}" in page.text(".says")
    assert page.js("return document.querySelector('.pair .series.strong').dataset.series") == "vector-64"
    page.until("return location.hash.includes('width=64')")
    page.find("section[data-panel=bottleneck] .segments label:nth-child(2)").click()
    page.until("return document.querySelector('.says').textContent.startsWith('64 units with attention')")
    assert page.js("return document.querySelector('.pair .series.strong').dataset.series") == LUONG


def test_bottleneck_compares_with_the_nearest_width(page: Page, path: Path) -> None:
    """Attention was trained with 64 units alone: it stands beside every width without, and its slider cannot move."""
    page.open(path, "#bottleneck&width=32")
    shown = "return [...document.querySelectorAll('.pair figure:first-child .series')].map((s) => s.dataset.series)"
    assert page.js(shown) == ["vector-64", LUONG, "vector-32"]
    assert "64 units with attention" in page.text(".says")
    slider = page.find("section[data-panel=bottleneck] input[type=range]")
    assert slider.is_enabled()
    page.find("section[data-panel=bottleneck] .segments label:nth-child(2)").click()
    page.until("return document.querySelector('.says').textContent.startsWith('64 units with attention')")
    assert not slider.is_enabled() and slider.get_attribute("aria-valuetext") == "64 units"
    assert page.js(shown) == ["vector-64", LUONG]


def test_no_label_of_a_chart_covers_another(page: Page, path: Path) -> None:
    page.open(path, "#bottleneck")
    script = """
        const series = arguments[0].map((y, k) => ({ tag: String(k), points: [{ x: 20, y }] }));
        const tags = tagsOf(series, (x) => x, (y) => 100 - y);
        return tags.map((tag) => [tag.textContent, +tag.getAttribute("x"), +tag.getAttribute("y")]);
    """
    assert page.js(script, [50, 52, 90]) == [["2", 12, 14], ["1", 12, 52], ["0", 12, 63]]
    page.open(path, "#training")
    assert page.texts("section[data-panel=training] .axes text[text-anchor=middle]")[0] == "0"


def ids(page: Page) -> list[int]:
    return [int(text.removeprefix("No. ")) for text in page.texts(".sentences .facts a")]


def test_sentences_sorted_filtered_searched(page: Page, path: Path) -> None:
    page.open(path, f"#sentences&system={LUONG}")
    everything = REPORT["sentences"]

    def bleu(each: dict[str, Any], system: str = LUONG) -> float:
        return float(each["systems"][system]["bleu"])

    assert ids(page) == [each["id"] for each in sorted(everything, key=bleu)]
    page.choose("Sort by", "Longest first")
    assert ids(page) == [each["id"] for each in sorted(everything, key=lambda each: -each["length"])]
    page.choose("Sort by", "Least probable per piece")

    def per_piece(each: dict[str, Any]) -> float:
        reading = each["systems"][LUONG]
        return float(reading["log_probability"] / len(reading["chosen"]))

    assert ids(page) == [each["id"] for each in sorted(everything, key=per_piece)]
    page.choose("Compared with", "vector-32")
    gains = sorted(everything, key=lambda each: (-(bleu(each) - bleu(each, "vector-32")), each["id"]))
    assert ids(page) == [each["id"] for each in gains]
    assert f"{bleu(gains[0]) - bleu(gains[0], 'vector-32'):+.1f} over vector-32" in page.text(".sentences li .facts")
    page.choose("System", "vector-64")
    for failure in FAILURES:
        page.choose("Show", failure.capitalize())
        having = {each["id"] for each in everything if failure in each["systems"]["vector-64"]["failures"]}
        assert set(ids(page)) == having
    page.choose("Show", "Best and worst of each length")
    expected = []
    for low, high in BINS:
        members = [each for each in everything if low <= each["length"] <= high]
        ordered = sorted(members, key=lambda each: (-bleu(each, "vector-64"), each["id"]))
        expected += [ordered[0]["id"], ordered[-1]["id"]]
    assert ids(page) == expected
    page.choose("Show", "All sentences")
    word = everything[7]["reference"].split()[2]
    page.find("section[data-panel=sentences] input[type=search]").send_keys(word)
    texts = {e["id"]: [e["source"], e["reference"], *(r["text"] for r in e["systems"].values())] for e in everything}
    assert set(ids(page)) == {k for k, all_ in texts.items() if any(word.lower() in text.lower() for text in all_)}
    page.until("return location.hash.includes('search=')")
    page.find(".sentences .facts a").click()
    page.until("return location.hash.startsWith('#attention')")
    page.driver.back()
    page.until("return location.hash.startsWith('#sentences')")
    assert page.find("section[data-panel=sentences] input[type=search]").get_attribute("value") == word


def test_training(page: Page, path: Path) -> None:
    page.open(path, "#training")
    page.hover(page.all("section[data-panel=training] .stop")[3])
    assert page.text("section[data-panel=training] .note").startswith("Validation BLEU after 400 updates: vector-32 ")
    row = REPORT["systems"][0]["training"]["validation"][3]
    assert f"vector-32 {row[3]:.4g}" in page.text("section[data-panel=training] .note")
    page.choose("Curve", "Training loss")
    assert len(page.all("section[data-panel=training] .stop")) == 20
    page.choose("Sentence", f"{sentence(100)['source'][:69]}…"[: len(sentence(100)["source"])])
    page.choose("System", LUONG)
    samples = REPORT["systems"][2]["samples"]
    assert page.texts(".over-time dt") == ["Source", "Reference", *[f"{each['step']:,}" for each in samples]]
    assert page.texts(".over-time dd")[2:] == [each["lines"][1]["hypothesis"] for each in samples]
    assert len(page.all(".over-time dd:nth-of-type(3) mark")) > 0


def test_a_report_of_one_system_with_little(page: Page, tmp_path: Path) -> None:
    little = fake_report()
    system = little["systems"][0] | {"diagnosis": [], "samples": [], "length_pieces": [], "settings": {}}
    system["length"] = [row | {"examples": []} for row in system["length"]]
    del little["sentences"][1:]
    only = little["sentences"][0]
    only["systems"] = {system["name"]: only["systems"][system["name"]]}
    little |= {"systems": [system], "pairs": [], "bottleneck": [], "selection": ""}
    file = tmp_path / "little.html"
    file.write_text(render(as_record(little)), encoding="utf-8")
    page.open(file)
    assert page.attributes("nav a", "data-panel") == ["overview", "length", "attention", "sentences", "training"]
    for fragment in ("#length&bin=1", "#attention", "#sentences", "#training"):
        page.open(file, fragment)
        assert len(page.all("main > section:not([hidden])")) == 1


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


# --- looks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.slow)])
def test_axe_finds_no_serious_fault(page: Page, path: Path, theme: str, width: int) -> None:
    axe_source()
    page.size(width, theme)
    for fragment in STATES:
        page.open(path, fragment)
        assert page.faults() == [], fragment


@pytest.mark.parametrize("width", [1280, 820, 390])
def test_no_panel_is_wider_than_the_screen(page: Page, path: Path, width: int) -> None:
    page.size(width)
    for fragment in STATES:
        page.open(path, fragment)
        assert page.js("return document.documentElement.scrollWidth") <= width, fragment


def test_light_and_dark(page: Page, path: Path) -> None:
    script = "return getComputedStyle(document.documentElement).backgroundColor"
    page.size(1280, "dark")
    page.open(path)
    dark = page.js(script)
    page.find("#theme").click()
    assert page.js(script) == "rgb(255, 255, 255)" != dark
    assert page.text("#theme") == "Dark"
    page.open(path)
    assert page.js(script) == "rgb(255, 255, 255)"  # remembered
    page.js("localStorage.clear()")


def test_print_has_every_panel(page: Page, path: Path) -> None:
    page.open(path, "#attention=100")
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    assert len(page.all("main > section:not([hidden])")) == 6
    assert page.js("return document.querySelectorAll('.chart').length") >= 6
    page.js("window.dispatchEvent(new Event('afterprint'))")
    assert page.attributes("main > section:not([hidden])", "data-panel") == ["attention"]
    pdf = page.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})
    assert len(pdf["data"]) > 20_000
