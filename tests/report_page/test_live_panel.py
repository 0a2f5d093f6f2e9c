"""A sentence that a person types: translations, weights, beginnings, the beam, words left out."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pytest
import torch
from numpy.linalg import norm
from selenium.webdriver.common.keys import Keys

from nmt.pages.report.rendering import render
from nmt.pages.web.exporting import exported
from nmt.runs.loading import load_run
from nmt.translation.results import Translation
from nmt.translation.translator import Translator
from tests.browser import Page, axe_source
from tests.report_page.made_up import HEADS, LUONG, VECTOR
from tests.report_page.shown import REPORT, painted, state

LINE = "oak elm ash yew"
Translate = Callable[..., Translation]
PANEL = "section[data-panel=translate]"


@pytest.fixture(scope="module")
def translate(runs: dict[str, Path]) -> Translate:
    """The toolkit's translation of a line."""
    translators = {name: Translator.load(run) for name, run in runs.items()}
    return lambda line, system=LUONG, beam=5: translators[system].translate(line, beam_size=beam)


def at(line: str = LINE, **values: Any) -> str:
    return f"#translate={quote(line)}&{urlencode({'system': LUONG} | values)}"


def texts(page: Page) -> dict[str, str]:
    """The translations that are shown, by system."""
    rows = page.each(f"{PANEL} .translation", "[...node.children].map((cell) => cell.innerText)")
    return {name.split("\n")[0].rsplit(" ", 2)[0] if name.endswith("ms") else name: text for name, text, _ in rows}


def opened(page: Page, path: Path, fragment: str) -> None:
    """Open the panel, and wait until every system has answered."""
    page.open(path, fragment)
    settled(page)


def settled(page: Page) -> None:
    page.until(f"return ![...document.querySelectorAll('{PANEL} .translation')].some((row) => /…/.test(row.innerText))")


def test_every_system_translates_while_somebody_types(page: Page, live: Path, translate: Translate) -> None:
    opened(page, live, "#translate")
    assert page.texts(f"{PANEL} [aria-current] a") == [LUONG], "the first with attention"
    box = page.find(f"{PANEL} textarea")
    for line in (LINE, "<b>fir</b> box", "bay"):
        box.clear()
        box.send_keys(line)
        page.until("return location.hash.includes(arguments[0])", f"translate={quote(line, safe='')}")
        settled(page)
        shown = texts(page)
        assert shown[LUONG] == translate(line).text and shown[VECTOR] == translate(line, VECTOR).text
        assert "Not in this page. this one is made up" in shown[HEADS]
        assert not page.all(f"{PANEL} textarea ~ b, .translation b")
    box.send_keys(Keys.CONTROL + "a", Keys.DELETE)
    page.until("return location.hash.includes('translate=%20')")  # without a text, the address would mean the example
    page.until(f"return document.querySelector('{PANEL} > .notice').textContent === 'Type a sentence.'")


def test_weights_and_probabilities_are_those_of_the_toolkit(page: Page, live: Path, translate: Translate) -> None:
    opened(page, live, at(unit="pieces"))
    expected = translate(LINE)
    assert expected.attention is not None
    np.testing.assert_allclose(painted(page, len(expected.pieces)), expected.attention, atol=0.05)
    product = 1.0
    for step in range(len(expected.pieces)):
        assert page.text(f"{PANEL} .step-head h3") == f"Piece {step + 1} of {len(expected.pieces)}"
        product *= float(page.text(f"{PANEL} .candidates .chosen .count"))
        page.js(f"document.querySelector('{PANEL} [aria-label=\"Next step\"]').click()")
    assert product == pytest.approx(math.exp(expected.hypotheses[0].log_probability), abs=0.03)


def test_a_weight_is_given_and_taken_back(page: Page, live: Path) -> None:
    opened(page, live, at(beam=1, unit="pieces"))
    before, whole = painted(page, 5), page.text(PANEL)
    page.js(f"document.querySelector('{PANEL} .heat tbody tr:nth-child(2) td:nth-child(4)').click()")
    slider = page.find(f"{PANEL} .clamp input")
    slider.send_keys(Keys.END)
    page.until("return location.hash.includes('clamps=1')")
    page.until(f"return document.querySelectorAll('{PANEL} .held').length === 1")
    settled(page)
    assert painted(page, len(page.all(f"{PANEL} .heat tbody tr")))[1].tolist() == [0, 0, 1, 0, 0]
    slider.send_keys(Keys.ARROW_LEFT * 4)
    page.until("return location.hash.includes('0.96')")
    settled(page)
    rest = 0.04 * before[1] / (1 - before[1, 2])
    expected = [*rest[:2], 0.96, *rest[3:]]
    np.testing.assert_allclose(painted(page, len(page.all(f"{PANEL} .heat tbody tr")))[1], expected, atol=2e-3)
    assert "changed" in texts(page)
    page.js(f"document.querySelector('{PANEL} .clamp button:last-of-type').click()")  # the network's own
    page.until("return !location.hash.includes('clamps')")
    settled(page)
    np.testing.assert_array_equal(painted(page, 5), before)
    assert page.text(f"{PANEL} .clamp .slider strong") == f"{before[1, 2]:.2f}"
    assert page.text(f"{PANEL} .translations") in whole
    opened(page, live, at(beam=1, unit="pieces", clamps="99:0,0,1,0,0"))  # beyond the translation
    page.until(f"return document.querySelectorAll('{PANEL} .changes button').length === 1")
    page.js(f"document.querySelector('{PANEL} .changes button').click()")
    page.until("return !location.hash.includes('clamps')")


@pytest.mark.parametrize("width", [390, 820])
def test_a_weight_is_dragged_and_taken_back_by_touch(page: Page, live: Path, width: int) -> None:
    with page.touched(width):
        opened(page, live, at(beam=1, unit="pieces"))
        own = painted(page, 5)
        page.touch(f"{PANEL} .heat tbody tr:nth-child(2) td:nth-child(4)")
        page.until("return location.hash.includes('step=2') && location.hash.includes('cell=3')")
        page.touch(f"{PANEL} .clamp input", to=0.98)
        page.until("return location.hash.includes('clamps=1')")
        settled(page)
        weight = float(page.text(f"{PANEL} .clamp .slider strong"))
        assert weight > 0.9
        assert painted(page, len(page.all(f"{PANEL} .heat tbody tr")))[1, 2] == pytest.approx(weight, abs=0.005)
        page.touch(f"{PANEL} .changes button")  # it is above: the navigation must not cover it
        page.until("return !location.hash.includes('clamps')")
        settled(page)
        np.testing.assert_array_equal(painted(page, 5), own)
        page.touch(f"{PANEL} .candidates button")
        page.until("return location.hash.includes('prefix=')")
        page.touch(f"{PANEL} .look label:nth-child(2) input")
        page.until("return location.hash.includes('look=beam')")


def test_a_candidate_is_a_branch(page: Page, live: Path) -> None:
    opened(page, live, at(unit="pieces", step=2))
    first = page.texts(f"{PANEL} .candidates .chosen bdi")
    other = page.text(f"{PANEL} .candidates button")
    assert first != [other]
    page.find(f"{PANEL} .candidates button").click()
    page.until(f"return document.querySelectorAll('{PANEL} .forced').length === 2")
    assert state(page)["prefix"].split()[1] == other
    shown = texts(page)
    assert shown["changed"].split()[:2] == [piece.removeprefix("▁") for piece in state(page)["prefix"].split()]
    assert shown[LUONG] != shown["changed"]
    box = page.find(f"{PANEL} .controls input")
    box.clear()
    box.send_keys("YEW OAK")
    page.until("return location.hash.includes('YEW') && location.hash.includes('OAK')")
    translations = f"[...document.querySelectorAll('{PANEL} .translation')]"
    page.until(f"return {translations}.some((row) => /YEW OAK/.test(row.innerText))")


def test_all_of_the_panel_is_reached_by_keyboard(page: Page, live: Path) -> None:
    opened(page, live, at("oak", beam=3, unit="pieces"))
    for selector, keys, until in (
        ("textarea", " elm ash", "ash"),
        ("input[type=text]", "ASH", "prefix="),
        (".candidates button", "", ""),
        (".heat td", Keys.ARROW_RIGHT, "cell="),
        (".clamp input", Keys.END, "clamps="),
        (".changes button", Keys.ENTER, "^(?!.*prefix=)"),
        (".changes button", Keys.ENTER, "^(?!.*clamps=)"),
        (".look input", Keys.ARROW_RIGHT, "look=beam"),
        (".node", Keys.ARROW_RIGHT + Keys.ENTER, "prefix="),
        (".look input", Keys.ARROW_RIGHT, "look=leave"),
        (".look input", Keys.ARROW_RIGHT, "look=cover"),
        (".look input", Keys.ARROW_RIGHT, "look=states"),
    ):
        for _ in range(80):  # from the end of the page to its beginning
            page.keys(Keys.TAB)
            if page.js("return document.activeElement.matches(arguments[0])", f"{PANEL} {selector}"):
                break
        else:
            pytest.fail(f"Tab does not reach {selector}")
        page.keys(*keys)
        page.until("return new RegExp(arguments[0]).test(location.hash)", until)
        settled(page)
    assert page.find(f"{PANEL} .states").is_displayed()


def test_the_beam_is_a_tree(page: Page, live: Path, translate: Translate) -> None:
    opened(page, live, at(beam=3, look="beam"))
    best = translate(LINE, beam=3)
    nodes = page.each(f"{PANEL} .node.best", "node.textContent")
    assert len(nodes) == len(best.pieces)
    score = best.hypotheses[0].log_probability / ((5 + len(best.pieces)) / 6)
    assert float(nodes[-1].removeprefix("■ ").replace("−", "-")) == pytest.approx(score, abs=0.05)
    dead = page.texts(f"{PANEL} .node.dies")
    assert dead and all("×" in text for text in dead)
    page.js(f"document.querySelector('{PANEL} .node[tabindex=\"0\"]').focus()")
    page.keys(Keys.ARROW_RIGHT)
    assert page.text(f"{PANEL} .description:not(.clamp *)").startswith("“YEW ASH”, log p ")
    page.keys(Keys.ENTER)
    page.until("return location.hash.includes('prefix=')")
    assert len(state(page)["prefix"].split()) == 2


def test_a_word_is_left_out(page: Page, live: Path, translate: Translate) -> None:
    opened(page, live, at(look="leave"))
    page.until(f"return !document.querySelector('{PANEL} .left-out').innerText.includes('…')")
    words = LINE.split()
    assert page.texts(f"{PANEL} .left-out del") == words
    expected = [translate(" ".join(words[:k] + words[k + 1 :])).text for k in range(len(words))]
    assert page.texts(f"{PANEL} .left-out li > :last-child") == expected


def test_coverage_is_the_sum_of_the_weights(page: Page, live: Path, translate: Translate) -> None:
    expected = translate(LINE).attention
    assert expected is not None
    opened(page, live, at(look="cover"))
    found = [float(text) for text in page.texts(f"{PANEL} .coverage section:first-child .count")]
    np.testing.assert_allclose(found, expected.sum(axis=0), atol=0.1)


def bars(page: Page, section: str) -> list[float]:
    """The numbers beside the bars of a section of the states."""
    return [float(text.replace("−", "-")) for text in page.texts(f"{PANEL} .states section:{section} .count")]


@pytest.mark.parametrize("system", [LUONG, VECTOR])
def test_states_are_those_of_the_network(
    page: Page, live: Path, runs: dict[str, Path], translate: Translate, system: str
) -> None:
    """The pieces nearest to a readout, and how far each word moves the encoder, read in either order."""
    line, run = "oak elmash yew", load_run(runs[system], torch.device("cpu"))
    source, target = run.tokenizers.source, run.tokenizers.target
    ids = source.encode([line])[0]
    end = len(ids)
    starts = [place for place, piece in enumerate(source.pieces(ids)) if piece.startswith("▁")]
    words = [list(each) for each in np.split(np.arange(end + 1), [*starts[1:], end])]
    assert max(map(len, words)) > 1
    if run.config.data.reverse_source:
        ids.reverse()
        words[:-1] = [[end - 1 - place for place in reversed(word)] for word in words[:-1]]
    memory = run.model.encode(torch.tensor([[*ids, source.eos_id]]), torch.tensor([end + 1]))
    before = [target.bos_id, target.piece_id(translate(line, system).pieces[0])]
    readouts, _ = run.model.unroll(torch.tensor([before]), memory)
    cosines = torch.cosine_similarity(readouts[0, 1], run.model.output.weight, dim=-1).detach()
    cosines[[target.pad_id, target.bos_id]] = -1
    h = np.pad(memory.annotations[0].detach().numpy(), ((1, 1), (0, 0)))  # from 1; before and after them zeros
    forward, backward = np.split(h, 2, axis=-1)
    read = [
        [(forward[word[0]], forward[word[-1] + 1]) for word in words],
        [(backward[word[-1] + 2], backward[word[0] + 1]) for word in words],
    ]
    moved = [[norm(then - now) / (norm(then) + norm(now)) for now, then in states] for states in read]

    opened(page, live, at(line, system=system, look="states"))
    for k, expected in enumerate(moved):
        np.testing.assert_allclose(bars(page, f"nth-last-child({2 - k})"), expected, atol=0.02)
    opened(page, live, at(line, system=system, look="states", unit="pieces", step=2))
    shown = [target.piece_id(piece) for piece in page.texts(f"{PANEL} .states section:first-child bdi")]
    np.testing.assert_allclose(bars(page, "first-child"), cosines.topk(6).values, atol=0.02)
    np.testing.assert_allclose(bars(page, "first-child"), cosines[shown], atol=0.02)


@pytest.mark.parametrize(
    "line", ["", "   ", "\u200b", "😀😀 oak", "x" * 3000, "oak " * 1000, "\u202eevil \u0000", HEADS], ids=str.__len__
)
def test_any_text_has_an_answer_or_a_clear_refusal(page: Page, live: Path, line: str) -> None:
    opened(page, live, "#translate")
    page.type(f"{PANEL} textarea", line)
    answered = "rows.some((row) => /ms/.test(row)) || document.querySelector('.notice:not(#notice)').textContent"
    rows = f"[...document.querySelectorAll('{PANEL} .translation')].map((row) => row.innerText)"
    page.until(f"const rows = {rows}; return !rows.some((row) => /…/.test(row)) && ({answered})")
    assert not page.all(f"{PANEL} i, {PANEL} script")


def test_half_of_a_character_is_replaced(page: Page, live: Path) -> None:
    opened(page, live, "#translate")
    page.js(
        f"const box = document.querySelector('{PANEL} textarea'); box.focus(); box.value = 'oak \\ud83d';"
        "box.dispatchEvent(new Event('input'))"
    )
    page.until("return decodeURIComponent(location.hash).includes('oak \\ufffd')")


def test_a_state_is_a_link(page: Page, live: Path) -> None:
    fragment = at(beam=3, unit="pieces", step=1.5, look="beam", prefix="▁YEW", clamps="1:0,0,1,0,0")
    opened(page, live, fragment)
    page.until(f"return document.querySelectorAll('{PANEL} .changes button').length === 2")
    assert page.text(f"{PANEL} .step-head h3").startswith("Piece 2 ")
    assert page.text(f"{PANEL} .weights").split(" attends to ")[1].startswith("▁ash 1.00")
    assert page.find(f"{PANEL} .tree").is_displayed()


def test_back_shows_the_sentence_of_the_translations(page: Page, live: Path) -> None:
    opened(page, live, at())
    page.choose("Beam", "2")
    box = page.find(f"{PANEL} textarea")
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys("fig bay")
    page.until("return location.hash.includes('fig')")
    page.driver.back()
    page.until("return !location.hash.includes('fig')")
    assert box.get_property("value") == LINE


def test_nothing_is_chosen_in_the_translation_of_another_sentence(page: Page, live: Path) -> None:
    opened(page, live, at(unit="pieces", step=2))
    inert = f"document.querySelector('{PANEL} .candidates').closest('[inert]')"
    page.until(f"return !{inert}")
    box = f"const box = document.querySelector('{PANEL} textarea'); box.value = 'yew yew';"
    assert page.js(f"{box} box.dispatchEvent(new Event('input')); return {inert}")
    page.until(f"return !{inert}")


def test_a_system_that_cannot_load_keeps_no_other_waiting(page: Page, runs: dict[str, Path], tmp_path: Path) -> None:
    engine = exported(load_run(runs[LUONG], torch.device("cpu")))
    file = tmp_path / "damaged.html"
    damaged = engine | {"source.model": b"\x12\x03\xc0\x01\x01"}  # treats spaces as suffixes
    file.write_text(render(replace(REPORT, engines={LUONG: damaged, VECTOR: engine, HEADS: "made up"})), "utf-8")
    opened(page, file, at("oak"))
    shown = texts(page)
    assert "spaces as suffixes" in shown[LUONG] and shown[VECTOR] == "OAK"


def test_a_weight_is_given_to_the_sentence_that_is_there(page: Page, live: Path) -> None:
    opened(page, live, at(beam=1, unit="pieces", cell=5))
    for more, key in (("", Keys.ARROW_RIGHT), (" fir", Keys.ARROW_LEFT)):  # of the end symbol, then of "fir"
        page.find(f"{PANEL} textarea").send_keys(more)
        page.until("return !location.hash.includes('clamps')")
        settled(page)
        page.find(f"{PANEL} .clamp input").send_keys(key)
        page.until("return location.hash.includes('clamps')")
        settled(page)
        assert state(page)["clamps"].count(",") + 1 == len(page.all(f"{PANEL} .heat thead th"))


def test_a_stored_sentence_can_be_changed(page: Page, live: Path) -> None:
    page.open(live, f"#attention=100&system={LUONG}")
    page.find("a.change").click()
    page.until("return location.hash.startsWith('#translate=')")
    assert state(page)["system"] == LUONG


def test_a_weight_that_is_given_leaves_the_others_in_proportion(page: Page, live: Path) -> None:
    page.open(live)
    give = "return modules['report/page/changes.js'].withWeight(...arguments)"
    assert page.js(give, [0.5, 0.3, 0.2], [1, 2], 0.2) == pytest.approx([0.8, 0.12, 0.08])
    assert page.js(give, [1, 0, 0], [0], 0.4) == pytest.approx([0.4, 0.3, 0.3]), "nothing to divide in proportion"
    assert page.js(give, [0.5, 0.5], [0, 1], 0) == [0, 0], "a row without weight"


def test_weights_in_an_address(page: Page, live: Path) -> None:
    page.open(live)
    again = "const m = modules['report/page/changes.js']; return m.formatClamps(m.parseClamps(arguments[0]))"
    for text in ("3:0.25,0,0.75;4:1,0,0", "0:0.3333,0.3333,0.3333"):
        assert page.js(again, text) == text
    for text in ("", "x", "1:", "1:0.5", "-1:1,0", "1.5:1,0", "1:2,0", "1:1,1", "1:0,0", "1:a,b", "1:NaN,1", ";;:"):
        assert page.js(again, text) == "", text


def test_where_hypotheses_part_and_die(page: Page, live: Path) -> None:
    """a b ends; a c dies at once; d e is left when the search ends; the best translation is in the first lane."""
    page.open(live)
    tree = """
      const grow = (parent, token, logProb, ended = false) =>
        ({ parent, token, logProb, ended, length: parent.length + 1 });
      const root = { parent: null, length: 0 };
      const [a, d] = [grow(root, "a", -1), grow(root, "d", -2)];
      const [ab, ac, de] = [grow(a, "b", -2), grow(a, "c", -5), grow(d, "e", -3)];
      const [end, more] = [grow(ab, "end", -2, true), grow(de, "f", -9)];
      const steps = [[[a, d], []], [[ab, de, ac], []], [[more], [end]]].map(([live, ended]) => ({ live, ended }));
      return modules['report/page/beam.js'].beamTree(steps, ({ logProb }) => logProb).slice(1)
        .map(({ hypothesis, lane, fate }) => [hypothesis.token, lane, fate]);
    """
    lives = [["a", 0, "lives"], ["d", 2, "lives"], ["b", 0, "lives"], ["c", 1, "dies"], ["e", 2, "lives"]]
    assert page.js(tree) == [*lives, ["end", 0, "ends"], ["f", 2, "left"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("look", ["weights", "beam", "leave", "cover", "states"])
def test_axe_finds_no_serious_fault(page: Page, live: Path, theme: str, look: str) -> None:
    axe_source()
    width = 390 if theme == "dark" else 1280
    page.size(width, theme)
    opened(page, live, at(look=look, prefix="▁YEW"))
    assert page.faults() == []
    assert page.js("return document.documentElement.scrollWidth") <= width
