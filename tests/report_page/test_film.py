"""The film of learning: frames, play, systems side by side."""

from pathlib import Path

import numpy as np
from selenium.webdriver.common.keys import Keys

from nmt.evaluation.diagnosis import entropy
from tests.browser import Page
from tests.report_page.made_up import HEADS, HOSTILE, LUONG, unpacked
from tests.report_page.shown import REPORT, state

FILMS = {each.name: each.film for each in REPORT.systems if each.film}
PANEL = "section[data-panel=film]"


def test_every_system_shows_its_last_frame_before_an_update(page: Page, path: Path) -> None:
    page.open(path, "#film=1&update=400&unit=pieces")
    for update, numbers in ((400, (1, 0)), (900, (1, 1)), (1200, (2, 1))):
        for place, (system, number) in enumerate(zip((LUONG, HEADS), numbers, strict=True)):
            filmed = FILMS[system]["sentences"][0]
            weights = unpacked(filmed["frames"][number], sum(map(len, filmed["target_words"])))
            expected = weights / weights.sum(axis=1, keepdims=True)
            painted = page.weights(f"{PANEL} figure:nth-of-type({place + 1}) .heat tbody td")
            np.testing.assert_allclose(np.reshape(painted, expected.shape), expected, atol=6e-5)
            made, score = (FILMS[system][key][number] for key in ("updates", "scores"))
            mean = f"mean entropy {entropy(expected):.2f} bits"
            assert page.texts(f"{PANEL} figure .note")[place] == f"Update {made:,}: {score}, {mean}"
        assert page.text(f"{PANEL} .slider strong") == f"{update:,}"
        page.find(f"{PANEL} input[type=range]").send_keys(Keys.ARROW_RIGHT)
    hints = [f"{name}: no attention, so there is no film." for name in ("vector-32", "vector-64")]
    assert page.texts(f"{PANEL} .film + div > .hint") == hints


def test_the_film_plays_to_its_end_and_by_arrow_keys(page: Page, path: Path) -> None:
    page.open(path, "#film=2&unit=words")
    assert page.texts(f"{PANEL} figcaption") == [LUONG]
    assert f"{HEADS}: no film of this sentence in its run." in page.texts(f"{PANEL} .film + div > .hint")
    record = "{shown = []; new MutationObserver(() => shown.push(node.textContent)).observe(node, {childList: true})}"
    page.each(f"{PANEL} .slider strong", record)
    assert page.each(f"{PANEL} .controls button", "(node.focus(), node.click(), node.textContent)") == ["❚❚ Pause"]
    page.until(f"return document.querySelector('{PANEL} .controls button').textContent === '▶ Play'")
    assert page.js("return shown") == ["100", "400", "900", "1,200"]
    page.keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert page.text(f"{PANEL} .slider strong") == "400"
    page.until("return location.hash.includes('update=400')")
    assert state(page) == {"film": "2", "unit": "words", "update": "400"}


def test_a_row_is_lit_in_every_system(page: Page, path: Path) -> None:
    page.open(path, "#film=1")
    page.js(f"document.querySelector('{PANEL} .heat td[tabindex=\"0\"]').focus()")
    page.keys(Keys.ARROW_DOWN)
    words = FILMS[LUONG]["sentences"][0]["target_words"]
    assert page.texts(f"{PANEL} tr.lit th") == ["".join(words[1]).removeprefix("▁")] * 2
    page.choose("Sentence", HOSTILE)
    assert page.fragment == "film=3" and page.texts(f"{PANEL} dd") == [HOSTILE, HOSTILE]
