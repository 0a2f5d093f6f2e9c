"""The page as a whole: panels, links, what it refuses, looks; and that nothing leaves it."""

from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from nmt.pages.report.rendering import Sentence
from tests.browser import Page, axe_source
from tests.report_page.made_up import BINS, FAILURES, HEADS, HOSTILE, LUONG
from tests.report_page.shown import REPORT, STATES, sentence


def test_every_panel_opens_and_the_back_button_returns(page: Page, path: Path) -> None:
    page.open(path)
    names = ["overview", "length", "translate", "attention", "sentences", "training", "film"]
    assert page.attributes("nav a", "data-panel") == names
    for name in names[1:]:
        page.find(f"nav a[data-panel={name}]").click()
        page.until("return location.hash.startsWith(arguments[0])", f"#{name}")
        assert page.attributes("main > section:not([hidden])", "data-panel") == [name]
        assert page.attributes("nav a[aria-current=page]", "data-panel") == [name]
    for name in reversed(names[:-1]):
        page.driver.back()
        page.until("return !document.querySelector(`section[data-panel=${arguments[0]}]`).hidden", name)
        assert page.js("return document.title").lower().startswith(name)


def test_nothing_leaves_the_page_and_no_panel_is_wider_than_the_screen(page: Page, path: Path) -> None:
    page.requests()
    for fragment in STATES:
        page.open(path, fragment)
        for width in (390, 1280):
            page.size(width)
            assert page.js("return document.documentElement.scrollWidth") <= width, fragment
    own = {f"{page.address}{fragment}" for fragment in STATES} | {page.address}
    assert {address for address in page.requests() if not address.startswith(("about:", "data:"))} <= own
    assert page.js("return performance.getEntriesByType('resource').every((each) => each.name.startsWith('data:'))")
    assert page.js("return document.querySelector('meta[http-equiv]').content").startswith("default-src 'none'")


def test_hostile_text_stays_text(page: Page, path: Path) -> None:
    for fragment in ("#overview", "#attention=250&system=vector-64", "#sentences&search=onerror", "#length"):
        page.open(path, fragment)
        assert not page.all("img:not(figure img), main script, nav script, main i")
        assert "owned" not in page.js("return document.title")
    assert page.text("h1") == REPORT.title
    page.open(path, "#sentences&search=onerror")
    assert page.texts(".sentences dd")[:2] == [HOSTILE, HOSTILE]
    assert HEADS in page.texts("section[data-panel=overview] tbody th")


def test_figures_are_drawn(page: Page, path: Path) -> None:
    page.open(path, "#length")
    assert page.js("const [image] = document.images; return image.decode().then(() => image.naturalWidth)") == 40


def test_overview_length_and_training_are_there_without_javascript(page: Page, path: Path) -> None:
    page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.driver.get("about:blank")
        page.driver.get(path.as_uri())
    finally:
        page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    rows = page.texts("section[data-panel=overview] table:first-of-type tbody tr")
    for row, system in zip(rows[: len(REPORT.systems)], REPORT.systems, strict=True):
        assert system.name in row and f"{system.scores['bleu']['value']:.2f}" in row and f"{system.parameters:,}" in row
        assert "10m 40s" in row  # as everywhere: 640.5 s
    assert page.texts("section[data-panel=length] tbody tr:first-child td") == ["1–10", "250", "–", "–", "0.98"]
    overview = page.text("section[data-panel=overview]")
    assert "tok:13a" in overview and REPORT.findings[0] in overview
    assert REPORT.sentences[3].source in overview
    assert "Samples over time" in page.text("section[data-panel=training]")
    assert page.texts("details.terms dt code") == ["</s>"]


def test_a_state_is_a_link(page: Page, path: Path) -> None:
    """What the address says is what is shown, however one came there."""
    page.open(path, "#attention=70&system=luong-64")
    page.find("[aria-label='Next step']").click()
    page.find("[aria-label='Next step']").click()
    page.js("document.querySelector('input[type=radio][value=pieces]').click()")
    page.until("return location.hash.includes('unit=pieces') && location.hash.includes('step=3')")
    panel = "const panel = document.querySelector('section[data-panel=attention]').cloneNode(true);"
    spoken = "panel.querySelector('.steps [role=status]').remove(); return panel.textContent"  # a while after the rest
    shown, fragment = page.js(panel + spoken), page.fragment
    page.open(path, f"#{fragment}")
    assert page.js(panel + spoken) == shown
    assert page.text(".step-head h3") == f"Piece 3 of {len(sentence(70).systems[LUONG].chosen)}"


def test_a_link_to_what_is_not_there_says_so(page: Page, path: Path) -> None:
    for fragment, missing, shown in (
        ("attention=999&system=nope", "no sentence “999” and no system “nope”", "attention=260"),
        ("attention=100&view=head 9", "no layer and head “head 9”", "attention=100&view=attention"),
        ("nonsense=3", "no panel “nonsense”", "overview"),
    ):
        page.open(path, f"#{fragment}")
        assert page.text("#notice") == f"This report has {missing}. The nearest match is shown."
        assert page.attributes("#notice", "aria-live") == ["polite"] and page.find("#notice").is_displayed()
        assert page.fragment == shown
    page.size(1000)  # drawing again does not take it back; going on does
    assert page.text("#notice")
    page.find("nav a[data-panel=sentences]").click()
    page.until("return document.getElementById('notice').textContent === ''")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_fault(page: Page, path: Path, theme: str) -> None:
    axe_source()
    page.size(390 if theme == "dark" else 1280, theme)
    for fragment in STATES:
        page.open(path, fragment)
        assert page.faults() == [], fragment


FOCUSED = """
    const node = document.activeElement;
    const label = node.getAttribute("aria-label") ?? node.labels?.[0]?.textContent ?? node.textContent;
    return [node.localName, node.getAttribute("role") ?? node.type ?? "", label.trim()];
"""


def test_the_explorer_by_the_tab_key(page: Page, path: Path) -> None:
    """Every control has a name, and none swallows the focus."""
    page.open(path, f"#attention=100&system={LUONG}&step=2")
    page.keys(Keys.TAB)  # the link stands outside the window until it has the focus
    assert page.js(FOCUSED) == ["a", "", "Skip to the content"]
    page.keys(Keys.ENTER)
    assert page.js(FOCUSED) == ["h2", "", "Attention"] and page.fragment.startswith("attention=100")
    stops: list[str] = []
    while len(stops) < 40:
        page.keys(Keys.TAB)
        tag, kind, name = page.js(FOCUSED)
        if tag == "body":
            break
        assert name, (tag, kind)
        stops.append(kind or tag)
    explorer = ["select-one", "button", "button", "select-one", "radio", "range", "option", "button", "button"]
    assert stops == [*explorer, "gridcell", *["a"] * len(REPORT.systems), "summary"]
    names = "return [...document.querySelectorAll(arguments[0])].map((node) => node.labels[0].textContent)"
    assert page.js(names, "section[data-panel=attention] input[type=range]") == ["Temperature 1 (as trained)"]


def test_print_has_every_panel(page: Page, path: Path) -> None:
    page.open(path, "#attention=100")
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    assert len(page.all("main > section:not([hidden])")) == 7
    page.js("window.dispatchEvent(new Event('afterprint'))")
    assert page.attributes("main > section:not([hidden])", "data-panel") == ["attention"]
    pdf = page.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})
    assert len(pdf["data"]) > 20_000


def ids(page: Page) -> list[int]:
    return [int(text.removeprefix("No. ")) for text in page.texts(".sentences .facts a")]


def test_sentences_sorted_filtered_searched(page: Page, path: Path) -> None:
    page.open(path, f"#sentences&system={LUONG}")
    everything = REPORT.sentences

    def bleu(each: Sentence, system: str = LUONG) -> float:
        return float(each.systems[system].scores["BLEU"])

    assert ids(page) == [each.id for each in sorted(everything, key=bleu)]
    page.choose("Sort by", "Longest first")
    assert ids(page) == [each.id for each in sorted(everything, key=lambda each: -each.length)]
    page.choose("Sort by", "Least probable per piece")

    def per_piece(each: Sentence) -> float:
        reading = each.systems[LUONG]
        return float(reading.log_probability / len(reading.chosen))

    assert ids(page) == [each.id for each in sorted(everything, key=per_piece)]
    page.choose("Compared with", "vector-32")
    gains = sorted(everything, key=lambda each: (-(bleu(each) - bleu(each, "vector-32")), each.id))
    assert ids(page) == [each.id for each in gains]
    assert f"{bleu(gains[0]) - bleu(gains[0], 'vector-32'):+.1f} over vector-32" in page.text(".sentences li .facts")
    page.choose("System", "vector-64")
    for failure in FAILURES:
        page.choose("Show", failure.capitalize())
        having = {each.id for each in everything if failure in each.systems["vector-64"].failures}
        assert set(ids(page)) == having
    page.choose("Show", "Best and worst of each length")
    expected = []
    for low, high in BINS:
        members = [each for each in everything if low <= each.length <= high]
        ordered = sorted(members, key=lambda each: (-bleu(each, "vector-64"), each.id))
        expected += [ordered[0].id, ordered[-1].id]
    assert ids(page) == expected
    page.choose("Show", "All sentences")
    word = everything[7].reference.split()[2]
    page.find("section[data-panel=sentences] input[type=search]").send_keys(word)
    texts = {e.id: [e.source, e.reference, *(r.text for r in e.systems.values())] for e in everything}
    assert set(ids(page)) == {k for k, all_ in texts.items() if any(word.lower() in text.lower() for text in all_)}
    page.until("return location.hash.includes('search=')")
    page.find(".sentences .facts a").click()
    page.until("return location.hash.startsWith('#attention')")
    page.driver.back()
    page.until("return location.hash.startsWith('#sentences')")
    assert page.find("section[data-panel=sentences] input[type=search]").get_attribute("value") == word
