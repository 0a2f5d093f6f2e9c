"""``nmt-train --dry-run`` finds what would go wrong, and leaves nothing."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.training import dry_run
from nmt.training.progress import Extent, Progress
from nmt.translation.results import Translation
from nmt.translation.searching import lines_for
from nmt.translation.translator import Translator
from tests.comparison import snapshot
from tests.small_run import options
from tests.test_progress import training
from tests.train_command.conftest import Train, refused, write_config


def test_a_dry_run_estimates_time() -> None:
    """Two epochs of 100 minutes, ten batches each, take 200; a validation of half of the pairs took one second."""
    section = training(updates=20, validation={"every": 2, "first": 3})
    extent = Extent(batches=10, per_update=1, tokens=60_000)
    said = [
        dry_run.estimate(section, extent, Progress(update=made, validated=made), 10.0, 1.0, share=0.5)
        for made in (0, 10, 19)
    ]
    assert said == [
        "estimate: about 3h 20m for 20 updates (2.0 epochs, 10 target tokens/s), and up to 22s for 11 validations",
        "estimate: about 1h 40m for 10 updates (1.0 epochs, 10 target tokens/s), and up to 10s for 5 validations",
        "estimate: about 10m 00s for 1 update (0.1 epochs, 10 target tokens/s), and up to 2s for 1 validation",
    ]


def test_a_dry_run_leaves_nothing(train: Train, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = options(corpus)["data"]
    del data["cache"]
    values = options(corpus, updates=10**6, validation={"samples": 1}) | {"data": data}
    config = write_config(tmp_path, values | {"output": str(tmp_path / "run")})
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    before, corpus_before = snapshot(tmp_path), snapshot(corpus)
    code, err = train("--dry-run", "--verbose", config=config)
    assert code == 0
    for step in ("update 1/1", "validation         1", "test set: BLEU"):
        assert step in err
    assert snapshot(tmp_path) == before and snapshot(corpus) == corpus_before
    assert list((tmp_path / "tmp").iterdir()) == []
    code, err = train("--dry-run", config=config)
    assert "pairs read" in err
    for detail in ("update 1/", "BLEU", "kernels", "checkpoint", "nmt-dry-run-"):
        assert detail not in err
    code, err = train("--dry-run", "--quiet", config=config)
    estimate, works = err.splitlines()
    assert re.fullmatch(
        r"estimate: about .* for 1,000,000 updates .*, and up to .* for 500,000 validations; \d+\.\d GB of memory",
        estimate,
    )
    assert works == "dry run: everything that training needs is there and works; nothing was kept"


def test_a_dry_run_refuses_what_training_would_refuse_and_leaves_the_run_as_it_is(train: Train, run: Path) -> None:
    before = snapshot(run)
    assert "holds a run" in refused(train("--output", run, "--dry-run"))[0]
    assert train("--output", run, "--dry-run", "--overwrite")[0] == 0
    code, err = train("--output", run, "--dry-run", "--resume", "--set", "training.updates=9")
    assert code == 0 and f"{run} can be resumed after update 2\n" in err
    assert snapshot(run) == before


def test_long_lines_are_tried(train: Train, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("data.test.target=missing", "missing: no such file"),
        ("data.test.target=short", "test.low has 20 lines"),
        ("data.test.target=broken", "broken:20: not UTF-8"),
        ("tokenizer={type: bpe, vocabulary: 5000}", "tokenizer.vocabulary"),
        ("data.cache=short/cache", "data.cache: "),
        ("data.cache=~nobody-of-this-name/x", "data.cache: Could not determine home directory"),
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
