"""Figures of any kind: whole files, any text, one look, and no global state changed."""

import csv
import json
import struct
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import matplotlib
import pytest
from matplotlib.figure import Figure

from nmt.cli.length_curve import Stem
from nmt.cli.options import reader
from nmt.errors import DataError, NmtWarning
from nmt.evaluation.figures.diagnosis import draw_diagnoses
from nmt.evaluation.figures.files import make_folder, stem_of
from nmt.evaluation.figures.length_curve import About
from nmt.evaluation.figures.style import fonts_for, plain, png, series, svg
from nmt.evaluation.significance import Comparison
from nmt.experiments.length_curve import LengthCurve
from tests.figures import ABOUT, COLUMNS, DECADES, IGNORE_BOXES, NASTY, SCORES, boxes, draw, reasons, system, systems

CURVE = LengthCurve(systems(2), ABOUT, (Comparison("RNNsearch-00", "RNNsearch-10", 400, 1.5, 0.5, 2.5, 0.25),))


def test_colors_and_markers_differ() -> None:
    assert len({str(series(number)) for number in range(56)}) == 56
    for one, other in pairwise(map(series, range(56))):
        assert all(one[key] != other[key] for key in ("color", "marker"))


def test_the_four_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert reader(Stem)("~/curve.png") == "/home/me/curve"
    assert {stem_of(f"out/curve.v2{ending}") for ending in ("", ".svg", ".PNG")} == {"out/curve.v2"}
    stem = tmp_path / "new" / "folder" / "curve.v2"
    paths = CURVE.write(stem)
    assert [path.name for path in paths] == ["curve.v2.png", "curve.v2.svg", "curve.v2.json", "curve.v2.csv"]
    assert sorted(stem.parent.iterdir()) == sorted(paths)
    assert struct.unpack(">II", paths[0].read_bytes()[16:24]) == (1500, 1360)
    assert paths[1].read_text("utf-8").startswith("<?xml")
    table = paths[3].read_bytes()
    assert table.startswith(b"system,low,high,n,bleu,bleu_low,bleu_high,length_ratio\nRNNsearch-00,1,10,")
    rows = list(csv.DictReader(table.decode().splitlines()))
    assert len(rows) == 16
    assert list(rows[9].values()) == ["RNNsearch-10", "11", "20", "400", "38.7", "36.7", "40.7", "0.9877"]

    numbers = json.loads(paths[2].read_text("utf-8"))
    assert numbers["binned_by"] == "words of the raw source line"
    assert (numbers["test_set"], numbers["sentences"]) == ("test_lenstrat", 3200)
    assert numbers["signature"] == SCORES["bleu"].signature
    assert numbers["interval"] == {"level": 0.95, "method": "percentile bootstrap", "resamples": 1000, "seed": 1}
    assert numbers["comparisons"] == [asdict(each) for each in CURVE.comparisons]
    assert numbers["systems"]["RNNsearch-10"]["chrf"] == {"score": 55.5, "signature": "c"}
    assert tuple(numbers["systems"]["RNNsearch-00"]["by_length"][0]) == COLUMNS


def test_the_same_numbers_give_the_same_bytes_and_matplotlib_is_left_as_it_was(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    first, second = ([path.read_bytes() for path in CURVE.write(tmp_path / name)] for name in ("a", "b"))
    assert first == second and b"<dc:date>" not in first[1]
    assert dict(matplotlib.rcParams) == before


def test_files_that_cannot_be_written_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "curve.json").mkdir()
    with pytest.raises(DataError, match=r"curve\.json: cannot be written: Is a directory"):
        CURVE.write(tmp_path / "curve")
    assert not [path.name for path in tmp_path.iterdir() if path.name.endswith(".new")]
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"file: the directory cannot be created: File exists"):
        make_folder(tmp_path / "file" / "curve")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(DataError, match=rf"{tmp_path}: cannot be written to: Permission denied; choose another"):
        make_folder(tmp_path / "curve")


@IGNORE_BOXES
def test_any_text_is_shown_as_it_is(tmp_path: Path) -> None:
    several = (system(NASTY), system("_hidden"), system("$"))
    texts = [text for text, _ in boxes(draw(several))]
    for name in ("$x^2_{a$ & <b> \\frac ·· 漢字 🙂 ·%s", "_hidden", "$"):
        assert f"{name} (BLEU 31.2)" in texts
    LengthCurve(several, About(NASTY, 10, "words")).write(tmp_path / "x")


def test_plain() -> None:
    assert plain("a\tb\u2028c\ud800", 10) == "a·b·c·"
    assert (plain("abcdefgh", 5), plain("abcde", 5)) == ("abcd…", "abcde")
    assert plain("می\u200cخواهم \u200d", 20) == "می\u200cخواهم \u200d", "joiners stay"
    assert plain("\u202eabc\u2066", 20) == "·abc·"


def test_a_system_looks_the_same_in_every_figure() -> None:
    several = [reasons("none", DECADES, attention=False), reasons("Bahdanau", DECADES), reasons("Luong", DECADES)]
    for figure in draw_diagnoses(several, about=ABOUT, unit="words").values():
        [legend] = figure.legends
        for line, text in zip(legend.get_lines(), legend.get_texts(), strict=True):
            look = series(["none", "Bahdanau", "Luong"].index(text.get_text()))
            assert (line.get_color(), line.get_marker()) == (look["color"], look["marker"])


# --- fonts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("render", [png, svg])
def test_a_missing_font_is_named_with_its_packages_once(monkeypatch: pytest.MonkeyPatch, render: type) -> None:
    monkeypatch.setattr("nmt.evaluation.figures.style.other_fonts", list)
    figure = Figure(figsize=(2, 1))
    figure.text(0.1, 0.5, "latin हिन्दी 直接の 우리 🫠")
    with pytest.warns(NmtWarning) as caught:
        assert render(figure)
    [message] = [str(each.message) for each in caught]
    assert all(package in message for package in ("fonts-noto-core", "fonts-noto-cjk", "fonts-symbola"))


def test_only_a_text_that_needs_them_has_other_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.evaluation.figures.style.other_fonts", lambda: ["Noto Sans Thai"])
    assert (fonts_for("latin"), fonts_for("ไทย")) == (["DejaVu Sans"], ["DejaVu Sans", "Noto Sans Thai"])
