"""A whole experiment on a tiny corpus, killed on the way; the demo's and the length decay's are made so."""

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
import yaml

from nmt.cli.experiment import main
from nmt.config import Config, dump_config
from tests.small_run import config, translate

ROOT = Path(__file__).parent.parent
COMMAND = "import sys; from nmt.cli.experiment import main; sys.exit(main())"
WORDS = ["oak", "elm", "ash", "fir", "yew", "box"]


def start(*arguments: str | Path) -> "subprocess.Popen[str]":
    """``nmt-experiment``, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: "subprocess.Popen[str]", code: int = 0) -> str:
    out, _ = process.communicate()
    assert process.returncode == code, out
    return out


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 120
    while not path.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert path.exists()


def write_experiment(folder: Path, updates: int) -> Path:
    """Two systems, two at a time."""
    base = config(folder, updates=updates, save_every=2).model_copy(update={"threads": 1})
    (folder / "base.yaml").write_text(dump_config(base), "utf-8")
    experiment = {
        "base": str(folder / "base.yaml"),
        "output": str(folder / "whole"),
        "systems": {"none": {"model.attention": {"type": "none"}}, "bahdanau": {}},
        "seeds": [1, 2],
        "jobs": 2,
        "tests": {
            "own": {"source": str(folder / "test.low"), "reference": str(folder / "test.up")},
            "other": {"source": str(folder / "validation.low"), "reference": str(folder / "validation.up")},
        },
    }
    (folder / "experiment.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False), "utf-8")
    return folder / "experiment.yaml"


def table(folder: Path) -> list[dict[str, str]]:
    """The results but for the speed, which no two runs share."""
    with (folder / "results.csv").open(encoding="utf-8", newline="") as file:
        return [{key: row[key] for key in row if key != "tokens_per_second"} for row in csv.DictReader(file)]


@pytest.mark.slow(seconds=50)
def test_killed_or_stopped_and_called_again_it_ends_as_one_call(tmp_path: Path) -> None:
    file = write_experiment(tmp_path, updates=20)
    said = finish(start("--config", file))
    for label in ("none:1", "none:2", "bahdanau:1", "bahdanau:2"):
        assert f"{label}: test set: BLEU" in said

    killed = tmp_path / "killed"
    process = start("--config", file, "--output", killed)
    wait_for(killed / "none/seed-1/checkpoints/previous", process)
    process.send_signal(signal.SIGKILL)  # the process alone: its runs must not go on without it
    process.communicate()
    assert not (killed / "bahdanau/seed-2").exists()

    process = start("--config", file, "--output", killed)
    wait_for(killed / "bahdanau/seed-1/checkpoints/previous", process)
    process.terminate()
    said = finish(process, 128 + signal.SIGTERM)
    assert "none:1: resumed after update" in said and "bahdanau:1: stopped; continue with" in said
    assert said.splitlines()[-1] == "stopped; the same command continues"
    assert not (killed / "own.csv").exists()

    finish(start("--config", file, "--output", killed))
    drawn = [f"{test}{ending}" for test in ("own", "other") for ending in (".csv", ".png", ".why.csv", ".json")]
    for name in [*drawn, "own.why.attention.png", "tests/other/none.seed-2.txt"]:
        assert (killed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert table(killed) == table(tmp_path / "whole")
    assert {(row["test"], row["system"], row["seeds"]) for row in table(killed)} == {
        (test, system, "2") for test in ("own", "other") for system in ("none", "bahdanau")
    }
    files = {path: path.stat().st_mtime_ns for path in killed.rglob("*") if path.is_file()}
    finish(start("--config", file, "--output", killed))
    assert files == {path: path.stat().st_mtime_ns for path in killed.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_the_figures_are_made_of_what_was_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The length decay from the beginning, with three tiny systems, one test set and gold links."""
    lengths = [4, 15, 17, 25, 35, 45, 55, 65, 75]
    sources = [" ".join(WORDS[(k + length) % len(WORDS)] for k in range(length)) for length in lengths]
    for language, lines in (("en", sources), ("fr", list(map(translate, sources)))):
        (tmp_path / f"test_lenstrat.{language}").write_text("".join(f"{line}\n" for line in lines))
        (tmp_path / f"hansards.{language}").write_text(f"{lines[0]}\n{lines[1]}\n")
    (tmp_path / "hansards.talp").write_text("1-4 2-3 3p2\n1-15\n")
    shipped = yaml.safe_load((ROOT / "configs/experiments/europarl.yaml").read_text("utf-8"))
    values = config(tmp_path, updates=4).model_dump()
    values["evaluation"]["bins"] = [10, 20, 30, 40, 50, 60, 70]
    base = Config.model_validate(values | {"threads": 1, "decoding": {"beam_size": 1}})
    (tmp_path / "base.yaml").write_text(dump_config(base), "utf-8")
    for name, test in (("lenstrat", shipped["tests"]["test_lenstrat"]), ("hansards", shipped["tests"]["hansards"])):
        stem = tmp_path / ("test_lenstrat" if name == "lenstrat" else name)
        test |= {"source": f"{stem}.en", "reference": f"{stem}.fr"}
    shipped["tests"]["hansards"]["gold"]["links"] = str(tmp_path / "hansards.talp")
    shipped |= {
        "base": str(tmp_path / "base.yaml"),
        "output": str(tmp_path / "cpu"),
        "systems": {name: shipped["systems"][name] for name in ("rnnencdec-30", "rnnencdec-50", "rnnsearch-50")},
        "tests": {name: shipped["tests"][name] for name in ("test_lenstrat", "hansards")},
    }
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(shipped, sort_keys=False), "utf-8")

    monkeypatch.setattr("nmt.evaluation.by_length.LEAST_BLEU", 0.0)  # below it, systems are not compared
    assert main(["--config", str(tmp_path / "experiment.yaml"), "--jobs", "2"]) == 0
    command = [sys.executable, "scripts/length_decay.py", "--runs", str(tmp_path / "cpu")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    figures = tmp_path / "figures"
    command += ["--figures", str(figures)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    page = (ROOT / "docs/length-decay.md").read_text("utf-8")
    made = {path.name for path in figures.iterdir()}
    assert set(re.findall(r"\(figures/(length_decay[^)]+)\)", page)) - made <= {"length_decay_test3000.png"}
    csv_file = figures / "length_decay_test_lenstrat.csv"
    assert csv_file.read_bytes() == (tmp_path / "cpu/test_lenstrat.csv").read_bytes()
    curve = json.loads((tmp_path / "cpu/test_lenstrat.json").read_text("utf-8"))
    about = json.loads((figures / "length_decay.json").read_text("utf-8"))
    assert about["kept"] == curve["kept"]["shares"]
    scores = json.loads((tmp_path / "cpu/tests/hansards/rnnsearch-50.seed-1.json").read_text("utf-8"))
    assert about["alignment"]["rnnsearch-50"] == scores["alignment"]["likeliest"]
    assert set(about["runs"]) == {f"{name}/seed-1" for name in shipped["systems"]}
    verdicts = [claim["verdict"] for claim in about["claims"]]
    assert len(verdicts) >= 5 and "does not hold" in verdicts, "four updates cannot be enough"
