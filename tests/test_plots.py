"""Figures of any kind: whole files, any text, one look, and no global state changed."""

import csv
import errno
import json
import os
import struct
import tempfile
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, Never

import matplotlib
import pytest

from nmt.errors import DataError
from nmt.evaluation.by_length import COLUMNS
from nmt.evaluation.figures.diagnosis import FIGURES, draw_diagnosis
from nmt.evaluation.figures.files import make_folder, stem_of
from nmt.evaluation.figures.length_curve import About, write_length_curve
from nmt.evaluation.figures.style import looks, plain, series
from nmt.evaluation.significance import Comparison
from tests.figures import (
    ABOUT,
    DECADES,
    IGNORE_BOXES,
    NASTY,
    SCORES,
    WORDS,
    boxes,
    draw,
    reasons,
    system,
    systems,
)


@pytest.mark.parametrize("ending", ["", ".svg", ".PNG"])
def test_the_name_of_one_file_names_them_all(ending: str) -> None:
    assert stem_of(f"out/curve.v2{ending}") == "out/curve.v2"


def test_colors_markers_and_lines_differ() -> None:
    looks = [series(number) for number in range(28)]
    assert len({str(look) for look in looks}) == 28
    for one, other in pairwise(looks):
        assert all(one[key] != other[key] for key in ("color", "marker", "linestyle"))


def test_the_four_files(tmp_path: Path) -> None:
    stem = tmp_path / "new" / "folder" / "curve.v2"
    compared = Comparison("RNNsearch-00", "RNNsearch-10", 400, 1.5, 0.5, 2.5, 0.25)
    paths = write_length_curve(systems(2), stem, about=ABOUT, comparisons=[compared])
    assert [path.name for path in paths] == ["curve.v2.png", "curve.v2.svg", "curve.v2.json", "curve.v2.csv"]
    assert sorted(stem.parent.iterdir()) == sorted(paths)

    width, height = struct.unpack(">II", paths[0].read_bytes()[16:24])
    assert (width, height) == (1500, 1360)
    assert paths[1].read_text("utf-8").startswith("<?xml")

    assert (
        paths[3].read_bytes().startswith(b"system,low,high,n,bleu,bleu_low,bleu_high,length_ratio\nRNNsearch-00,1,10,")
    )
    with paths[3].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    assert list(rows[9].values()) == ["RNNsearch-10", "11", "20", "400", "38.7", "36.7", "40.7", "0.9877"]

    numbers = json.loads(paths[2].read_text("utf-8"))
    assert numbers["binned_by"] == "words of the raw source line"
    assert (numbers["test_set"], numbers["sentences"]) == ("test_lenstrat", 3200)
    assert numbers["signature"] == SCORES["bleu"].signature
    assert numbers["interval"] == {"level": 0.95, "method": "percentile bootstrap", "resamples": 1000, "seed": 1}
    assert numbers["comparisons"] == [asdict(compared)]
    assert numbers["systems"]["RNNsearch-10"]["chrF"] == {"score": 55.5, "signature": "c"}
    assert tuple(numbers["systems"]["RNNsearch-00"]["by_length"][0]) == COLUMNS


def test_the_same_numbers_give_the_same_bytes_and_matplotlib_is_left_as_it_was(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    first, second = (
        [path.read_bytes() for path in write_length_curve(systems(2), tmp_path / name, about=ABOUT)]
        for name in ("a", "b")
    )
    assert first == second and b"<dc:date>" not in first[1]
    assert dict(matplotlib.rcParams) == before


def test_files_that_cannot_be_written_are_named_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "curve.json").mkdir()
    with pytest.raises(DataError, match=r"curve\.json: cannot be written: Is a directory"):
        write_length_curve(systems(1), tmp_path / "curve", about=ABOUT)
    assert not [path.name for path in tmp_path.iterdir() if path.name.endswith(".new")]
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"file: the directory cannot be created: File exists"):
        write_length_curve(systems(1), tmp_path / "file" / "curve", about=ABOUT)


def test_a_directory_that_takes_no_files_is_found_before_the_slow_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the rights say otherwise, as they do to root."""

    def full(**place: Any) -> Never:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    make_folder(tmp_path / "curve")
    assert list(tmp_path.iterdir()) == []
    with monkeypatch.context() as changed:
        changed.setattr(tempfile, "TemporaryFile", full)
        with pytest.raises(DataError, match=rf"{tmp_path}: cannot be written to: No space left on device; choose "):
            make_folder(tmp_path / "curve")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(DataError, match=rf"{tmp_path}: cannot be written to: Permission denied; choose another"):
        make_folder(tmp_path / "curve")


@IGNORE_BOXES
def test_any_text_is_shown_as_it_is(tmp_path: Path) -> None:
    several = [system(NASTY), system("_hidden"), system("$")]
    texts = [text for text, _ in boxes(draw(several))]
    for name in ("$x^2_{a$ & <b> \\frac ·· 漢字 🙂 ·%s", "_hidden", "$"):
        assert f"{name} (BLEU 31.2)" in texts
    write_length_curve(several, tmp_path / "x", about=About(NASTY, 10, WORDS))


def test_plain() -> None:
    assert plain("a\tb\u2028c\ud800", 10) == "a·b·c·"
    assert plain("abcdefgh", 5) == "abcd…"
    assert plain("abcde", 5) == "abcde"


def test_a_system_looks_the_same_in_every_figure() -> None:
    several = [reasons("none", DECADES, attention=False), reasons("Bahdanau", DECADES), reasons("Luong", DECADES)]
    for name in FIGURES:
        figure = draw_diagnosis(several, name, about=ABOUT, unit="words")
        [legend] = figure.legends
        for line, text in zip(legend.get_lines(), legend.get_texts(), strict=True):
            look = looks(["none", "Bahdanau", "Luong"])[text.get_text()]
            assert (line.get_color(), line.get_marker()) == (look["color"], look["marker"])
    assert looks(["a", "b", "a"]) == {"a": series(0), "b": series(1)}
