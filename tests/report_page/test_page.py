"""The page as a whole: panels, links, what it refuses, looks; and that nothing leaves it."""

from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.common.keys import Keys

from nmt.report.render import render
from tests.browser import Page, axe_source
from tests.report_page.made_up import HOSTILE, fake_report
from tests.report_page.shown import HEADS, LUONG, REPORT, STATES, as_record, sentence


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
    assert f"{REPORT['notes'][0]}." in cells


def test_a_difference_that_rounds_to_zero_has_no_sign(page: Page, path: Path, tmp_path: Path) -> None:
    page.open(path)
    values = [0.04, -0.04, 0, -0.06, 0.06, 12]
    assert page.js("return arguments[0].map((value) => signed(value))", values) == [
        "0.0", "0.0", "0.0", "−0.1", "+0.1", "+12.0"
    ]  # fmt: skip
    report = fake_report()
    for pair, value in zip(report["pairs"], (0.04, -0.04, -0.06), strict=False):
        pair["difference"] = value
    file = tmp_path / "zero.html"
    file.write_text(render(as_record(report)), encoding="utf-8")
    page.open(file)
    cells = [
        text.split()[0] for text in page.texts("section[data-panel=overview] .scroll:last-of-type td") if "p " in text
    ]
    assert cells.count("0.0") == 2 and "−0.1" in cells and "−0.0" not in cells


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
        ("attention=999&system=nope", ["no sentence “999”", "no system “nope”"], "attention=260"),
        ("attention=118&system=luong-64", ["no sentence “118”"], "attention=120&system=luong-64"),
        ("attention=100&view=head 9", ["no layer and head “head 9”"], "attention=100&view=attention"),
        ("sentences&system=x&against=y", ["no system “x”", "no system “y”"], "sentences"),
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
    assert page.text("#notice") == f"This report has {' and '.join(missing)}. The nearest match is shown."
    assert page.attributes("#notice", "aria-live") == ["polite"] and page.find("#notice").is_displayed()
    assert page.fragment == shown
    if shown == "attention=260":
        assert page.all("section[data-panel=attention] .pictures:not([hidden])")  # of the first system that attends
    page.size(1000)  # drawing again does not take it back; going on does
    assert page.text("#notice")
    page.find("nav a[data-panel=sentences]").click()
    page.until("return document.getElementById('notice').textContent === ''")


def test_a_link_to_a_head_opens_a_report_without_attention(page: Page, tmp_path: Path) -> None:
    report = fake_report()
    for system in report["systems"]:
        system |= {"attends": False, "views": []}
    for each in report["sentences"]:
        for reading in each["systems"].values():
            reading["attention"] = None
    file = tmp_path / "none.html"
    file.write_text(render(as_record(report)), encoding="utf-8")
    page.open(file, "#attention=100&view=head 9")
    assert page.text("#notice").startswith("This report has no layer and head “head 9”.")
    assert page.fragment == "attention=100"
    assert page.attributes("main > section:not([hidden])", "data-panel") == ["attention"]


def test_links_that_the_page_makes_are_not_refused(page: Page, path: Path) -> None:
    for fragment in STATES:
        page.open(path, fragment)
        assert page.text("#notice") == "" and f"#{page.fragment}" == fragment
    page.open(path, "#attention=100&system=nope")
    page.find("[aria-label='Next step']").click()
    assert page.text("#notice") == ""


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


@pytest.mark.parametrize("fragment", ["#overview", "#attention=240&system=luong-64"])
def test_what_can_be_scrolled_sideways_fades_as_far_as_there_is_more(page: Page, path: Path, fragment: str) -> None:
    page.size(390)
    page.open(path, fragment)
    script = """
        const nodes = [...document.querySelectorAll("nav ul, main > section:not([hidden]) .scroll")];
        const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        const fades = async (left) => {
          for (const node of nodes) node.scrollLeft = left;
          await frame();
          return nodes.map((node) => parseFloat(getComputedStyle(node).getPropertyValue("--fade")));
        };
        const more = nodes.map((node) => node.scrollWidth - node.clientWidth);
        return (async () => [more, await fades(0), await fades(1e4)])();
    """
    more, begin, end = page.js(script)
    assert max(more) > 40
    np.testing.assert_allclose(begin, np.minimum(more, 40), atol=0.5)
    np.testing.assert_allclose(end, 0, atol=0.5)
    regions = "main > section:not([hidden]) .scroll"
    assert set(page.attributes(regions, "tabindex")) == {"0"} and all(page.attributes(regions, "aria-label"))


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
    explorer = ["combobox", "button", "button", "select-one", "radio", "range", "option", "button", "button"]
    assert stops == [*explorer, "region", "gridcell", *["a"] * len(REPORT["systems"])]
    names = "return [...document.querySelectorAll(arguments[0])].map((node) => node.labels[0].textContent)"
    assert page.js(names, "section[data-panel=attention] input[type=range]") == ["Temperature 1 (as trained)"]


def test_the_focus_follows_a_link(page: Page, path: Path) -> None:
    """To the heading of another panel, which is on the screen; to the same link where the list is drawn again."""
    page.open(path, "#sentences")
    page.all(".sentences .facts a")[-1].send_keys(Keys.ENTER)
    page.until("return location.hash.startsWith('#attention')")
    assert page.js(FOCUSED) == ["h2", "", "Attention"]
    assert page.js("const y = document.activeElement.getBoundingClientRect().top; return y > 40 && y < innerHeight")
    page.find(".translation:nth-child(4) a").send_keys(Keys.ENTER)
    page.until("return location.hash.includes('vector-64')")
    assert page.js(FOCUSED) == ["a", "", "vector-64"]
    page.find("nav a[data-panel=training]").send_keys(Keys.ENTER)
    assert page.js(FOCUSED) == ["a", "", "Training"]


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
