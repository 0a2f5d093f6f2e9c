"""What must be refused before training: a run that changed underneath, and all that would fail hours later."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from nmt.runs.directory import RunDirectory
from tests.torture.numbers import NO_MEMORY, cramped, faulty
from tests.torture.work import Result, Trials, Work, differences, snapshot

HARMLESS = (
    "data.cache={folder}/other-cache",
    "data.processes=1",
    "training.save_every=7",
    "training.validation.samples=1",
    "training.validation.patience=1000",
    "evaluation.gold=null",
)
"""What may be said otherwise where a run is resumed, and makes no difference at the end of it."""
OTHER = {
    "seed=2": "seed was 1 and is now 2",
    "precision=bf16": "precision was 'fp32' and is now 'bf16'",
    "model.attention={type: none}": "model.attention.type was 'bahdanau' and is now 'none'",
    "model.encoder.hidden=17": "model.encoder.hidden was 16 and is now 17",
    "model.dropout.readout=0.1": "model.dropout.readout was 0.2 and is now 0.1",
    "tokenizer.vocabulary=19": "tokenizer.vocabulary was 20 and is now 19",
    "tokenizer.type=character": "tokenizer.type was 'word' and is now 'character'",
    "training.batch_tokens=61": "training.batch_tokens was 60 and is now 61",
    "training.optimizer={type: adam, learning_rate: 0.1}": "training.optimizer.learning_rate was 0.001 and is now 0.1",
    "training.average=3": "training.average was 2 and is now 3",
    "data.train.limit=100": "data.train.limit was null and is now 100",
    "decoding.length_penalty=0": "decoding.length_penalty was 1.0 and is now 0.0",
}
"""What may not, and what is said of it."""
SIDES = tuple(f"{split}.{side}" for split in ("train", "validation", "test") for side in ("source", "target"))
CHANGES = (*OTHER, *SIDES, *HARMLESS)


def changed(work: Work, times: int) -> Result:
    """A run is resumed with other options or text: refused, naming what differs, and left as it was; what
    makes no difference is allowed, and makes none."""
    calm, trials, chance = (
        work.calm(),
        Trials("resumed with another configuration or text, or with harmless changes"),
        random.Random(14),
    )
    begun = work.fresh("begun")
    work.train(
        begun.name, "--set", "training.updates=10"
    )  # after which there are a line of progress and a validation anyway
    for number in range(times):
        kind = CHANGES[number % len(CHANGES)]
        run = Path(shutil.copytree(begun, work.fresh("changed")))
        before = snapshot(run)
        if kind in HARMLESS:
            code, err = work.train(run.name, "--set", kind.format(folder=work.folder))
            trials.add([f"{kind}: ended with {code}: {err[-200:]}"] if code else differences(calm, run))
            continue
        if kind in SIDES:
            with _rewritten(work.folder / kind, chance):
                code, err = work.train(run.name)
            said = f"{run / 'manifest.json'}: corpus_sha256 was "
        else:
            code, err = work.train(run.name, "--set", kind)
            said = f"{run}: {OTHER[kind]}"
        problems = [] if code == 2 and said in err else [f"{kind}: ended with {code}: {err[-200:]}"]
        trials.add(problems + ([] if snapshot(run) == before else [f"{kind}: the run was changed"]))
    return trials.result()


@contextmanager
def _rewritten(file: Path, chance: random.Random) -> Iterator[None]:
    """A text with two lines exchanged, or a word of it another, while this is entered."""
    text = file.read_text("utf-8")
    lines = text.splitlines()
    place = chance.randrange(len(lines) - 1)
    if chance.random() < 0.5 and lines[place] != lines[place + 1]:
        lines[place : place + 2] = reversed(lines[place : place + 2])
    else:
        lines[place] += f" {lines[place].split()[0]}"
    with _holding(file, "".join(f"{line}\n" for line in lines).encode()):
        yield


@contextmanager
def _holding(file: Path, content: bytes) -> Iterator[None]:
    """A file with other content, while this is entered."""
    before = file.read_bytes()
    file.write_bytes(content)
    try:
        yield
    finally:
        file.write_bytes(before)


# --- the dry run ------------------------------------------------------------------------------------------------------

Mistake = Callable[[Work, Path], AbstractContextManager[object]]
"""Brought about while it is entered, for a dry run into a place."""


def _text(name: str, change: Callable[[bytes], bytes]) -> Mistake:
    """A file of the corpus, changed."""
    return lambda work, _: _holding(work.folder / name, change((work.folder / name).read_bytes()))


@contextmanager
def _without(path: Path) -> Iterator[None]:
    away = path.rename(path.with_name(f"{path.name}.away"))
    try:
        yield
    finally:
        away.rename(path)


@contextmanager
def _file_at(path: Path) -> Iterator[None]:
    path.write_text("", "utf-8")
    try:
        yield
    finally:
        path.unlink()


@contextmanager
def _small_disk() -> Iterator[None]:
    with patch("shutil.disk_usage", lambda _: SimpleNamespace(free=1000)):
        yield


@contextmanager
def _run_at(run: Path, calm: Path, damage: str = "") -> Iterator[None]:
    """A finished run, both checkpoints of which may be damaged."""
    shutil.copytree(calm, run)
    try:
        for name in ("last", "previous") if damage else ():
            os.truncate(run / "checkpoints" / name / damage, 99)
        yield
    finally:
        shutil.rmtree(run)


@contextmanager
def _trained_by_another(run: Path) -> Iterator[None]:
    run.mkdir()
    try:
        with RunDirectory(run).locked(lambda _: None):
            yield
    finally:
        shutil.rmtree(run)


def _nothing(*_: object) -> AbstractContextManager[object]:
    return nullcontext()


DRY: dict[str, tuple[Mistake, tuple[str, ...], str]] = {
    "a wrong key": (_nothing, ("--set", "training.updatse=3"), "nearest: updates"),
    "a wrong value": (_nothing, ("--set", "training.clip=-1"), "training.clip: "),
    "a contradiction": (_nothing, ("--set", "model.embeddings.tie=all"), "needs one vocabulary"),
    "a corpus that is missing": (lambda work, _: _without(work.folder / "test.target"), (), "test.target: "),
    "a line too few": (_text("test.target", lambda text: text[: text[:-1].rindex(b"\n") + 1]), (), "has 5"),
    "a last line that is not UTF-8": (_text("test.source", lambda text: text[:-1] + b"\xff\n"), (), "not UTF-8"),
    "a vocabulary larger than the text": (
        _nothing,
        ("--set", "tokenizer={type: bpe, vocabulary: 5000}"),
        "tokenizer.vocabulary",
    ),
    "a filter that leaves nothing": (
        _nothing,
        ("--set", "tokenizer.type=character", "--set", "data.filter.max_pieces=1"),
        "all pairs were dropped",
    ),
    "gold links that are missing": (
        _nothing,
        ("--set", "evaluation.gold={source: {folder}/test.source, target: {folder}/test.target, links: {folder}/none}"),
        "no such file",
    ),
    "gold links beyond a sentence": (
        lambda work, _: _holding(work.write("gold", []), b"0-0\n" * 5 + b"0-99\n"),
        ("--set", "evaluation.gold={source: {folder}/test.source, target: {folder}/test.target, links: {folder}/gold}"),
        "gold:6: 0-99",
    ),
    "a cache that cannot be": (
        lambda work, _: _file_at(work.folder / "in-the-way"),
        ("--set", "data.cache={folder}/in-the-way/cache"),
        "data.cache: ",
    ),
    "a file where the run goes": (lambda _, run: _file_at(run), (), "is a file"),
    "a disk too small": (lambda *_: _small_disk(), ("--set", "training.average=100"), "MB are free"),
    "a run that is there already": (lambda work, run: _run_at(run, work.calm()), (), "holds a run"),
    "a run that another trains": (lambda _, run: _trained_by_another(run), ("--overwrite",), "another nmt-train"),
    "nothing to resume": (_nothing, ("--resume",), "there is no run to resume"),
    "a run begun otherwise": (
        lambda work, run: _run_at(run, work.calm()),
        ("--resume", "--set", "seed=2"),
        "seed was 1 and is now 2",
    ),
    "a run that is damaged": (
        lambda work, run: _run_at(run, work.calm(), "training.safetensors"),
        ("--resume",),
        "training.safetensors: not a whole safetensors file",
    ),
    "a device that is not there": (_nothing, ("--set", "device=cuda:99"), "'cuda:99' was asked for"),
    "memory for not one pair": (lambda *_: faulty(cramped(0, NO_MEMORY[0])), (), "out of memory with a single pair"),
}
"""By what is wrong: how it is brought about, the options of the dry run, and what it has to say."""


def dry_runs(work: Work, times: int) -> Result:
    """What would fail after hours is found by ``nmt-train --dry-run``, which leaves everything as it was."""
    work.calm()
    trials, run = Trials("a fault that a dry run must find"), work.fresh("dry")
    for number in range(times):
        name = list(DRY)[number % len(DRY)]
        fault, options, said = DRY[name]
        with fault(work, run):
            before = _names(work.folder)
            code, err = work.dry_run(run.name, *(option.replace("{folder}", str(work.folder)) for option in options))
            left = _names(work.folder) ^ before
        problems = [] if code == 2 and said in err and "Traceback" not in err else [f"{name}: {code}: {err[-300:]}"]
        trials.add(problems + ([f"{name}: it left {sorted(left)}"] if left else []))
    return trials.result()


def _names(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))
