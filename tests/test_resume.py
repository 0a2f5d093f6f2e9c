"""An interrupted run resumes to the same numbers, bit for bit."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from nmt.config import Config
from nmt.errors import FileError
from nmt.files import read_json
from nmt.runs.checkpoints import load_tensors
from nmt.runs.directory import RunDirectory
from nmt.training.trainer import Trainer
from nmt.translation.translator import Translator
from tests.comparison import differences, reseal, snapshot
from tests.small_run import Stop, config, metrics, train
from tests.test_checkpoint import Crash, crash_at_rename
from tests.test_corpus import problems_of


def train_until_crash(configuration: Config, update: int = 0, method: str = "update", **how: Any) -> None:
    """Train, and crash where ``Trainer.method`` is called after so many updates."""
    real = getattr(Trainer, method)

    def crashing(self: Trainer, *arguments: Any) -> Any:
        if self.progress.update >= update:
            raise KeyboardInterrupt
        return real(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, method, crashing)
        with pytest.raises(KeyboardInterrupt):
            train(configuration, **how)


def test_a_crash_after_a_change_repeats_the_change(folder: Path) -> None:
    """Batches of another size begin the epoch again, also where the next checkpoint came later than a crash."""
    smaller: dict[str, Any] = {"updates": 6, "batch_tokens": 50, "optimizer": {"type": "adam", "learning_rate": 0.01}}
    for output in ("changed", "changed and crashed"):
        train(config(folder, output=output, updates=6), stop_after=3)
    run = RunDirectory(folder / "changed")
    assert run.training("last").state["position"] != {"epoch": 0, "batch": 0, "of": 1}
    train(config(folder, output="changed", **smaller), resume=True)
    assert run.training("last").state["position"] == {"epoch": 0, "batch": 3, "of": 24}
    train_until_crash(config(folder, output="changed and crashed", **smaller), resume=True)
    train(config(folder, output="changed and crashed", **smaller), resume=True)
    assert differences(folder / "changed", folder / "changed and crashed") == []


def test_an_older_checkpoint_is_from_before_later_changes(folder: Path) -> None:
    how: dict[str, Any] = {"output": "rewound", "save_every": 1}
    train(config(folder, updates=4, **how))
    train_until_crash(config(folder, updates=5, **how), resume=True)
    run = RunDirectory(folder / "rewound")
    run.delete("last")
    train(config(folder, updates=6, accumulation=2, **how), resume=True)
    [_, other, change] = read_json(run.manifest)["changes"]
    assert change == {"update": 3, "key": "training.updates", "old": 5, "new": 6}
    assert other == {"update": 3, "key": "training.accumulation", "old": 1, "new": 2}


def test_a_crash_goes_back_to_the_last_save(folder: Path) -> None:
    """The update before a validation that is broken off is saved; the validation is written down once."""
    calm, crashed = (config(folder, output=name, updates=5, log_every=1, average=2) for name in ("calm", "crashed"))
    run = folder / "crashed"
    train(calm)
    train_until_crash(crashed)
    assert "resumed after update 0" in train(crashed, resume=True, stop_after=2)
    assert RunDirectory(run).training("last").state["update"] == 2 and not metrics(run, "validation")
    train_until_crash(crashed, method="save", resume=True)
    assert [line["step"] for line in metrics(run, "validation")] == [2]
    train_until_crash(crashed, 3, resume=True)
    assert metrics(run)[-1]["step"] == 3  # beyond the checkpoint, which is of update 2
    assert "resumed after update 2" in train(crashed, resume=True)
    assert differences(run, folder / "calm") == []


def test_nothing_is_renamed_before_it_is_synced(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut may lose all that was not synced: files, and the names in folders."""
    run = tmp_path / "run"
    synced: dict[Path, int] = {}
    unsynced: set[Path] = set()
    moved: list[str] = []
    fsync, replace, rename = os.fsync, os.replace, os.rename

    def sync(number: int) -> None:
        path = Path(f"/proc/self/fd/{number}").readlink()
        synced[path] = path.stat().st_size
        unsynced.discard(path)
        fsync(number)

    def move(source: Path, target: Path) -> None:
        for path in [source, *source.rglob("*")]:
            assert path.is_dir() or synced.get(path) == path.stat().st_size, f"{path} is not on the disk"
            assert path not in unsynced, f"a name in {path} is not on the disk"
            if path.is_file():
                synced[target / path.relative_to(source)] = synced.pop(path)
        if target.name == "last":
            assert synced[run / "metrics.jsonl"] == (run / "metrics.jsonl").stat().st_size
        unsynced.add(target.parent)
        moved.append(target.name)

    def moving(function: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
        def moves(source: Path, target: Path) -> None:
            if run in Path(target).parents:  # the cache has its checksums, and is made again
                move(Path(source), Path(target))
            function(source, target)

        return moves

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", moving(replace))
    monkeypatch.setattr(os, "rename", moving(rename))
    configuration = config(folder, updates=4, log_every=1, save_every=1, average=2)
    train(configuration.model_copy(update={"output": str(run)}))
    assert not unsynced
    assert {"last", "previous", "best", "update-2", "training.json", "config.yaml", "manifest.json"} <= {*moved}


def test_only_what_is_missing_or_differs_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished = config(folder, output="finished", average=2, validation={"metric": "loss"})
    first, run = train(finished), RunDirectory(folder / "finished")
    before = snapshot(run.path)
    recorded, scores = metrics(run.path), run.test_scores.read_text()
    monkeypatch.setattr(Trainer, "update", lambda *_: pytest.fail("it is trained already"))
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "stream", lambda *_, **how: pytest.fail("it is translated already"))
        said = train(finished, resume=True)
    assert snapshot(run.path) == before
    assert said[-3].startswith(f"{run.path}: finished after update 4; nothing is left to do (")
    assert said[-2:] == first[-2:], "the same figures as at the end of the run"
    run.test_hypotheses.unlink()
    assert "resumed after update 4" in train(finished, resume=True) and run.test_hypotheses.exists()
    wider = finished.model_copy(update={"decoding": finished.decoding.model_copy(update={"beam_size": 3})})
    assert "resumed after update 4" in train(wider, resume=True)
    assert metrics(run.path)[:-2] == recorded[:-2], "training is not made again"
    assert [line["split"] for line in metrics(run.path)[-2:]] == ["average", "test"]
    train(finished, resume=True)
    (run.folder("best") / "model.safetensors").write_bytes(b"damaged")
    assert any("it is not used" in line for line in train(finished, resume=True))
    assert run.test_scores.read_text() == scores


def test_stopped_whenever_it_asks_and_resumed_is_never_stopped(folder: Path) -> None:
    """Before an update, between the batches of a validation, of the mean's, or of the test set."""
    how: dict[str, Any] = {"updates": 3, "average": 2, "validation": {"every": 1, "sentences": 20}}
    whole = config(folder, output="asked", **how)
    narrow = {"decoding": whole.decoding.model_copy(update={"batch_tokens": 20})}  # so that there are several
    counts = Stop()
    train(whole.model_copy(update=narrow), stop=counts)
    for share in (0.0, 0.3, 0.6, 0.8, 0.95):
        run = folder / f"asked {share}"
        parts = config(folder, output=run.name, **how).model_copy(update=narrow)
        train(parts, stop=Stop(asked=int(share * counts.answered)))
        assert not (run / "test.hypotheses.txt").exists() and not (run / "test.scores.json").exists()
        begun = RunDirectory(run).training("last").state["update"]
        assert f"resumed after update {begun}" in train(parts, resume=True)
        assert differences(run, folder / "asked") == []


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def six(folder: Path) -> Path:
    """A run of six updates; beside it ``five``, the same run stopped after five of them."""
    train(config(folder, output="six", updates=6, average=2))
    train(config(folder, output="five", updates=6, average=2), stop_after=5)
    return folder / "six"


@pytest.fixture
def copied(folder: Path, six: Path, tmp_path: Path) -> tuple[Config, RunDirectory]:
    """A copy of the stopped run that a test may damage, and its configuration."""
    run = RunDirectory(shutil.copytree(folder / "five", tmp_path / "run"))
    return config(folder, output=str(run.path), updates=6, average=2), run


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_crash_after_falling_back_loses_nothing(
    copied: tuple[Config, RunDirectory], six: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Renames: ``previous`` to ``last``; of the next save ``last`` to ``previous``, new to ``last``."""
    damaged, run = copied
    (run.checkpoints / "last" / "model.safetensors").write_bytes(b"")
    with monkeypatch.context() as patch:
        crash_at_rename(patch, number)
        with pytest.raises(Crash):
            train(damaged, resume=True)
    assert "resumed after update 4" in train(damaged, resume=True)
    assert differences(run.path, six) == []


def test_damage_to_what_the_end_needs_is_seen_at_the_start(copied: tuple[Config, RunDirectory], six: Path) -> None:
    """The best of the kept takes the place of ``best``; the tokenizer is written again."""
    damaged, run = copied
    kept = [f"update-{each['update']}" for each in run.training("last").state["kept"]]
    for path in (run.checkpoints / "best" / "model.safetensors", run.tokenizer / "source.model"):
        path.write_bytes(path.read_bytes()[:-1])
    said = train(damaged, resume=True)
    size = (run.checkpoints / kept[0] / "model.safetensors").stat().st_size
    [line] = [line for line in said if "it is not used" in line]
    assert line.startswith(f"{run.checkpoints}/best/model.safetensors: not a whole safetensors file (")
    assert line.endswith(f"; it has {size - 1:,} bytes); it is not used")
    assert differences(run.path, six) == []


def test_a_state_or_a_manifest_that_does_not_fit_is_named(copied: tuple[Config, RunDirectory]) -> None:
    damaged, run = copied
    file = run.checkpoints / "last" / "training.safetensors"
    save_file({name: tensor for name, tensor in load_tensors(file).items() if name != "random.cpu"}, file)
    reseal(file.parent)
    problem = f"{file}: no state of the random generators ('random.cpu')"
    assert problems_of(FileError, train, damaged, resume=True) == [problem]
    run.manifest.write_text("[]")
    problem = f"{run.manifest}: not the manifest of a run"
    assert problems_of(FileError, train, damaged, resume=True) == [problem]
