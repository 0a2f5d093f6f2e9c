"""What ``nmt-train --resume`` goes on with, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest

from nmt.cli.train import main
from tests.comparison import snapshot
from tests.small_run import metrics
from tests.train_command.commands import Train, refused


def test_there_must_be_something_to_resume(train: Train, run: Path, tmp_path: Path) -> None:
    assert refused(train("--output", tmp_path / "new", "--resume")) == [
        f"{tmp_path}/new: there is no run to resume; start it without --resume"
    ]
    for name in ("last", "previous"):
        shutil.rmtree(run / "checkpoints" / name)
    assert refused(train("--output", run, "--resume")) == [
        f"{run}/checkpoints/last: missing, nothing to resume from; start with --overwrite"
    ]


REFUSED = ["seed=2", "model.attention={type: none}", "training.label_smoothing=0.1"]
DIFFERENCES = [
    "model.attention.type was 'bahdanau' and is now 'none'",
    "seed was 1 and is now 2",
    "training.label_smoothing was 0.0 and is now 0.1",
]
CHANGES = {
    "training.optimizer.learning_rate": 0.5,
    "training.schedule.type": "plateau",
    "training.batch_tokens": 50,
    "model.dropout.readout": 0.3,
    "training.validation.patience": 9,
    "training.updates": 4,
}


def test_another_configuration_is_refused(train: Train, run: Path) -> None:
    before = snapshot(run)
    arguments = [word for change in REFUSED for word in ("--set", change)]
    [*problems, _] = refused(train("--output", run, "--resume", *arguments))
    assert problems == [f"{run}: {each}" for each in DIFFERENCES]
    assert snapshot(run) == before


def test_an_edited_configuration_is_held_to_the_same_rule(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(written.replace("label_smoothing: 0.0", "label_smoothing: 0.1"))
    assert main(["--resume", "--output", str(run)]) == 2
    assert f"{run}: {DIFFERENCES[-1]}" in capsys.readouterr().err
    (run / "config.yaml").write_text(written.replace("learning_rate: 0.001", "learning_rate: 0.5"))
    assert main(["--resume", "--output", str(run), "--set", "training.updates=3"]) == 0
    assert "after update 2: training.optimizer.learning_rate changed from 0.001 to 0.5" in capsys.readouterr().err
    assert metrics(run, "train")[-1]["learning_rate"] == 0.5


def test_changes_in_the_course_of_training_are_recorded(train: Train, run: Path) -> None:
    arguments = [word for key, value in CHANGES.items() for word in ("--set", f"{key}={value}")]
    code, err = train("--output", run, "--resume", *arguments)
    assert code == 0
    recorded = {each["key"]: each for each in json.loads((run / "manifest.json").read_text())["changes"]}
    assert {key: recorded[key]["new"] for key in CHANGES} == CHANGES
    assert {each["update"] for each in recorded.values()} == {2}
    assert recorded["training.batch_tokens"]["old"] == 100
    assert all(f"after update 2: {key} changed from " in err for key in CHANGES)
    assert metrics(run, "train")[-1]["learning_rate"] == 0.5
    code, err = train("--output", run, "--resume", *arguments, "--set", "model.dropout.readout=0.1")
    changes = json.loads((run / "manifest.json").read_text())["changes"]
    assert changes[-1] == {"update": 4, "key": "model.dropout.readout", "old": 0.3, "new": 0.1}
    assert len(changes) == len(recorded) + 1, "what was changed before is no change"


def test_what_changes_no_number_may_change(train: Train, run: Path, tmp_path: Path) -> None:
    changed = ["training.updates=3", "training.log_every=1", "training.save_every=1", "training.validation.patience=9"]
    changed += ["threads=1", "decoding.beam_size=1", "decoding.batch_tokens=99", "evaluation.bootstrap=5"]
    changed += [f"data.cache={tmp_path}/cache"]
    arguments = [word for change in changed for word in ("--set", change)]
    code, err = train("--output", run, "--resume", *arguments)
    assert code == 0 and "resumed after update 2" in err
    assert [line["step"] for line in metrics(run, "train")] == [2, 3]
    assert "updates: 3" in (run / "config.yaml").read_text()


@pytest.mark.parametrize("key", ["length_penalty", "max_source", "max_length_factor"])
def test_what_changes_the_bleu_of_validations_may_not_change(train: Train, run: Path, key: str) -> None:
    [difference, _] = refused(train("--output", run, "--resume", "--set", f"decoding.{key}=3"))
    assert difference.startswith(f"{run}: decoding.{key} was ")


def test_a_run_is_resumed_on_the_text_it_was_begun_on(train: Train, run: Path, corpus: Path) -> None:
    file = corpus / "train.low"
    text = file.read_text()
    try:
        file.write_text(text.replace("oak", "elm", 1))
        [*_, corpus_line, tokenizer_line, advice] = refused(train("--output", run, "--resume"))
    finally:
        file.write_text(text)
    assert corpus_line.startswith(f"{run}/manifest.json: corpus_sha256 was ")
    assert tokenizer_line.startswith(f"{run}/manifest.json: tokenizer_sha256 was ")
    assert advice == "the text has changed since the run started; restore it, or use a new --output"


def test_a_run_knows_the_configuration_that_it_goes_on_with(
    train: Train, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--resume", "--output", str(run), "--set", "training.updates=3"]) == 0
    err = capsys.readouterr().err
    assert "training: 3 updates, " in err
    assert "pairs read" not in err, "the report on the data was shown when the run was begun"
    assert "pairs read" in train("--output", run, "--overwrite")[1]
    for arguments in ([], ["--resume"], ["--output", str(run)], ["--output", str(run), "--overwrite"]):
        assert main(arguments) == 2
        assert "--config is missing: give a configuration, or continue a run with --resume" in capsys.readouterr().err
    assert main(["--resume", "--output", str(run / "none")]) == 2
    assert "none: there is no run to resume; start one with --config FILE" in capsys.readouterr().err


def test_a_checkpoint_cut_short_is_named(train: Train, run: Path) -> None:
    file = run / "checkpoints" / "last" / "training.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    code, err = train("--output", run, "--resume")
    assert code == 0 and f"{file}: not a whole safetensors file (" in err


def test_a_run_cannot_be_made_shorter(train: Train, run: Path) -> None:
    before = snapshot(run)
    for more in ([], ["--dry-run"]):
        [*_, line] = refused(train("--output", run, "--resume", "--set", "training.updates=1", *more))
        assert line.startswith(
            "training.updates: 1, but the run has already made 2; a run can be extended, not shortened"
        )
        assert snapshot(run) == before
