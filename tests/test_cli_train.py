"""The command as a user meets it: what it refuses, what it leaves, how it is interrupted."""

import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from nmt.cli import evaluate, length_curve, translate
from nmt.cli.common import as_typed
from nmt.cli.train import StopRequest, main
from nmt.config import Config
from nmt.data.batching import plan_epoch
from nmt.data.dataset import prepare
from nmt.errors import CheckpointError
from nmt.foundation.messages import duration
from nmt.runs.directory import RunDirectory
from nmt.training import dry_run, pipeline
from nmt.training.progress import Progress
from nmt.training.trainer import Trainer
from nmt.translation.results import Translation
from nmt.translation.searching import search_batch
from nmt.translation.translator import Translator
from nmt.translation.windows import lines_for
from tests.small_run import config as small_config
from tests.small_run import metrics, options
from tests.torture.comparison import snapshot
from tests.torture.strangers import reseal

Train = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one corpus, its cache, and a finished run."""
    folder = tmp_path_factory.mktemp("corpus")
    write_config(folder, options(folder, updates=2, log_every=2))
    assert main(["--config", str(folder / "config.yaml")]) == 0
    return folder


def write_config(folder: Path, values: dict[str, Any]) -> Path:
    """As a file; JSON is YAML."""
    path = folder / "config.yaml"
    path.write_text(json.dumps(values))
    return path


@pytest.fixture
def train(corpus: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Train]:
    """Run the command on the corpus: exit code and standard error; there must be no standard output."""
    threads = torch.get_num_threads()

    def call(*arguments: str | Path, config: Path = corpus / "config.yaml") -> tuple[int, str]:
        code = main(["--config", str(config), *map(str, arguments)])
        out, err = capsys.readouterr()
        assert out == ""
        return code, err

    yield call
    torch.set_num_threads(threads)


@pytest.fixture
def run(corpus: Path, tmp_path: Path) -> Path:
    """A finished run that a test may change."""
    return shutil.copytree(corpus / "run", tmp_path / "run")


def refused(result: tuple[int, str]) -> list[str]:
    """The lines of an error."""
    code, err = result
    assert code == 2 and "Traceback" not in err
    return [line.removeprefix("nmt-train: error: ") for line in err.splitlines()]


# --- the run directory ------------------------------------------------------------------------------------------------


def test_a_run_that_exists_is_refused_before_anything_is_done(train: Train, run: Path) -> None:
    before = snapshot(run)
    assert refused(train("--output", run)) == [
        f"output: {run} holds a run; continue it with --resume, or replace it with --overwrite"
    ]
    assert snapshot(run) == before


def test_resume_and_overwrite_exclude_each_other(train: Train, run: Path) -> None:
    assert refused(train("--output", run, "--resume", "--overwrite")) == ["--resume and --overwrite exclude each other"]


def test_overwrite_replaces_the_run_and_nothing_else(train: Train, run: Path) -> None:
    (run / "notes.txt").write_text("mine")
    (run / "checkpoints" / "update-7").mkdir()
    code, err = train("--output", run, "--overwrite", "--set", "training.updates=1")
    assert code == 0 and "training: 1 updates, " in err
    assert (run / "notes.txt").read_text() == "mine"
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["best", "last", "previous"]
    assert {line["step"] for line in metrics(run)} == {1}


def test_a_mistake_in_the_data_costs_no_run(train: Train, run: Path) -> None:
    before = snapshot(run)
    lines = refused(train("--output", run, "--overwrite", "--set", "data.train.source=nowhere.txt"))
    assert "nowhere.txt" in lines[-1]
    assert snapshot(run) == before


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("evaluation.gold={source: nowhere, target: nowhere, links: nowhere}", "nowhere: no such file"),
        ("model.encoder.hidden=1000000", "out of memory"),
    ],
)
def test_what_is_wrong_beside_the_data_costs_no_run(train: Train, run: Path, mistake: str, said: str) -> None:
    before = snapshot(run)
    code, err = train("--output", run, "--overwrite", "--set", mistake)
    assert code == 2 and said in err
    assert snapshot(run) == before


def test_a_run_that_has_saved_nothing_cannot_be_resumed(train: Train, run: Path) -> None:
    for name in ("last", "previous"):
        shutil.rmtree(run / "checkpoints" / name)
    assert refused(train("--output", run)) == [
        f"output: {run} holds a run without a checkpoint; replace it with --overwrite"
    ]


@pytest.mark.parametrize("how", [[], ["--overwrite"], ["--resume"], ["--dry-run"]])
def test_a_directory_of_other_files_is_no_place_for_a_run(train: Train, tmp_path: Path, how: list[str]) -> None:
    for name in ("thesis.tex", "b", "c", "d"):
        (tmp_path / name).write_text("mine")
    assert refused(train("--output", tmp_path, *how)) == [
        f"output: {tmp_path} holds other files (b, c, d, ...); name a new or empty directory"
    ]
    assert len(list(tmp_path.iterdir())) == 4


def test_a_half_made_run_can_be_replaced(train: Train, tmp_path: Path) -> None:
    """Training was killed before it wrote a configuration."""
    for part in ("tokenizer", "tensorboard"):
        (tmp_path / "run" / part).mkdir(parents=True)
    for name in (".lock", ".config.yaml.new"):
        (tmp_path / "run" / name).touch()
    code, _ = train("--output", tmp_path / "run", "--overwrite", "--set", "training.updates=1")
    assert code == 0


def test_a_run_that_is_being_trained_is_not_called_one_to_replace(train: Train, run: Path) -> None:
    for name in ("last", "previous"):
        shutil.rmtree(run / "checkpoints" / name)
    with RunDirectory(run).locked(print):
        [line] = refused(train("--output", run))
    assert line.startswith(f"output: another nmt-train is running in {run};") and "--overwrite" not in line


def test_parents_of_the_run_are_made(train: Train, tmp_path: Path) -> None:
    code, _ = train("--output", tmp_path / "a" / "b" / "c", "--set", "training.updates=1")
    assert code == 0 and (tmp_path / "a" / "b" / "c" / "checkpoints" / "best").is_dir()


@pytest.mark.parametrize("place", ["file", "file/run", "file/a/run"])
def test_a_file_in_the_way_is_named(train: Train, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    assert refused(train("--output", tmp_path / place)) == [f"output: {tmp_path}/file is a file; name a directory"]


def test_a_folder_that_must_not_be_written_to_is_named(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)  # rights do not bind root
    assert refused(train("--output", tmp_path / "a" / "run")) == [
        f"output: {tmp_path} is not writable (Permission denied); choose another directory or change its permissions"
    ]
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert "is not writable (Read-only file system)" in refused(train("--output", tmp_path / "a" / "run"))[0]


@pytest.mark.parametrize("part", ["checkpoints", "tokenizer", "tensorboard"])
def test_a_part_that_must_not_be_written_to_is_named(
    train: Train, run: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != run / part)
    for how in (["--resume"], ["--resume", "--dry-run"], ["--overwrite"]):
        assert refused(train("--output", run, *how)) == [
            f"output: {run / part} is not writable (Permission denied); choose another directory or change its "
            "permissions"
        ]


def test_a_run_needs_a_place(train: Train, corpus: Path, tmp_path: Path) -> None:
    nameless = write_config(tmp_path, options(corpus) | {"output": None})
    for arguments in ([], ["--output", ""]):
        assert refused(train(*arguments, config=nameless)) == [
            "output: no run directory is named; give --output RUN, or output: in the configuration"
        ]


def test_a_write_that_fails_ends_training_with_its_file(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("nmt.runs.directory.sync", full)
    [*_, line] = refused(train("--output", tmp_path / "run"))
    assert line.startswith(f"{tmp_path}") and line.endswith(": No space left on device")


def test_a_run_that_vanishes_is_said_to_be_missing(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = RunDirectory.save

    def saved_and_gone(run: RunDirectory, *arguments: Any, **more: Any) -> None:
        save(run, *arguments, **more)
        shutil.rmtree(run.path)

    monkeypatch.setattr(RunDirectory, "save", saved_and_gone)
    [*_, line] = refused(train("--output", tmp_path / "run"))
    assert line == f"{tmp_path}/run/checkpoints: No such file or directory"
    assert not (tmp_path / "run").exists()


# --- resuming ---------------------------------------------------------------------------------------------------------


def test_there_must_be_something_to_resume(train: Train, run: Path, tmp_path: Path) -> None:
    assert refused(train("--output", tmp_path / "new", "--resume")) == [
        f"{tmp_path}/new: there is no run to resume; start it without --resume"
    ]
    for name in ("last", "previous"):
        shutil.rmtree(run / "checkpoints" / name)
    assert refused(train("--output", run, "--resume")) == [
        f"{run}/checkpoints/last: missing, nothing to resume from; start with --overwrite"
    ]


def test_a_run_is_resumed_as_it_was_begun(train: Train, run: Path) -> None:
    before = snapshot(run)
    changed = ["seed=2", "model.attention={type: none}", "training.batch_tokens=99", "training.label_smoothing=0.1"]
    arguments = [word for change in changed for word in ("--set", change)]
    assert refused(train("--output", run, "--resume", *arguments)) == [
        f"{run}: model.attention.type was 'bahdanau' and is now 'none'",
        f"{run}: seed was 1 and is now 2",
        f"{run}: training.batch_tokens was 100 and is now 99",
        f"{run}: training.label_smoothing was 0.0 and is now 0.1",
        "a run resumes with the configuration it started with; restore it, or use a new --output",
    ]
    assert snapshot(run) == before


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


def test_a_dry_run_estimates_time_and_memory(tmp_path: Path) -> None:
    """At an epoch a minute, two epochs take two minutes, whatever the first batch took."""
    small = small_config(tmp_path, updates=4, validation={"every": 2})
    prepared = prepare(small)
    lengths = prepared.train.source_lengths, prepared.train.target_lengths
    batches = len(plan_epoch(*lengths, small.training.batch_tokens, seed=1, epoch=0))
    tokens = int(prepared.train.target_lengths.sum()) + len(prepared.train)
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    rows = [{"split": "train", "target_tokens_per_second": rate} for rate in (1.0, tokens / 60, tokens / 60)]
    rows.append({"split": "validation", "seconds": 2.0})
    run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    twice = small.training.model_copy(update={"updates": 2 * batches})
    said = dry_run.estimate(small.model_copy(update={"training": twice}), prepared, prepared, run, Progress())
    assert said.startswith(f"estimate: about 2m 00s for {2 * batches} updates (2.0 epochs, {tokens / 60:,.0f} target ")
    assert f"and up to {duration(batches * 2.0)} for {batches} validations; " in said
    half = Progress(update=batches)
    rest = dry_run.estimate(small.model_copy(update={"training": twice}), prepared, prepared, run, half)
    assert rest.startswith(f"estimate: about 1m 00s for {batches} updates (1.0 epochs, ")
    end = Progress(update=2 * batches - 1, validated=2 * batches - 1)
    last = dry_run.estimate(small.model_copy(update={"training": twice}), prepared, prepared, run, end)
    assert " for 1 update (" in last and " for 1 validation; " in last


# --- the dry run ------------------------------------------------------------------------------------------------------


def test_a_dry_run_tries_everything_and_leaves_nothing(
    train: Train, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = options(corpus)["data"]
    del data["cache"]
    values = options(corpus, updates=10**6, validation={"samples": 1}) | {"data": data}
    config = write_config(tmp_path, values | {"output": str(tmp_path / "run")})
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    before, corpus_before = snapshot(tmp_path), snapshot(corpus)
    code, err = train("--dry-run", "--verbose", config=config)
    assert code == 0
    assert err.splitlines()[-1] == "dry run: everything that training needs is there and works; nothing was kept"
    for step in ("update 1/4", "update 4/4", "validation         4", "test set: BLEU"):
        assert step in err
    assert re.search(
        r"^estimate: about \S+( \d\dm)? for 1,000,000 updates \([0-9,.]+ epochs, [0-9,]+ target tokens/s\), and up to "
        r"\S+( \d\dm)? for 500,000 validations; \d+\.\d GB of memory$",
        err,
        re.MULTILINE,
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "tmp"]
    assert snapshot(tmp_path) == before and snapshot(corpus) == corpus_before
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_dry_run_finds_what_would_fail_after_the_last_update(train: Train, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("OAK\n")
    [*_, line] = refused(
        train("--output", tmp_path / "run", "--dry-run", "--set", f"data.test.target={tmp_path}/short")
    )
    assert "test.low has 20 lines" in line and f"{tmp_path}/short has 1" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["short"]


def test_a_dry_run_refuses_what_training_would_refuse(train: Train, run: Path) -> None:
    before = snapshot(run)
    assert "holds a run" in refused(train("--output", run, "--dry-run"))[0]
    code, _ = train("--output", run, "--dry-run", "--overwrite")
    assert code == 0 and snapshot(run) == before


def test_a_dry_run_of_a_resumption_loads_the_run_and_leaves_it_as_it_is(train: Train, run: Path) -> None:
    before = snapshot(run)
    code, err = train("--output", run, "--dry-run", "--resume", "--set", "training.updates=9")
    assert code == 0 and f"{run} can be resumed after update 2\n" in err
    assert snapshot(run) == before


def test_a_dry_run_of_a_resumption_refuses_what_resuming_would(train: Train, run: Path, corpus: Path) -> None:
    how: list[str | Path] = ["--output", run, "--dry-run", "--resume"]
    assert refused(train(*how, "--set", "seed=2"))[0] == f"{run}: seed was 1 and is now 2"
    file = corpus / "test.low"
    text = file.read_text()
    try:
        file.write_text("oak\n" * 20)
        [*_, problem, _] = refused(train(*how))
    finally:
        file.write_text(text)
    assert problem.startswith(f"{run}/manifest.json: corpus_sha256 was ")
    state = run / "checkpoints" / "last" / "training.json"
    state.write_text("[]")
    reseal(state.parent)
    assert refused(train(*how))[-1].startswith(f"{state}: not the progress of a run")


def test_a_dry_run_tries_the_cache_that_training_would_use(train: Train, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = tmp_path / "file" / "cache"
    [line] = refused(train("--output", tmp_path / "run", "--dry-run", "--set", f"data.cache={cache}"))
    assert line.startswith(f"data.cache: {cache}: cannot be written: Not a directory")


def test_a_cache_of_a_name_that_is_not_utf8(train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NMT_CACHE", os.fsdecode(bytes(tmp_path) + b"/\xe9"))
    for more in ([], ["--dry-run"]):
        [line] = refused(train("--output", tmp_path / "run", "--set", "data.cache=null", *more))
        assert line.startswith(f"data.cache: {tmp_path}/\\xe9: not a UTF-8 name; set data.cache, or the ")


def test_a_dry_run_sees_that_the_disk_is_too_small(
    train: Train, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = sum(path.stat().st_size for path in (run / "checkpoints").rglob("*") if path.is_file())
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=used))
    how: list[str | Path] = ["--output", tmp_path / "new", "--dry-run", "--set", "training.average=9"]
    [*_, line] = refused(train(*how))
    assert line.startswith(f"output: {tmp_path}/new: the checkpoints need ") and line.endswith(" MB are free there")
    assert "data.cache" not in line, "it is there already"
    assert train("--output", run, "--dry-run", "--resume")[0] == 0  # which has its own room already
    [*_, line] = refused(train(*how, "--set", f"data.cache={tmp_path}/other"))
    assert f"; data.cache: {tmp_path}/other: the encoded text needs " in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_a_dry_run_says_where_it_works(train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))

    def fail(config: Config, **_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"{config.output}/config.yaml")

    monkeypatch.setattr(pipeline, "train_run", fail)
    [first, second] = refused(train("--output", tmp_path / "run", "--dry-run"))
    assert re.fullmatch(rf"{tmp_path}/tmp/nmt-dry-run-\w+/run/config.yaml: No space left on device", first)
    assert re.fullmatch(
        rf"{tmp_path}/tmp/nmt-dry-run-\w+ is the temporary directory of the dry run; .* set TMPDIR .*", second
    )


def test_a_dry_run_translates_the_longest_lines(
    train: Train, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translated: list[list[str]] = []
    stream = Translator.stream

    def watched(self: Translator, lines: Iterable[str], *rest: Any, **more: Any) -> Iterator[Translation]:
        translated.append(list(lines))
        return stream(self, translated[-1], *rest, **more)

    monkeypatch.setattr(Translator, "stream", watched)
    tokens = ["--set", "decoding.batch_tokens=40", "--set", "decoding.max_source=3"]
    assert train("--output", tmp_path / "run", "--dry-run", *tokens)[0] == 0
    validation, test = ((corpus / f"{split}.low").read_text().splitlines() for split in ("validation", "test"))
    expected = []
    for lines, beam in ((validation[:5], 1), (test, 2)):
        longest = sorted(lines, key=lambda line: -min(len(line.split()), 3))
        rows = 40 // beam // 4  # pieces of the longest, the end symbol included
        expected.append(longest[: lines_for(rows, torch.device("cpu"))])
    assert translated == expected


@pytest.mark.parametrize("threads", [1, 2])
def test_a_dry_run_makes_batches_as_large_as_training_will(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    for side, word in (("low", "oak"), ("up", "OAK")):
        (tmp_path / f"many.{side}").write_text((" ".join([word] * 4) + "\n") * 300)
    sizes: list[int] = []

    def watched(model: Any, batch: Any, *how: Any) -> Any:
        sizes.append(len(batch))
        return search_batch(model, batch, *how)

    monkeypatch.setattr("nmt.translation.translator.search_batch", watched)
    how = ["--set", f"data.test={{source: {tmp_path}/many.low, target: {tmp_path}/many.up}}"]
    how += ["--set", "decoding.batch_tokens=200", "--set", f"threads={threads}", "--set", "training.updates=1"]
    largest = []
    for dry in (["--dry-run"], []):
        assert train("--output", tmp_path / "run", *how, *dry)[0] == 0
        largest.append(max(sizes))
        sizes.clear()
    assert largest == [20, 20]  # 200 tokens, of two hypotheses of five pieces


def test_what_killed_dry_runs_left_goes_after_a_day(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, age in (("nmt-dry-run-old", 2 * 24 * 3600), ("nmt-dry-run-new", 60)):
        (tmp_path / "tmp" / name / "run").mkdir(parents=True)
        for path in (tmp_path / "tmp" / name / "run", tmp_path / "tmp" / name):
            os.utime(path, (time.time() - age,) * 2)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    assert train("--output", tmp_path / "run", "--dry-run")[0] == 0
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == ["nmt-dry-run-new"]


def test_a_folder_for_temporary_files_that_cannot_be_used(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    code, err = train("--output", tmp_path / "run", "--dry-run")
    assert code == 0 and f"TMPDIR: {tmp_path}/none: not writable; the dry run uses " in err
    monkeypatch.setattr(tempfile, "tempdir", os.fsdecode(bytes(tmp_path) + b"/\xe9"))
    [line] = refused(train("--output", tmp_path / "run", "--dry-run"))
    assert line == f"TMPDIR: {tmp_path}/\\xe9: a name that is not UTF-8; set it to another directory"


def test_a_run_cannot_be_made_shorter(train: Train, run: Path) -> None:
    before = snapshot(run)
    for more in ([], ["--dry-run"]):
        [*_, line] = refused(train("--output", run, "--resume", "--set", "training.updates=1", *more))
        assert line.startswith(
            "training.updates: 1, but the run has already made 2; a run can be extended, not shortened"
        )
        assert snapshot(run) == before


def test_a_signal_before_the_first_update_saves(train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = RunDirectory.create

    def signalled(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        create(*arguments)

    monkeypatch.setattr(RunDirectory, "create", signalled)
    ignored = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and training then does, too
    code, err = train("--output", tmp_path / "run")
    signal.signal(signal.SIGHUP, ignored)
    assert code == 129 and err.splitlines()[-1].startswith("stopped; continue with: nmt-train ")
    assert "resumed after update 0\n" in train("--output", tmp_path / "run", "--resume")[1]


def test_what_goes_on_is_told_as_it_was_typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    there = Path(sys.executable).with_name("nmt-train")
    monkeypatch.setattr(sys, "argv", [str(there)])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert as_typed("nmt-train") == str(there)
    monkeypatch.setenv("PATH", str(there.parent))
    assert as_typed("nmt-train") == "nmt-train"
    monkeypatch.setattr(sys, "argv", ["-c"])
    assert as_typed("nmt-train") == "nmt-train"


def test_a_dry_run_of_an_unfinished_resumption_with_a_damaged_best_passes(train: Train, run: Path) -> None:
    best = run / "checkpoints" / "best" / "model.safetensors"
    best.write_bytes(best.read_bytes()[:-1] + b"?")
    before = snapshot(run)
    how: list[str | Path] = ["--output", run, "--resume", "--set", "training.updates=3"]
    code, err = train(*how, "--dry-run")
    assert code == 0 and f"{best}: damaged" in err and snapshot(run) == before
    assert train(*how)[0] == 0 and best.read_bytes() != before[str(best.relative_to(run))]


def test_a_dry_run_sees_that_somebody_else_trains(train: Train, run: Path) -> None:
    with RunDirectory(run).locked(print):
        [line] = refused(train("--output", run, "--dry-run", "--resume"))
    assert line.startswith(f"output: another nmt-train is running in {run};")


def test_a_dry_run_reads_the_gold_links(train: Train, tmp_path: Path, corpus: Path) -> None:
    files = f"source: {corpus}/test.low, target: {corpus}/test.up, links: {tmp_path}/gold"
    how: list[str | Path] = ["--output", tmp_path / "new", "--dry-run", "--set", f"evaluation.gold={{{files}}}"]
    assert refused(train(*how))[-1] == f"evaluation.gold: {tmp_path}/gold: no such file"
    (tmp_path / "gold").write_text("0-0\n" * 19 + "0-99\n")
    assert "gold:20: 0-99 links a missing word" in refused(train(*how))[-1]


def test_an_error_is_where_it_belongs(train: Train, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise CheckpointError("one", "two")

    monkeypatch.setattr(pipeline, "prepare", fail)
    assert refused(train("--output", tmp_path / "run")) == ["one", "two"]
    code, err = train("--output", tmp_path / "run", "--verbose")
    assert code == 2 and "Traceback" in err


# --- interruption -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_and_a_second_one_left_to_the_system(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        assert stop() and stop.signal == number
        assert signal.getsignal(number) == signal.SIG_DFL
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert capsys.readouterr().err == "stopping after this step; press Ctrl-C again to stop immediately\n"


def test_the_command_leaves_signals_as_they_were(train: Train, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert train("--output", tmp_path / "run", "--set", "training.updates=1")[0] == 0
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_signal_after_the_last_update_is_noted_too(train: Train, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(trainer: Trainer, pause: Any) -> None:
        assert trainer.progress.complete(trainer.config)
        os.kill(os.getpid(), signal.SIGTERM)

    def unnoted(number: int, frame: Any) -> None:
        pytest.fail("the signal would have ended the process")

    monkeypatch.setattr(Trainer, "average_best", interrupted)
    before = signal.signal(signal.SIGTERM, unnoted)
    try:
        code, err = train("--output", run, "--resume", "--set", "training.updates=3")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert code == 143
    assert err.splitlines()[-1].startswith("stopped; continue with: nmt-train ")


def test_a_run_begins_with_what_it_is_made_of_and_ends_with_what_to_type_next(
    train: Train, corpus: Path, tmp_path: Path
) -> None:
    run = tmp_path / "a run"
    code, err = train("--output", run, "--set", "training.updates=2", "--set", "evaluation.bootstrap=5")
    assert code == 0
    lines = err.splitlines()
    for name in ("data", "vocabulary", "model", "parameters", "memory", "machine", "training"):
        assert sum(line.startswith(f"{name}: ") for line in lines) == 1, name
    [parts] = [line for line in lines if line.startswith("parameters: ")]
    [model] = [line for line in lines if line.startswith("model: ")]
    counts = [int(count.replace(",", "")) for count in re.findall(r" (\d[\d,]*)(?:,|$)", parts)]
    assert sum(counts) == int(model.split()[1].replace(",", "")) and "attention " in parts
    table = [line for line in lines if line.startswith("validation ") and ("update" in line or line[-4:] == "best")]
    assert table[0].split()[1] == "update" and table[-1].endswith("best")
    typed = [shlex.split(line) for line in lines[lines.index("next:") + 1 :]]
    assert [words[0] for words in typed] == ["nmt-translate", "nmt-evaluate", "nmt-length-curve", "tensorboard"]
    assert all(str(run) in " ".join(words) for words in typed)
    assert str(corpus / "test.low") in typed[1] and str(corpus / "test.up") in typed[2]
    for module, words in ((translate, typed[0]), (evaluate, typed[1]), (length_curve, typed[2])):
        module.parser().parse_args(words[1:])
    code, err = train("--output", run, "--overwrite", "--quiet", "--set", "training.updates=2")
    assert code == 0
    test, best = err.splitlines()
    assert test.startswith("test set: BLEU ") and best.startswith("best checkpoint: that of update 2: ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_training_saves_and_says_how_to_go_on(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals, code: int
) -> None:
    run = tmp_path / "a run"  # which the shell would take for two words
    settings = ["training.updates=1000000", "training.log_every=1", "training.validation.every=1000000"]
    arguments = ["--config", str(corpus / "config.yaml"), "--output", str(run)]
    arguments += [word for setting in settings for word in ("--set", setting)]
    command = [
        sys.executable,
        "-c",
        "from nmt.cli.train import main; raise SystemExit(main())",
        "--verbose",
        *arguments,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(120, process.kill)  # a test that hangs is to fail
        watchdog.start()
        assert process.stderr is not None
        for line in process.stderr:  # training has begun
            if line.startswith("update 2/"):
                process.send_signal(number)
                break
        rest = process.stderr.read().splitlines()
        watchdog.cancel()
    assert process.returncode == code
    prefix = "stopped; continue with: nmt-train "
    assert "stopping after this step; press Ctrl-C again to stop immediately" in rest
    assert rest[-1].startswith(prefix)
    made = RunDirectory(run).training("last").state["update"]
    assert made >= 2 and made == metrics(run)[-1]["step"]
    again = shlex.split(rest[-1].removeprefix(prefix))
    assert again == ["--resume", "--output", str(run)]  # the run knows its configuration
    assert main([*again, "--set", f"training.updates={made + 1}"]) == 0
    assert f"resumed after update {made}\n" in capsys.readouterr().err


# --- links out of a run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "tensorboard", "checkpoints", "checkpoints/last"])
@pytest.mark.parametrize("how", ["--resume", "--overwrite", "--dry-run"])
def test_nothing_is_written_through_a_link_out_of_the_run(
    train: Train, run: Path, tmp_path: Path, name: str, how: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (run / name).rename(elsewhere)
    (run / name).symlink_to(elsewhere)
    before = snapshot(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()
    options = ["--overwrite", "--dry-run"] if how == "--dry-run" else [how]
    [line, *_, remedy] = refused(train("--output", run, *options))
    assert line == f"{run / name}: a link out of the run directory, to {elsewhere}"
    assert remedy.startswith("a run directory may not use files outside it")
    assert (snapshot(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()) == before


@pytest.mark.parametrize("name", ["last/training.safetensors", "last/training.json", "last/sha256.json"])
def test_nothing_is_read_through_a_link_out_of_a_checkpoint(train: Train, run: Path, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (run / "checkpoints" / name).rename(elsewhere)
    (run / "checkpoints" / name).symlink_to(elsewhere)
    shutil.rmtree(run / "checkpoints/previous", ignore_errors=True)
    for more in ([], ["--dry-run"]):
        lines = refused(train("--output", run, "--resume", *more))
        assert f"{run / 'checkpoints' / name}: a link out of the run directory, to {elsewhere}" in lines


def test_help_with_nobody_to_read_it() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("nmt-train"), "--help"],
        preexec_fn=lambda: os.close(1),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closed", [1, 2])
def test_closed_streams_are_no_traceback(tmp_path: Path, closed: int) -> None:
    process = subprocess.run(
        [Path(sys.executable).with_name("nmt-train"), "--config", tmp_path / "none.yaml"],
        preexec_fn=lambda: os.close(closed),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 2 and "Traceback" not in process.stderr and not process.stdout
    assert bool(process.stderr) == (closed == 1)


def test_names_that_a_configuration_cannot_hold(train: Train, tmp_path: Path) -> None:
    [line] = refused(train("--output", os.fsdecode(bytes(tmp_path) + b"/caf\xe9")))
    assert line.startswith("output: ") and line.endswith("a name that is not UTF-8; config.yaml could not hold it")
    [line] = refused(train("--output", tmp_path / "run", "--set", "data.cache=~nobody-of-this-name/x"))
    assert line.startswith("data.cache: Could not determine home directory")
