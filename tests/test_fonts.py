"""Fonts: which are chosen for a text, and what is said where one is missing. Both hold with any fonts installed."""

import warnings
from collections.abc import Iterator

import pytest
from matplotlib.figure import Figure

from nmt.errors import NmtWarning
from nmt.plots import fonts
from nmt.plots.style import plain, png, style, svg

HINDI, CHINESE, JAPANESE, KOREAN, ARABIC = "हिन्दी", "直接", "直接の", "直接 우리", "السلام"


@pytest.fixture
def only_dejavu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without fonts but those of matplotlib."""
    fonts._has.cache_clear()
    monkeypatch.setattr(fonts, "installed", lambda: ("DejaVu Sans",))
    yield
    fonts._has.cache_clear()


@pytest.fixture
def every_font(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with all of FONTS, each with the characters that its name says."""
    scripts = {"Devanagari": "हिन्दी", "CJK": "直接の우리", "Symbola": "🙂"}
    monkeypatch.setattr(fonts, "installed", lambda: fonts.FONTS)
    monkeypatch.setattr(
        fonts,
        "_has",
        lambda font, character: (
            character.isascii()
            if font == "DejaVu Sans"
            else any(name in font and character in letters for name, letters in scripts.items())
        ),
    )


def drawn(text: str) -> Figure:
    with style():
        figure = Figure(figsize=(2, 1))
        figure.text(0.1, 0.5, text)
    return figure


@pytest.mark.usefixtures("only_dejavu")
@pytest.mark.parametrize(
    ("text", "kinds", "package"),
    [
        ("வணக்கம் " + HINDI, "Devanagari and Tamil", "fonts-noto-core"),
        (JAPANESE + KOREAN, "Chinese, Japanese and Korean", "fonts-noto-cjk"),
        ("🫠", "symbol and emoji", "fonts-symbola"),
    ],
)
def test_a_missing_font_is_named_with_its_package(text: str, kinds: str, package: str) -> None:
    with pytest.warns(NmtWarning) as caught:
        png(drawn(f"latin {text}"))
    [message] = [str(each.message) for each in caught]
    assert message == (
        f"no font for {kinds} characters: figures show boxes in their place; install one, on Debian and Ubuntu with: "
        f"apt install {package}"
    )


@pytest.mark.usefixtures("only_dejavu")
def test_each_package_is_named_once() -> None:
    with pytest.warns(NmtWarning) as caught:
        svg(drawn(f"{HINDI} {CHINESE}"))
    assert [str(each.message).rpartition(" ")[2] for each in caught] == ["fonts-noto-core", "fonts-noto-cjk"]


@pytest.mark.parametrize("text", ["▁piece …", "Ærøskøbing Ελλάδα Русский", ARABIC, "می\u200cخواهم"])
def test_the_font_of_matplotlib_has_most_of_europe_and_the_near_east(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        png(drawn(text))
    assert fonts.families(text) == ["DejaVu Sans"]


@pytest.mark.usefixtures("every_font")
def test_fonts_follow_the_text_and_the_language_of_its_chinese_characters() -> None:
    assert fonts.families("latin") == ["DejaVu Sans"]
    assert fonts.families(f"a {HINDI}") == ["DejaVu Sans", "Noto Sans Devanagari"]
    assert fonts.families(CHINESE) == ["DejaVu Sans", "Noto Sans CJK SC"]
    assert fonts.families(JAPANESE) == ["DejaVu Sans", "Noto Sans CJK JP"]
    assert fonts.families(KOREAN) == ["DejaVu Sans", "Noto Sans CJK KR"]


def test_joiners_stay_and_other_controls_are_shown() -> None:
    assert plain("می\u200cخواهم \u200d", 20) == "می\u200cخواهم \u200d"
    assert plain("\u202eabc\u2066", 20) == "·abc·"
