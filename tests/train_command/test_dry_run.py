"""``nmt-train --dry-run`` finds what would go wrong, and leaves nothing."""

import errno
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from nmt.config import Config
from nmt.data.batching import plan_epoch
from nmt.data.dataset import prepare
from nmt.messages import duration
from nmt.runs.directory import RunDirectory
from nmt.training import dry_run, pipeline
from nmt.training.progress import Progress
from nmt.translation.results import Translation
from nmt.translation.searching import lines_for
from nmt.translation.translator import Translator
from tests.comparison import reseal, snapshot
from tests.small_run import config as small_config
from tests.small_run import options
from tests.train_command.commands import Train, refused, write_config


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
        r"\S+( \d\dm)? for 500,000 validations; \d+\.\d GB of memory; \d+\.\d MB of disk$",
        err,
        re.MULTILINE,
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "tmp"]
    assert snapshot(tmp_path) == before and snapshot(corpus) == corpus_before
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_dry_run_shows_what_a_user_needs(train: Train, tmp_path: Path) -> None:
    """By default the corpus, what may be wrong, and the results, which ``--quiet`` shows, too."""
    shown = {}
    for verbosity in ([], ["--quiet"]):
        code, err = train("--output", tmp_path / "run", "--dry-run", *verbosity)
        assert code == 0
        shown[bool(verbosity)] = err.splitlines()
    assert [line.partition(":")[0] for line in shown[True]] == ["estimate", "dry run"]
    assert re.search(r"; \d+\.\d GB of memory; \d+\.\d MB of disk$", shown[True][0])
    assert len(shown[False]) < 20 and [line.partition(":")[0] for line in shown[False][-2:]] == ["estimate", "dry run"]
    normal = "\n".join(shown[False])
    assert "pairs read" in normal and "warning: data.train: 300 pairs are too few; with fewer than 5,000 " in normal
    for detail in ("update 1/", "BLEU", "kernels", "checkpoint", "nmt-dry-run-"):
        assert detail not in normal


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
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=-(10**9)))
    [*_, line] = refused(train(*how, "--set", f"data.cache={tmp_path}/other"))
    assert line.startswith(f"data.cache: {tmp_path}/other: the encoded text needs ")
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


def test_a_dry_run_reads_the_gold_links(train: Train, tmp_path: Path, corpus: Path) -> None:
    files = f"source: {corpus}/test.low, target: {corpus}/test.up, links: {tmp_path}/gold"
    how: list[str | Path] = ["--output", tmp_path / "new", "--dry-run", "--set", f"evaluation.gold={{{files}}}"]
    assert refused(train(*how))[-1] == f"evaluation.gold.links: {tmp_path}/gold: no such file"
    (tmp_path / "gold").write_text("0-0\n" * 19 + "0-99\n")
    assert "gold:20: 0-99 links a missing word" in refused(train(*how))[-1]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("data.test.target=missing", "missing: no such file"),
        ("data.test.target=short", "test.low has 20 lines"),
        ("data.test.target=broken", "broken:20: not UTF-8"),
        ("tokenizer={type: bpe, vocabulary: 5000}", "tokenizer.vocabulary"),
        ("data.cache=short/cache", "data.cache: "),
        ("device=cuda:99", "'cuda:99'"),
        ("model.encoder.hidden=1000000", "out of memory"),
    ],
)
def test_a_dry_run_finds_what_would_end_training(
    train: Train, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (corpus / "test.up").read_bytes()
    (tmp_path / "short").write_bytes(text[: text[:-1].rindex(b"\n") + 1])
    (tmp_path / "broken").write_bytes(text[:-1] + b"\xff\n")
    before = snapshot(tmp_path)
    lines = refused(train("--output", tmp_path / "run", "--dry-run", "--set", change))
    assert any(problem in line for line in lines), lines
    assert snapshot(tmp_path) == before
