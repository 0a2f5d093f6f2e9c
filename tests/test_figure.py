"""``make figure`` on a tiny corpus: from configurations to the figure, cut short on the way."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nmt.config import Config, dump_config
from tests.outside_make import outside_make
from tests.small_run import WORDS, config, translate

ROOT = Path(__file__).parent.parent


def systems_of(folder: Path) -> list[str]:
    """What says which systems are trained, and what they translate: relative and absolute paths."""
    return [
        f"FROM={folder}",
        f"CONFIGS=none.yaml {folder}/bahdanau.yaml",
        "SOURCE=test.low",
        f"REFERENCE={folder}/test.up",
        f"FIGURE={folder}/figure",
    ]


def start(*variables: str, **environment: str) -> "subprocess.Popen[str]":
    """``make figure`` with this Python's commands, in a process group of its own."""
    return subprocess.Popen(
        ["make", "figure", f"VENV={sys.prefix}", "READY=", *variables],  # nothing is to be set up
        cwd=ROOT,
        env=outside_make() | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: "subprocess.Popen[str]") -> str:
    out, _ = process.communicate()
    assert process.returncode == 0, out
    return out


@pytest.mark.slow
def test_the_whole_chain_killed_and_started_again(tmp_path: Path) -> None:
    for attention in ("none", "bahdanau"):
        settings = config(tmp_path, attention, updates=6).model_copy(update={"threads": 1})
        relative = dump_config(settings).replace(f"{tmp_path}/", "")
        (tmp_path / f"{attention}.yaml").write_text(relative, "utf-8")
    process = start(*systems_of(tmp_path))
    saved = tmp_path / "figure" / "none" / "seed-1" / "checkpoints" / "last"
    deadline = time.monotonic() + 120
    while not saved.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert saved.exists() and not (tmp_path / "figure" / "test.csv").exists()

    finish(start(*systems_of(tmp_path)))
    with (tmp_path / "figure" / "test.csv").open(encoding="utf-8", newline="") as file:
        assert {row["system"] for row in csv.DictReader(file)} == {"none", "bahdanau"}
    assert (tmp_path / "figure" / "test.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "figure" / "test.why.attention.png").read_bytes().startswith(b"\x89PNG")
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "figure").rglob("*") if path.is_file()}
    finish(start(*systems_of(tmp_path)))
    assert files == {path: path.stat().st_mtime_ns for path in (tmp_path / "figure").rglob("*") if path.is_file()}


@pytest.mark.slow
def test_the_page_is_made_of_what_was_trained(tmp_path: Path) -> None:
    """The page of the length decay from the beginning, with three tiny systems, one test set and gold links."""
    data = tmp_path / "data"
    for folder in ("europarl", "hansards"):
        (data / folder).mkdir(parents=True)
    lengths = [4, 15, 17, 25, 35, 45, 55, 65, 75]
    sources = [" ".join(WORDS[(k + length) % len(WORDS)] for k in range(length)) for length in lengths]
    for language, lines in (("en", sources), ("fr", list(map(translate, sources)))):
        (data / f"europarl/test_lenstrat.{language}").write_text("".join(f"{line}\n" for line in lines))
        (data / f"hansards/test.{language}").write_text(f"{lines[0]}\n{lines[1]}\n")
    (data / "hansards/test.talp").write_text("1-4 2-3 3p2\n1-15\n")
    for name, attention in (("rnnencdec-30", "none"), ("rnnencdec-50", "none"), ("rnnsearch-50", "bahdanau")):
        values = config(tmp_path, attention, updates=4).model_dump()
        values["evaluation"]["bins"] = [10, 20, 30, 40, 50, 60, 70]
        settings = Config.model_validate(values | {"threads": 1, "decoding": {"beam_size": 1}})
        (tmp_path / f"{name}.yaml").write_text(dump_config(settings), "utf-8")
    environment = {
        "DATA": str(data),
        "CONFIGS_FROM": str(tmp_path),
        "RUNS": str(tmp_path / "cpu"),
        "PAGE": str(tmp_path / "docs" / "page.md"),
        "SYSTEMS": "rnnencdec-30 rnnencdec-50 rnnsearch-50",
        "WITH_ATTENTION": "rnnsearch-50",
        "TESTS": "europarl/test_lenstrat",
    }
    finish(start(**environment))
    page = (tmp_path / "docs/page.md").read_text("utf-8")
    shown = {path.name for path in (tmp_path / "docs/figures").iterdir()}
    assert set(re.findall(r"\(figures/([^)]+)\)", page)) == shown
    with (tmp_path / "docs/figures/length_decay_test_lenstrat.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            interval = f"{float(row['bleu']):.1f} [{float(row['bleu_low']):.1f}, {float(row['bleu_high']):.1f}]"
            assert f"{interval} {float(row['length_ratio']):.2f}" in page
    scores = json.loads((tmp_path / "cpu/rnnsearch-50/hansards.seed-1.json").read_text("utf-8"))
    assert f"| rnnsearch-50 | likeliest word | {scores['alignment']['likeliest']['error_rate']:.3f} |" in page
    curve = json.loads((tmp_path / "cpu/test_lenstrat.json").read_text("utf-8"))
    assert (curve["kept"]["short"], curve["kept"]["long"]) == ([11, 20], [51, 70])
    for row in curve["overall"]:
        assert f"| {row['system']} − {row['other']} | {row['difference']:+.2f} [{row['low']:+.2f}, " in page
    assert "rnnsearch-50 keeps a larger share than rnnencdec-50, p < 0.05 | by " in page
    assert "**does not hold**" in page, "four updates cannot be enough"
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "cpu").rglob("*.txt")}
    finish(start(**environment))
    assert files == {path: path.stat().st_mtime_ns for path in (tmp_path / "cpu").rglob("*.txt")}


def test_the_page_asks_for_its_corpora(tmp_path: Path) -> None:
    process = start(DATA=str(tmp_path / "none"))
    out, _ = process.communicate()
    assert process.returncode == 2
    assert (
        f"make figure needs {tmp_path}/none/europarl/test_lenstrat.en; data/README.md says where it comes from" in out
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["REFERENCE="], "make figure CONFIGS=... needs REFERENCE=...; for example"),
        (["CONFIGS=a/x.yaml b/x.yaml"], "two of CONFIGS have the same name: x x"),
        (["SOURCE=a b.low"], "SOURCE=a b.low: make takes no names with spaces"),
        (["CONFIGS=x.yaml"], "/x.yaml: no such file"),
        (
            ["FROM=", "CONFIGS=x.yaml"],
            f"x.yaml: no such file (tried {ROOT}/x.yaml); relative paths start at {ROOT}",
        ),
    ],
)
def test_what_is_missing_is_named(options: list[str], message: str, tmp_path: Path) -> None:
    process = start(*systems_of(tmp_path), *options)
    out, _ = process.communicate()
    assert process.returncode == 2 and message in out
