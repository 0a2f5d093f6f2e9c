"""What ``nmt-train --resume`` goes on with, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest

from nmt.cli.train import main
from nmt.config import load_run_config
from nmt.errors import ConfigError
from nmt.runs.directory import RunDirectory, refuse_other_config
from tests.comparison import reseal, snapshot
from tests.small_run import metrics
from tests.test_experiments import replaced
from tests.train_command.conftest import Train, refused

BOTH: list[list[str]] = [[], ["--dry-run"]]
"""A dry run refuses what resuming would."""


def settings(*changes: str) -> list[str]:
    return [word for change in changes for word in ("--set", change)]


def test_there_must_be_something_to_resume(train: Train, run: Path, tmp_path: Path) -> None:
    assert refused(train("--output", tmp_path / "new", "--resume"))[0].startswith(f"{tmp_path}/new: there is no run ")
    state = run / "checkpoints" / "last" / "training.json"
    state.write_text("[]")
    reseal(state.parent)
    for more in BOTH:
        line = refused(train("--output", run, "--resume", *more))[-1]
        assert line.startswith(f"{state}: not the progress of a run")
    for name in ("last", "previous"):
        shutil.rmtree(run / "checkpoints" / name)
    assert refused(train("--output", run, "--resume"))[0].startswith(f"{run}/checkpoints/last: missing, ")


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
    changed = settings("seed=2", "model.attention={type: none}", "training.label_smoothing=0.1")
    for more in BOTH:
        [*problems, advice] = refused(train("--output", run, "--resume", *changed, *more))
        assert problems == DIFFERENCES and "restore it (--config can be left out), or" in advice
        assert f"without --resume: nmt-train --config {run}/config.yaml --output" in advice
    for key in ("length_penalty", "max_source", "max_length_factor"):  # they change the BLEU of validations
        [difference, _] = refused(train("--output", run, "--resume", *settings(f"decoding.{key}=3")))
        assert difference.startswith(f"decoding.{key} was ")
    for more in BOTH:
        [*_, line] = refused(train("--output", run, "--resume", *settings("training.updates=1"), *more))
        assert line.startswith("training.updates: 1, but the run has already made 2; ")
    assert snapshot(run) == before


def test_the_links_that_choose_the_best_checkpoint_stay(run: Path) -> None:
    aligned = ["training.validation.metric=aer", "evaluation.gold={source: a, target: b, links: c}"]
    before = load_run_config(run, aligned).model_dump(mode="json")
    (run / "manifest.json").write_text(json.dumps({"config": before, "changes": []}))
    refuse_other_config(RunDirectory(run), load_run_config(run, [*aligned, "evaluation.bins=[7]"]))
    with pytest.raises(ConfigError, match=r"^evaluation.gold.first was 0 and is now 1"):
        refuse_other_config(RunDirectory(run), load_run_config(run, [*aligned, "evaluation.gold.first=1"]))


def test_a_run_knows_its_own_configuration(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(written.replace("label_smoothing: 0.0", "label_smoothing: 0.1"))
    assert main(["--resume", "--output", str(run)]) == 2
    assert DIFFERENCES[-1] in capsys.readouterr().err
    (run / "config.yaml").write_text(written.replace("learning_rate: 0.001", "learning_rate: 0.5"))
    assert main(["--resume", "--output", str(run), "--set", "training.updates=3"]) == 0
    err = capsys.readouterr().err
    assert "after update 2: training.optimizer.learning_rate changed from 0.001 to 0.5" in err
    assert "training: 3 updates, " in err
    assert "pairs read" not in err, "the report on the data was shown when the run was begun"
    assert metrics(run, "train")[-1]["learning_rate"] == 0.5
    for arguments in ([], ["--resume"], ["--output", str(run)], ["--output", str(run), "--overwrite"]):
        assert main(arguments) == 2
        assert "--config is missing: " in capsys.readouterr().err
    assert main(["--resume", "--output", str(run / "none")]) == 2
    assert "none: there is no run to resume" in capsys.readouterr().err


def test_changes_in_the_course_of_training_are_recorded(train: Train, run: Path, tmp_path: Path) -> None:
    arguments = settings(*(f"{key}={value}" for key, value in CHANGES.items()))
    arguments += settings("training.log_every=1", "training.save_every=1", "threads=1", "decoding.beam_size=1")
    arguments += settings("evaluation.bootstrap=5", f"data.cache={tmp_path}/cache")  # these change no number
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {"processes": 2}))
    code, err = train("--output", run, "--resume", *arguments)
    assert code == 0 and "resumed after update 2" in err and "processes: 2 when the run began, 1 now; " in err
    recorded = {each["key"]: each for each in json.loads((run / "manifest.json").read_text())["changes"]}
    assert {key: recorded[key]["new"] for key in CHANGES} == CHANGES
    assert {each["update"] for each in recorded.values()} == {2}
    assert recorded["training.batch_tokens"]["old"] == 100
    assert all(f"after update 2: {key} changed from " in err for key in CHANGES)
    assert [line["step"] for line in metrics(run, "train")] == [2, 3, 4]
    assert metrics(run, "train")[-1]["learning_rate"] == 0.5
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["processes"]
    (run / "manifest.json").write_text(json.dumps(manifest))
    code, err = train("--output", run, "--resume", *arguments, *settings("model.dropout.readout=0.1"))
    assert code == 0 and "when the run began" not in err
    changes = json.loads((run / "manifest.json").read_text())["changes"]
    assert changes[-1] == {"update": 4, "key": "model.dropout.readout", "old": 0.3, "new": 0.1}
    assert len(changes) == len(recorded) + 1, "what was changed before is no change"


@pytest.mark.parametrize(
    ("split", "keys"), [("train", ["corpus_sha256", "tokenizer_sha256"]), ("test", ["corpus_sha256"])]
)
def test_a_run_is_resumed_on_its_own_text(train: Train, run: Path, corpus: Path, split: str, keys: list[str]) -> None:
    file = corpus / f"{split}.low"
    with replaced(file, file.read_bytes().replace(b"oak", b"elm", 1)):
        said = [refused(train("--output", run, "--resume", *more)) for more in BOTH]
    for lines in said:
        found = [line.partition(" was ")[0] for line in lines if line.startswith(f"{run}/manifest.json: ")]
        assert found == [f"{run}/manifest.json: {key}" for key in keys]
