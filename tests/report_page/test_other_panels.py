"""Length, bottleneck, sentences and training."""

from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import numpy as np
from selenium.webdriver.common.keys import Keys

from nmt.report.render import render
from tests.browser import Page
from tests.report_page.made_up import BINS, FAILURES, SYSTEMS, fake_report
from tests.report_page.shown import LUONG, REPORT, as_record, sentence, state


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
    assert not page.find(".missing").is_displayed()
    samples = REPORT["systems"][2]["samples"]
    assert page.texts(".over-time dt") == ["Source", "Reference", *[f"Update {each['step']:,}" for each in samples]]
    assert page.texts(".over-time dd")[2:] == [each["lines"][1]["hypothesis"] for each in samples]
    assert len(page.all(".over-time dd:nth-of-type(3) mark")) > 0


def test_samples_that_are_not_there_are_explained(page: Page, tmp_path: Path) -> None:
    """Validated from update 100 on; one system has samples from 700 on, one has none, and one none of the sentence."""
    report = fake_report()
    none, late, fewer, whole = report["systems"]
    none["samples"] = []
    late["samples"] = [each for each in late["samples"] if each["step"] >= 700]
    fewer["samples"] = [each | {"lines": each["lines"][1:]} for each in fewer["samples"]]
    file = tmp_path / "late.html"
    file.write_text(render(as_record(report)), encoding="utf-8")

    def said(system: str) -> str:
        page.open(file, f"#training&system={quote_plus(system)}")
        assert page.find(".missing").is_displayed()
        return page.text(".missing")

    without = "Without any samples: vector-32."
    assert said(late["name"]) == (
        "vector-64 was validated from update 100 on, and its samples begin at update 700: none were stored "
        "before (training.validation.samples says how many). "
        f"{without}"
    )
    assert page.texts(".over-time dt")[2:] == ["Update 700", "Update 1,000"]
    source = whole["samples"][0]["lines"][0]["source"]
    page.choose("Sentence", f"{source[:69]}…" if len(source) > 70 else source)
    page.choose("System", LUONG)
    page.until("return location.hash.includes('luong')")
    assert page.text(".missing") == f"luong-64 stored no sample of this sentence. {without}"
    assert said(whole["name"]) == without
