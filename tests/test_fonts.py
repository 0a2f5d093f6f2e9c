"""Fonts: texts of most scripts are drawn, and a warning names packages if a font is missing."""

import warnings

import pytest
from matplotlib.figure import Figure

from nmt.errors import NmtWarning
from nmt.evaluation.figures import style as plots
from nmt.evaluation.figures.style import fonts_for, png, style, svg

ARABIC = "السلام"


def drawn(text: str) -> Figure:
    with style():
        figure = Figure(figsize=(2, 1))
        figure.text(0.1, 0.5, text)
    return figure


@pytest.mark.parametrize("render", [png, svg])
def test_a_missing_font_is_named_with_its_packages_once(monkeypatch: pytest.MonkeyPatch, render: type) -> None:
    monkeypatch.setattr(plots, "other_fonts", list)
    with pytest.warns(NmtWarning) as caught:
        assert render(drawn("latin हिन्दी 直接の 우리 🫠"))
    [message] = [str(each.message) for each in caught]
    assert all(package in message for package in ("fonts-noto-core", "fonts-noto-cjk", "fonts-symbola"))


@pytest.mark.parametrize("text", ["▁piece …", "Ærøskøbing Ελλάδα Русский", ARABIC, "می\u200cخواهم"])
def test_the_font_of_matplotlib_has_most_of_europe_and_the_near_east(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        png(drawn(text))


def test_only_a_text_that_needs_them_has_other_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "other_fonts", lambda: ["Noto Sans Thai"])
    assert (fonts_for("latin"), fonts_for("ไทย")) == (["DejaVu Sans"], ["DejaVu Sans", "Noto Sans Thai"])
