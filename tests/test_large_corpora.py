"""The scripts that make and measure large corpora."""

import lzma
from pathlib import Path
from typing import Any

import pytest

from nmt.config import dump_config
from tests.small_run import config
from tests.test_scripts import script


def test_a_corpus_is_repeated_as_shards(tmp_path: Path) -> None:
    (tmp_path / "train.en.xz").write_bytes(lzma.compress(b"a\nb"))
    (tmp_path / "pairs.tsv").write_text("a\tx\n")
    files = [str(tmp_path / "train.en.xz"), str(tmp_path / "pairs.tsv")]
    assert script("repeat_corpus").main([*files, "--times", "3", "--output", str(tmp_path / "big")]) == 0
    found = {path.name: path.read_text() for path in sorted((tmp_path / "big").iterdir())}
    assert found == {
        **{f"pairs-000{number}.tsv": "a\tx\n" for number in (1, 2, 3)},
        **{f"train-000{number}.en": "a\nb\n" for number in (1, 2, 3)},
    }


def test_peaks_are_those_up_to_a_number_of_pairs() -> None:
    module = script("measure_memory")

    def progress(pairs: int | None, main: float) -> dict[str, Any]:
        values = {"RssAnon": main, "RssFile": 1.0}
        return {"pairs": pairs, "main": values, "workers": values}

    read = {"planned": 0.5, "seconds": 2.0, "RssAnon": 7.0, "RssFile": 8.0}
    found = {
        "sizes": [10, 20],
        "encode": [progress(None, 99.0), progress(5, 2.0), progress(10, 3.0), progress(20, 4.0)],
        "read": [read, read | {"RssAnon": 9.0}],
    }
    rows = module.rows_of(found)
    assert [row["encoder RssAnon"] for row in rows] == [3.0, 4.0]
    assert [row["epoch RssAnon"] for row in rows] == [7.0, 9.0]
    assert len(module.draw(rows).axes[0].lines) == 7  # six peaks and the limit


def test_the_stage_that_encodes_says_how_many_pairs_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At these lines memory is read; other splits have none."""
    monkeypatch.setattr("nmt.data.encoding.UNIT", 120)
    (tmp_path / "c.yaml").write_text(dump_config(config(tmp_path)), "utf-8")
    chosen = ["--config", str(tmp_path / "c.yaml"), "--cache", str(tmp_path / "new"), "--output", "none"]
    assert script("measure_memory").main([*chosen, "--stage", "encode"]) in (0, None)
    lines = capsys.readouterr().out.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("encoding train: "))
    assert lines[first + 1 : first + 4] == ["  120 pairs", "  240 pairs", "  300 pairs"]
    assert sum(line.endswith(" pairs") for line in lines) == 3
