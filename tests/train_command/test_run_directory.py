"""What ``nmt-train`` says, and what it does in the run directory and nowhere else."""

import os
import shlex
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from nmt.cli import report, translate
from nmt.errors import ConfigError
from nmt.runs.directory import RunDirectory
from tests.comparison import snapshot
from tests.small_run import metrics, options
from tests.train_command.conftest import Train, refused, write_config


def test_a_run_says_its_parts_and_what_is_next(train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "a run"
    code, err = train("--output", run, "--set", "training.updates=2", "--set", "evaluation.bootstrap=5")
    assert code == 0
    lines = err.splitlines()
    for name in ("data", "vocabulary", "model", "machine", "training"):
        assert sum(line.startswith(f"{name}: ") for line in lines) == 1, name
    [model] = [line for line in lines if line.startswith("model: ")]
    assert int(model.split()[1].replace(",", "")) == RunDirectory(run).parameters("last")
    table = [line for line in lines if line.startswith("validation ") and ("update" in line or line[-4:] == "best")]
    assert table[0].split()[1] == "update" and table[-1].endswith("best")
    assert "next:" not in lines, "of a log, or an experiment, nobody types"
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stderr.isatty", lambda: True, raising=False)
        lines = train("--output", run, "--overwrite", "--set", "training.updates=2")[1].splitlines()
    typed = [shlex.split(line) for line in lines[lines.index("next:") + 1 :]]
    assert [words[0] for words in typed] == ["nmt-translate", "nmt-report", "tensorboard"]
    assert all(str(run) in words for words in typed)
    for module, words in ((translate, typed[0]), (report, typed[1])):
        module.main.parser().parse_args(words[1:])
    code, err = train("--output", run, "--overwrite", "--quiet", "--set", "training.updates=2")
    assert code == 0
    test, best = err.splitlines()
    assert test.startswith("test set: BLEU ") and best.startswith("best checkpoint: that of update 2: ")


def test_a_run_that_exists_is_refused_before_anything_is_done(train: Train, run: Path) -> None:
    before = snapshot(run)
    problem = f"output: {run} holds a run; continue it with --resume, or replace it with --overwrite"
    assert refused(train("--output", run)) == [problem]
    with pytest.raises(ConfigError, match="holds a run; "):  # which another process has made meanwhile
        RunDirectory(run).create(*[Mock()] * 4)
    assert snapshot(run) == before


def test_overwrite_replaces_the_run_and_nothing_else(train: Train, run: Path) -> None:
    (run / "notes.txt").write_text("mine")
    (run / "plots").mkdir()
    for old in (run / "checkpoints/update-7", run / "tensorboard/old"):
        old.mkdir()
    code, err = train("--output", run, "--overwrite", "--set", "training.updates=1")
    assert code == 0 and "training: 1 updates, " in err
    assert (run / "notes.txt").read_text() == "mine" and (run / "plots").is_dir()
    assert not (run / "tensorboard/old").exists()
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["best", "last", "previous"]
    assert {line["step"] for line in metrics(run)} == {1}


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("data.train.source=nowhere.txt", "nowhere.txt"),
        ("evaluation.gold={source: nowhere, target: nowhere, links: nowhere}", "nowhere: no such file"),
        ("training.validation.metric=blau", "'blau' is not one of "),
        ("model.encoder.hidden=1000000", "out of memory"),
    ],
)
def test_a_mistake_costs_no_run_and_makes_none(
    train: Train, run: Path, tmp_path: Path, mistake: str, said: str
) -> None:
    before = snapshot(run)
    for how in (["--output", run, "--overwrite"], ["--output", tmp_path / "new"]):
        assert said in refused(train(*how, "--set", mistake))[-1]
    assert snapshot(run) == before and not (tmp_path / "new").exists()


@pytest.mark.parametrize("how", [[], ["--overwrite"]])
def test_a_directory_of_other_files_is_no_place_for_a_run(train: Train, tmp_path: Path, how: list[str]) -> None:
    for name in ("thesis.tex", "b", "c", "d"):
        (tmp_path / name).write_text("mine")
    [line] = refused(train("--output", tmp_path, *how))
    assert line == f"output: {tmp_path} holds other files, among them b; name a new or empty directory"
    assert len(list(tmp_path.iterdir())) == 4


def test_a_run_that_is_being_trained_is_not_called_one_to_replace(train: Train, run: Path) -> None:
    for name in ("last", "previous"):
        shutil.rmtree(run / "checkpoints" / name)
    with RunDirectory(run).locked(print):
        [line] = refused(train("--output", run))
    assert line.startswith(f"output: another nmt-train is running in {run};") and "--overwrite" not in line


def test_a_bad_output_is_named(train: Train, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    for place, why in (("file", "it is a file"), ("file/a/run", f"{tmp_path}/file: Not a directory")):
        named = write_config(tmp_path, options(corpus) | {"output": f"~/{place}"})
        for how in (train("--output", f"~/{place}"), train(config=named)):
            assert refused(how)[0].startswith(f"output: {tmp_path}/{place} is not writable ({why}); ")
    no_text = os.fsdecode(os.fsencode(tmp_path / "bad") + b"\xff")
    assert refused(train("--output", no_text))[0].startswith(rf"output: {tmp_path}/bad\xff: not UTF-8, so config.yaml")
    assert not Path(no_text).exists()
    nameless = write_config(tmp_path, options(corpus) | {"output": None})
    for arguments in ([], ["--output", ""]):
        assert refused(train(*arguments, config=nameless))[0].startswith("output: no run directory is named; ")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)  # rights do not bind root
    [line] = refused(train("--output", tmp_path / "a" / "run"))
    assert line.startswith(f"output: {tmp_path}/a/run is not writable ({tmp_path}: Permission denied); ")


@pytest.mark.parametrize(
    ("name", "how"), [("metrics.jsonl", "--resume"), ("checkpoints/last", "--overwrite"), ("tensorboard", "--dry-run")]
)
def test_nothing_is_written_through_a_link(train: Train, run: Path, tmp_path: Path, name: str, how: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (run / name).rename(elsewhere)
    (run / name).symlink_to(elsewhere)
    before = snapshot(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()
    options = ["--overwrite", "--dry-run"] if how == "--dry-run" else [how]
    [line, *_, remedy] = refused(train("--output", run, *options))
    assert line == f"{run / name}: a link out of the run directory, to {elsewhere}"
    assert remedy.startswith("a run directory may not use files outside it")
    assert (snapshot(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()) == before
