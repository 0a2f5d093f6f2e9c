"""The trials of scripts/torture.py in short forms, and tests that each can see a loss."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from nmt.data.batching import Batch
from nmt.errors import CheckpointError
from nmt.files import sync
from nmt.training import dry_run, opening, trainer
from nmt.training.log import GrowingFile
from tests.test_scripts import script
from tests.torture import disk, faults, strangers, text
from tests.torture.attacks import ATTACKS, WEIGHTS
from tests.torture.comparison import CHAINED, crashed, differences, metrics
from tests.torture.trial_folder import TrialFolder
from tests.torture.trials import TRIALS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrialFolder]:
    threads = torch.get_num_threads()
    yield TrialFolder(tmp_path_factory.mktemp("torture"), updates=15)
    torch.set_num_threads(threads)


ELSEWHERE = {"strangers", "large", "ranks", "again", "stop-twice"}
"""Trials with tests of their own: below, in test_torchrun.py, test_resume.py and train_command/test_interruption.py."""
TIMES = dict.fromkeys(sorted(TRIALS.keys() - ELSEWHERE), 1) | {
    "kill": 2,
    "disk": 4,
    "cache": 2,
    "damage": 2,
    "memory": 2,
    "text": len(text.NASTY),
    "configs": 100,
    "extremes": 4,
    "changed": 3,
    "dry-run": 3,
}


PRINTED = "Traceback (most recent call last):\n  ...\nOSError: no space\n"
TWICE = f"{PRINTED}\n{CHAINED[0]}\n\n{PRINTED}"
EXPLAINED = "nmt-train: error: no space\n"


@pytest.mark.parametrize("err", ["", EXPLAINED, f"update 1/2\n{PRINTED}{EXPLAINED}", TWICE + EXPLAINED])
def test_an_explained_error_is_no_crash(err: str) -> None:
    assert not crashed(err)


@pytest.mark.parametrize(
    "err", [PRINTED, TWICE, PRINTED + TWICE + EXPLAINED, EXPLAINED + PRINTED, PRINTED + EXPLAINED + PRINTED]
)
def test_any_other_traceback_is_a_crash(err: str) -> None:
    assert crashed(err)


@pytest.mark.slow
@pytest.mark.parametrize("name", TIMES)
def test_nothing_is_lost(folder: TrialFolder, name: str) -> None:
    trial, _ = TRIALS[name]
    result = trial(folder, TIMES[name])
    assert result.lost == 0, result.notes
    assert result.tried >= TIMES[name]


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_crafted_run_is_refused(folder: TrialFolder, attack: str) -> None:
    result = strangers.crafted_runs(folder, 1, [attack])
    assert result.lost == 0, result.notes


@pytest.mark.slow
def test_large_text_goes_through(folder: TrialFolder) -> None:
    result = text.large(folder, 2, megabytes=1, empty_lines=10_000)
    assert result.lost == 0, result.notes


# --- that the harness can see a loss ----------------------------------------------------------------------------------


def test_a_good_run_is_not_refused(folder: TrialFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTACKS, "none", lambda _: None)
    assert strangers.crafted_runs(folder, 1, ["none"]).notes[0] == "none: it was not refused"


def test_a_payload_that_runs_is_seen(folder: TrialFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    def careless(path: Path, _: object) -> None:
        pickle.loads((Path(path) / WEIGHTS).read_bytes())

    good = folder.undisturbed()
    monkeypatch.setattr(strangers, "load_run", lambda path, device: careless(path, device) if path != good else None)
    result = strangers.crafted_runs(folder, 1, ["a pickle as weights"])
    assert result.lost == 1
    assert any("it was executed" in note for note in result.notes)


def test_the_undisturbed_run_lacks_nothing(folder: TrialFolder) -> None:
    lines = metrics(folder.undisturbed())
    assert [line["step"] for line in lines if line["split"] == "train"] == [*range(2, 15, 2), 15]
    assert [line["step"] for line in lines if line["split"] == "validation"] == [5, 10, 15]
    assert [line["split"] for line in lines][-2:] == ["average", "test"]


def test_a_difference_is_seen(folder: TrialFolder, tmp_path: Path) -> None:
    undisturbed = folder.undisturbed()
    other = Path(shutil.copytree(undisturbed, tmp_path / "other"))
    assert differences(undisturbed, other) == []
    lines = (other / "metrics.jsonl").read_text("utf-8").splitlines(keepends=True)
    for changed in (lines[:-1], [*lines, lines[-1]], [*lines[:-1], lines[-1].replace("bleu", "blue")]):
        (other / "metrics.jsonl").write_text("".join(changed), "utf-8")
        assert len(differences(undisturbed, other)) == 1
    (other / "metrics.jsonl").write_text("".join(lines), "utf-8")
    shutil.copy(other / "checkpoints/previous/model.safetensors", other / "checkpoints/last/model.safetensors")
    (other / "checkpoints/last/sha256.json").unlink()
    assert differences(undisturbed, other) == [
        f"{other}/checkpoints/last/model.safetensors differs",
        f"{other}: only one of the two runs has ['checkpoints/last/sha256.json']",
    ]


@pytest.mark.parametrize("lost", ["checkpoints/last", "test.scores.json"])
def test_an_unfinished_run_is_a_difference(folder: TrialFolder, tmp_path: Path, lost: str) -> None:
    """A trial that leaves one is lost, and does not end the others."""
    undisturbed = folder.undisturbed()
    other = Path(shutil.copytree(undisturbed, tmp_path / "other"))
    (shutil.rmtree if (other / lost).is_dir() else os.remove)(other / lost)
    found = differences(undisturbed, other)
    assert found and all(line.startswith(f"{other} is not finished: {lost}") for line in found)
    none = tmp_path / "none"
    assert f"{none} is not finished: metrics.jsonl is missing" in differences(undisturbed, none)


def test_a_disk_fails_when_it_is_told_to(tmp_path: Path) -> None:
    with disk.DISK.failing(tmp_path, 2, 28):
        (tmp_path / "a").write_text("1")
        (tmp_path / "b").mkdir()
        (tmp_path.parent / "elsewhere").write_text("1")
        assert (tmp_path / "a").read_text() == "1"
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "a").write_text("2")
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "a").rename(tmp_path / "c")
    (tmp_path / "a").rename(tmp_path / "c")


def test_a_disk_fails_in_operations_without_audit_events(tmp_path: Path) -> None:
    log = GrowingFile(tmp_path / "log")
    (tmp_path / "a").write_text("1")
    for operation in (
        lambda: log.write(b"2"),
        log.sync,
        lambda: sync(tmp_path / "a"),
        lambda: save_file({}, tmp_path / "b"),
    ):
        with disk.DISK.failing(tmp_path, 0, 28), pytest.raises((OSError, CheckpointError), match="No space left"):
            operation()
        operation()
    log.close()
    assert (tmp_path / "log").read_bytes() == b"2" and (tmp_path / "b").exists()


def fall_behind(folder: TrialFolder, run: Path) -> None:
    """Delete the newest checkpoint, though nothing is wrong with it."""
    last = run / "checkpoints" / "last"
    if last.with_name("previous").exists():
        shutil.rmtree(last, ignore_errors=True)


@pytest.mark.slow
def test_what_is_lost_between_two_kills_is_seen(folder: TrialFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = TrialFolder.start

    def losing(self: TrialFolder, name: str, *more: str) -> Any:
        fall_behind(self, self.run(name))
        return begin(self, name, *more)

    folder.undisturbed()
    monkeypatch.setattr(TrialFolder, "start", losing)
    result = faults.kill(folder, 4)  # the first may come before there is a checkpoint to lose
    assert result.lost > 0
    assert any("was saved, and" in note for note in result.notes), result.notes


def fail(*_: Any, **__: Any) -> None:
    raise TypeError("not thought of")


SKIP, HALVES = trainer.Trainer._skip, Batch.halves


def step_with_nothing(self: trainer.Trainer) -> None:
    """Let Adam move on in the direction of its moments."""
    self.gradients.reset()
    for parameter in self.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    self.optimizer.step()
    SKIP(self)


CARELESS = [
    ("numbers", trainer.Trainer, "_skip", lambda *_: None),
    ("numbers", trainer.Trainer, "_skip", step_with_nothing),
    ("memory", Batch, "halves", lambda batch: [*HALVES(batch)[:1]] * 2),
    ("changed", opening, "is_one_of", lambda *_: True),
    ("dry-run", dry_run, "dry_run", lambda *_, **__: None),
]


@pytest.mark.parametrize(
    ("name", "owner", "part", "careless"), CARELESS, ids=[f"{name}-{k}" for k, (name, *_) in enumerate(CARELESS)]
)
def test_carelessness_is_seen(
    folder: TrialFolder, monkeypatch: pytest.MonkeyPatch, name: str, owner: object, part: str, careless: object
) -> None:
    folder.undisturbed()
    monkeypatch.setattr(owner, part, careless)
    times = 5 if name == "dry-run" else 1  # of which some are refused by the configuration alone
    assert TRIALS[name][0](folder, times).lost > 0


def test_a_file_for_the_rows_is_tried_before(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert script("torture").main(["--only", "again", "--json", str(tmp_path / "none/rows.json")]) == 2
    assert "none/rows.json: cannot be written: No such file or directory; make the " in capsys.readouterr().err


def test_translating_opens_nothing_that_a_configuration_names(folder: TrialFolder, tmp_path: Path) -> None:
    import sys

    from nmt.cli.translate import main

    run = Path(shutil.copytree(folder.undisturbed(), tmp_path / "run"))
    names = [f"{tmp_path}/secret", "../../secret", "/etc/passwd", "~/secret"]
    values = folder.values | {
        "output": names[0],
        "data": folder.values["data"] | {"train": {"source": names[2], "target": names[1]}, "cache": names[3]},
        "evaluation": {"gold": {"source": names[0], "target": names[1], "links": names[2]}},
    }
    (run / "config.yaml").write_text(json.dumps(values))
    (tmp_path / "lines").write_text("oak elm\n")
    opened: list[str] = []
    listening = True
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if listening and event == "open" else None)
    assert main(["--model", str(run), "--input", str(tmp_path / "lines"), "--output", str(tmp_path / "out")]) == 0
    listening = False
    assert str(run / "config.yaml") in opened, "the hook hears"
    assert [path for path in opened if "secret" in path or "passwd" in path] == []
