"""The run directory: what is saved comes back, what is damaged is named, what crashes leaves something usable."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from nmt.errors import ConfigError, FileError
from nmt.files import write_bytes, write_json, write_text
from nmt.model import build_model
from nmt.runs import checkpoints
from nmt.runs.checkpoints import TRIES, TrainingCheckpoint, load_weights, unshared
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import load_run
from nmt.runs.log import cut_metrics, last_progress, read_metrics
from tests.comparison import reseal
from tests.models import SOURCE, model_config, small_model
from tests.small_translator import TOKENIZERS, network
from tests.test_corpus import problems_of

CPU = torch.device("cpu")
TENSORS = {"a": torch.tensor([1.5, -2.0]), "b": torch.tensor([[3]], dtype=torch.int64)}
TENSORS |= {"c": torch.tensor(2.5).bfloat16(), "d": torch.empty(0, 3).half(), "e": torch.tensor([0.1]).double()}


@pytest.fixture
def run(random_run: str, tmp_path: Path) -> RunDirectory:
    """One that a test may damage."""
    return RunDirectory(shutil.copytree(random_run, tmp_path / "run"))


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one
    )


# --- there and back ---------------------------------------------------------------------------------------------------


def test_weights_and_training_state_come_back_bit_for_bit(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    state = {"update": 3, "best": None, "score": 0.1 + 0.2, "words": ["é", "\u2028"]}
    run.save("last", TENSORS, TrainingCheckpoint({"random": torch.get_rng_state()}, state))
    assert equal(run.weights("last"), TENSORS)
    training = run.training("last")
    assert torch.equal(training.tensors["random"], torch.get_rng_state())
    assert training.state == state
    last = run.folder("last")
    assert {path.stat().st_mode & 0o777 for path in last.iterdir()} == {last.stat().st_mode & 0o666}, "all may read"


@pytest.mark.parametrize("tie", ["target", "all"])
def test_tied_tensors_are_saved_once_and_come_back_tied(tie: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    config = model_config(embeddings={"size": 5, "tie": tie})
    model, other = build_model(config, SOURCE, SOURCE), build_model(config, SOURCE, SOURCE)
    run = RunDirectory(tmp_path)
    run.save("best", model.state_dict())
    names = {name for name in run.weights("best") if name.endswith("embedding.weight") or name == "output.weight"}
    assert len(names) == {"target": 2, "all": 1}[tie]
    load_weights(other, run.weights("best"), "here")
    assert equal(other.state_dict(), model.state_dict())
    assert other.output.weight is other.target_embedding.weight
    assert (other.source_embedding.weight is other.target_embedding.weight) == (tie == "all")


def test_what_shares_memory_is_named_once() -> None:
    tensor = torch.ones(4)
    found = unshared({"a": tensor, "b": tensor, "c": tensor[1:], "d": torch.empty(0), "e": torch.empty(0)})
    assert [*found] == ["a", "c", "d", "e"]


# --- damage -----------------------------------------------------------------------------------------------------------

PARTS = ["config.yaml", "tokenizer/source.model", "tokenizer/target.model", "checkpoints/best/model.safetensors"]
STATE = ["checkpoints/last/training.safetensors", "checkpoints/last/training.json"]
REPORTED = ["metrics.jsonl", "samples.jsonl", "film.safetensors", "checkpoints/previous/training.json"]


@pytest.mark.parametrize("part", [*PARTS, *REPORTED, "manifest.json", "checkpoints/best/sha256.json", *STATE])
def test_a_file_outside_the_run_is_not_read(run: RunDirectory, part: str, tmp_path: Path) -> None:
    run.save("last", TENSORS, TrainingCheckpoint(TENSORS, {}))
    (run.path / part).parent.mkdir(exist_ok=True)
    (run.path / part).unlink(missing_ok=True)
    (tmp_path / "outside").write_bytes(b"secret")  # an error about its content would show that it was read
    (run.path / part).symlink_to(tmp_path / "outside")
    with pytest.raises(FileError, match=rf"{part}: a link out of the run directory, to {tmp_path}/outside"):
        run.training("last") if part in STATE else load_run(run.path, CPU)


def test_malformed_records_are_left_out(tmp_path: Path) -> None:
    good = {"step": 2, "split": "average", "loss": 2.5, "bleu": None, "updates": [1, 2], "best": True}
    bad = ["[" * 100_000, "3", '{"split": "train"}']
    bad += ["\udcff", '{"step": 1, "lo\udcc3']  # no UTF-8: 0xff, half a character
    path = tmp_path / "metrics.jsonl"
    path.write_text("\n".join([*bad, json.dumps(good), *bad]), "utf-8", "surrogateescape")
    assert read_metrics(path) == [good]
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(FileError, match=r"metrics\.jsonl: a directory, pipe or device"):
        read_metrics(path)


def test_what_is_no_run_or_has_no_weights_is_said(run: RunDirectory, tmp_path: Path) -> None:
    shutil.rmtree(run.checkpoints / "best")
    (empty := tmp_path / "empty").mkdir()
    (file := empty / "file").touch()
    for path, problem in (
        (tmp_path / "nowhere", f"{tmp_path}/nowhere: no such run directory; nmt-train makes one"),
        (empty, f"{empty}/config.yaml: missing; {empty} is not a run directory of nmt-train"),
        (run.checkpoints / "last", f"{run.checkpoints}/last: not a run directory; must be {run.path}"),
        (run.path.parent, f"{run.path.parent}: not a run directory; must be {run.path}"),
        (file, f"{file}: is a file, not a run directory; nmt-train makes one"),
        (run.path, f"{run.checkpoints}/best: missing; a run has it after its first validation"),
    ):
        assert problems_of(FileError, load_run, path, CPU) == [problem]


def test_a_tokenizer_that_was_changed_is_seen(run: RunDirectory) -> None:
    write_json(run.manifest, {"tokenizer_sha256": TOKENIZERS.sha256})
    run.save("best", network().state_dict())
    assert load_run(run.path, CPU)
    write_json(run.manifest, {"tokenizer_sha256": {"source": "0", "target": "0"}})
    with pytest.raises(FileError, match="tokenizer: damaged, or of another run"):
        load_run(run.path, CPU)


def test_weights_that_do_not_fit_are_all_named() -> None:
    model = small_model()
    weights = dict(model.state_dict())
    weights["extra.weight"] = weights.pop("output.bias")
    weights["output.weight"] = torch.zeros(2, 5)
    weights["target_embedding.weight"] = weights["target_embedding.weight"].long()
    assert problems_of(FileError, load_weights, model, weights, "RUN") == [
        "RUN: tensor extra.weight belongs to no part of the model",
        "RUN: tensor output.bias is missing",
        "RUN: tensor output.weight has shape (2, 5), the model (13, 5)",
        "RUN: tensor target_embedding.weight holds torch.int64, not floating-point numbers",
    ]


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 100_000], ids=range(3))
def test_a_damaged_training_state_is_named(run: RunDirectory, content: bytes) -> None:
    run.save("last", TENSORS, TrainingCheckpoint({}, {}))
    (run.checkpoints / "last" / "training.json").write_bytes(content)
    reseal(run.checkpoints / "last")
    with pytest.raises(FileError, match=r"last/training\.json: cannot be read"):
        run.training("last")


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("model.safetensors", lambda content: content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]),
        ("training.safetensors", lambda content: content[: len(content) // 2]),
        ("training.json", lambda content: b""),
    ],
)
def test_of_damaged_checkpoints_the_other_is_used(tmp_path: Path, file: str, damage: Callable[[bytes], bytes]) -> None:
    run, said = RunDirectory(tmp_path), list[str]()
    for each in (1, 2):
        run.save("last", weights_of(each), TrainingCheckpoint(weights_of(each), {"update": each}))
    last, previous = (run.checkpoints / name / file for name in ("last", "previous"))
    last.write_bytes(damage(last.read_bytes()))
    assert run.resumable(said.append) == "previous"
    [line] = said
    assert line.startswith(f"{last}: ") and line.endswith("checkpoints/previous, which is older")
    previous.unlink()
    problems = problems_of(FileError, run.resumable, said.append)
    assert [line.partition(": ")[0] for line in problems[:2]] == [str(last), str(previous)]


# --- crashes ----------------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The power fails."""


def crash_at_rename(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Fail in the place of the rename of this number, counted from 1."""
    renames = iter(range(1, 100))
    rename = Path.rename

    def crashing(self: Path, target: str | Path) -> Path:
        if next(renames) == number:
            raise Crash
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", crashing)


def weights_of(number: int) -> dict[str, Tensor]:
    return {"w": torch.tensor([float(number)])}


@pytest.mark.parametrize("number", [1, 2])
def test_a_crash_while_saving_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Renames: ``last`` to ``previous``, the new one to ``last``."""
    run = RunDirectory(tmp_path)
    for each in (0, 1):
        run.save("last", weights_of(each))
    with monkeypatch.context() as patch:
        crash_at_rename(patch, number)
        with pytest.raises(Crash):
            run.save("last", weights_of(2))
    assert run.has("last") and equal(run.weights("last"), weights_of(1))
    with monkeypatch.context() as patch:  # and again, now that nothing is in its place
        crash_at_rename(patch, 1)
        with pytest.raises(Crash):
            run.save("last", weights_of(3))
    assert equal(run.weights("last"), weights_of(1))
    run.save("last", weights_of(4))
    assert equal(run.weights("last"), weights_of(4))
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["last", "previous"]
    assert equal(run.weights("previous"), weights_of(1))


@pytest.mark.parametrize(("moment", "times"), [("digest", 1), ("load_tensors", 100), ("read_json", 1)])
def test_a_replaced_one_is_whole(moment: str, times: int, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights and state are of one save, before and after those of the moment. ``best`` is read by ``load_run``."""
    weights = run.weights("best")
    run.save("last", weights_of(0), TrainingCheckpoint(weights_of(0), {"save": 0}))
    saves: list[Path] = []
    original = getattr(checkpoints, moment)

    def interrupted(path: Path) -> Any:
        if len(saves) < times:
            saves.append(path)
            with monkeypatch.context() as patch:
                patch.setattr(checkpoints, moment, original)
                for _ in range(2):  # two saves leave nothing of the first
                    run.save("last", weights_of(times), TrainingCheckpoint(weights_of(times), {"save": times}))
                    run.save("best", weights)
        return original(path)

    for read in (lambda: run.training("last").state, lambda: load_run(run.path, CPU) and {"save": times}):
        saves.clear()
        with monkeypatch.context() as patch:
            patch.setattr(checkpoints, moment, interrupted)
            if times == 1:
                assert read() == {"save": times}
            else:
                with pytest.raises(FileError, match="changed while loading"):
                    read()
        assert len(saves) >= min(times, TRIES)


def test_a_run_that_has_vanished_does_not_come_back_in_parts(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    run.save("last", weights_of(1))
    shutil.rmtree(run.path)
    with pytest.raises(FileError, match=r"checkpoints/last: cannot be written: .*No such file"):
        run.save("last", weights_of(2))
    assert not run.path.exists()


def test_a_full_disk_leaves_what_was_there_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, full = RunDirectory(tmp_path), "No space left on device"
    run.save("last", weights_of(1))
    write_bytes(tmp_path / "a", b"1")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, full)))
    with pytest.raises(FileError, match=rf"^{run.checkpoints}/last: cannot be written: \[Errno 28\] {full}"):
        run.save("last", weights_of(2))
    with pytest.raises(OSError, match=f"{full}: '{tmp_path / 'a'}'"):
        write_bytes(tmp_path / "a", b"2")
    assert equal(run.weights("last"), weights_of(1)) and (tmp_path / "a").read_bytes() == b"1"


# --- the folder -------------------------------------------------------------------------------------------------------


def test_metrics_are_cut_where_training_goes_on(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    cut_metrics(run.metrics, {"train": 3, "validation": 3})
    assert not run.metrics.exists()
    lines = [
        json.dumps({"step": step, "split": split})
        for step, split in [(1, "train"), (3, "train"), (3, "validation"), (3, "average"), (3, "test"), (4, "train")]
    ]
    run.metrics.write_bytes("\n".join([*lines, "[" * 100_000, '{"step": 3, "spl']).encode() + b"\xff")
    cut_metrics(run.metrics, {"train": 3, "validation": 3})
    assert run.metrics.read_text().splitlines() == lines[:3]
    cut_metrics(run.metrics, {"train": 3, "validation": 2})  # a validation that is to be made again
    assert run.metrics.read_text().splitlines() == lines[:2]


def test_a_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    for name in ("a", ".a.new"):
        (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    write_text(tmp_path / "a", "new")
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert (tmp_path / "a").read_text() == "new" and not (tmp_path / "a").is_symlink()


# --- two at once ------------------------------------------------------------------------------------------------------


def test_only_one_trains_into_a_run(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    match = f"^output: another nmt-train is running in {run.path}; "
    for _ in range(2):
        with run.locked(print), pytest.raises(ConfigError, match=match), RunDirectory(run.path).locked(print):
            pass
    assert list(run.path.iterdir()) == []


def test_a_file_system_without_locks_is_trained_on_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(95, "Operation not supported")))
    said: list[str] = []
    with RunDirectory(tmp_path).locked(said.append):
        advice = "make sure that no other nmt-train writes there"
        assert said == [f"{tmp_path}: cannot be locked (Operation not supported); {advice}"]


def test_counters_between_the_renames_of_a_save_are_those_of_previous(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "previous").mkdir(parents=True)
    write_json(tmp_path / "checkpoints" / "previous" / "training.json", {"update": 7})
    assert last_progress(tmp_path) == {"update": 7}
    for content in (3, [1], ["abc"], None):
        write_json(tmp_path / "checkpoints" / "previous" / "training.json", content)
        assert last_progress(tmp_path) == {}
