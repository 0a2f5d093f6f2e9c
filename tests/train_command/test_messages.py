"""What ``nmt-train`` says, whoever listens."""

import shlex
from pathlib import Path

from nmt.cli import report, translate
from nmt.runs.directory import RunDirectory
from tests.train_command.commands import Train, refused


def test_a_run_begins_with_what_it_is_made_of_and_ends_with_what_to_type_next(
    train: Train, corpus: Path, tmp_path: Path
) -> None:
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
    typed = [shlex.split(line) for line in lines[lines.index("next:") + 1 :]]
    assert [words[0] for words in typed] == ["nmt-translate", "nmt-report", "tensorboard"]
    assert all(str(run) in words for words in typed)
    for module, words in ((translate, typed[0]), (report, typed[1])):
        module.main.parser().parse_args(words[1:])
    code, err = train("--output", run, "--overwrite", "--quiet", "--set", "training.updates=2")
    assert code == 0
    test, best = err.splitlines()
    assert test.startswith("test set: BLEU ") and best.startswith("best checkpoint: that of update 2: ")


def test_a_cache_without_a_home_is_named(train: Train, tmp_path: Path) -> None:
    [line] = refused(train("--output", tmp_path / "run", "--set", "data.cache=~nobody-of-this-name/x"))
    assert line.startswith("data.cache: Could not determine home directory")
