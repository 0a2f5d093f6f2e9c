"""A whole experiment on a tiny corpus, killed on the way."""

import csv
import signal
import subprocess
from pathlib import Path

import pytest

from tests.processes import until
from tests.test_experiments import write_experiment
from tests.torture.training import start


def begin(file: Path, *options: str | Path) -> "subprocess.Popen[str]":
    """``nmt-experiment``, in a process group of its own."""
    arguments = map(str, ("--config", file, *options))
    return start("nmt-experiment", *arguments, stderr=subprocess.STDOUT, start_new_session=True)


def finish(process: "subprocess.Popen[str]", code: int = 0) -> str:
    out, _ = process.communicate()
    assert process.returncode == code, out
    return out


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    until(lambda: path.exists() or process.poll() is not None)
    assert path.exists()


def table(folder: Path) -> list[dict[str, str]]:
    """The results but for the speed, which no two runs share."""
    with (folder / "results.csv").open(encoding="utf-8", newline="") as file:
        return [{key: row[key] for key in row if key != "tokens_per_second"} for row in csv.DictReader(file)]


@pytest.mark.slow(seconds=40)
def test_killed_or_stopped_and_called_again_it_ends_as_one_call(tmp_path: Path) -> None:
    texts = {
        test: {"source": str(tmp_path / f"{split}.low"), "reference": str(tmp_path / f"{split}.up")}
        for test, split in (("own", "test"), ("other", "validation"))
    }
    how = {"updates": 100, "save_every": 5}
    file = write_experiment(tmp_path, training=how, output=str(tmp_path / "whole"), tests=texts)
    said = finish(begin(file))
    assert "none: test set: BLEU" in said and "bahdanau: test set: BLEU" in said

    killed = tmp_path / "killed"
    process = begin(file, "--output", killed)
    wait_for(killed / "none/checkpoints/previous", process)
    process.send_signal(signal.SIGKILL)  # the process alone: its runs must not go on without it
    process.communicate()
    assert not (killed / "bahdanau").exists()

    process = begin(file, "--output", killed)
    wait_for(killed / "bahdanau/checkpoints/previous", process)
    process.terminate()
    said = finish(process, 128 + signal.SIGTERM)
    assert "none: resumed after update" in said and "bahdanau: stopped; continue with" in said
    assert said.splitlines()[-1] == "stopped; the same command continues"
    assert not (killed / "own.csv").exists()

    finish(begin(file, "--output", killed))
    drawn = [f"{test}{ending}" for test in ("own", "other") for ending in (".csv", ".png", ".why.csv", ".json")]
    for name in [*drawn, "own.why.attention.png", "tests/other/none.txt"]:
        assert (killed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert table(killed) == table(tmp_path / "whole")
    expected = {(test, system) for test in ("own", "other") for system in ("none", "bahdanau")}
    assert {(row["test"], row["system"]) for row in table(killed)} == expected
