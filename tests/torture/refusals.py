"""Refuse, before training, a changed run and all that would fail hours later."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from nmt.runs.directory import RunDirectory
from tests.torture.comparison import differences, snapshot
from tests.torture.numbers import NO_MEMORY, cramped, faulty
from tests.torture.tally import Result, Tally
from tests.torture.trial_folder import TrialFolder

SAMPLES = "training.validation.samples=1"
ALLOWED = (
    "data.cache={folder}/other-cache",
    "training.save_every=7",
    SAMPLES,
    "training.validation.patience=1000",
    "evaluation.gold=null",
)
"""Changes that are allowed when a run is resumed, and do not change its end."""
REFUSED = {
    "seed=2": "seed was 1 and is now 2",
    "precision=bf16": "precision was 'fp32' and is now 'bf16'",
    "model.attention={type: none}": "model.attention.type was 'bahdanau' and is now 'none'",
    "model.encoder.hidden=17": "model.encoder.hidden was 16 and is now 17",
    "tokenizer.vocabulary=19": "tokenizer.vocabulary was 20 and is now 19",
    "tokenizer.type=character": "tokenizer.type was 'word' and is now 'character'",
    "training.clip=2": "training.clip was 1.0 and is now 2.0",
    "training.optimizer={type: sgd, learning_rate: 0.1}": "training.optimizer.type was 'adam' and is now 'sgd'",
    "training.average=3": "training.average was 2 and is now 3",
    "data.train.limit=100": "data.train.limit was null and is now 100",
    "decoding.length_penalty=0": "decoding.length_penalty was 1.0 and is now 0.0",
}
"""Changes that are refused, with the message."""
SIDES = tuple(f"{split}.{side}" for split in ("train", "validation", "test") for side in ("source", "target"))
"""Files of the corpus; a change in one of them is refused, too."""
CHANGES = (*REFUSED, *SIDES, *ALLOWED)


def changed_resumption(folder: TrialFolder, times: int) -> Result:
    """Resume a run with other options or another corpus: the error names the difference and the run is left unchanged.
    Allowed changes lead to the same end."""
    tally = Tally("resumed with another configuration or corpus, or with allowed changes")
    undisturbed, generator, begun = folder.undisturbed(), random.Random(14), folder.fresh("begun")
    # the undisturbed run, too, reports progress and validates after update 10
    folder.train(begun.name, "--set", "training.updates=10")
    for number in range(times):
        kind = CHANGES[number % len(CHANGES)]
        run = Path(shutil.copytree(begun, folder.fresh("changed")))
        before = snapshot(run)
        if kind in ALLOWED:
            code, err = folder.train(run.name, "--set", kind.format(folder=folder.path))
            if kind == SAMPLES:
                (run / "samples.jsonl").unlink()  # the undisturbed run keeps none
            tally.add([f"{kind}: ended with {code}: {err[-200:]}"] if code else differences(undisturbed, run))
            continue
        if kind in SIDES:
            with _rewritten(folder.path / kind, generator):
                code, err = folder.train(run.name)
            expected = f"{run / 'manifest.json'}: corpus_sha256 was "
        else:
            code, err = folder.train(run.name, "--set", kind)
            expected = f"{run}: {REFUSED[kind]}"
        problems = [] if code == 2 and expected in err else [f"{kind}: ended with {code}: {err[-200:]}"]
        tally.add(problems + ([] if snapshot(run) == before else [f"{kind}: the run was changed"]))
    return tally.result()


@contextmanager
def _rewritten(file: Path, generator: random.Random) -> Iterator[None]:
    """Exchange two lines of a text, or repeat one of its words, until the context is left."""
    text = file.read_text("utf-8")
    lines = text.splitlines()
    place = generator.randrange(len(lines) - 1)
    if generator.random() < 0.5 and lines[place] != lines[place + 1]:
        lines[place : place + 2] = reversed(lines[place : place + 2])
    else:
        lines[place] += f" {lines[place].split()[0]}"
    with _holding(file, "".join(f"{line}\n" for line in lines).encode()):
        yield


@contextmanager
def _holding(file: Path, content: bytes) -> Iterator[None]:
    """Give a file other content until the context is left."""
    before = file.read_bytes()
    file.write_bytes(content)
    try:
        yield
    finally:
        file.write_bytes(before)


# --- the dry run ------------------------------------------------------------------------------------------------------

Mistake = Callable[[TrialFolder, Path], AbstractContextManager[object]]
"""Makes a mistake, until the context is left, for a dry run with a certain run directory."""


def _text(name: str, change: Callable[[bytes], bytes]) -> Mistake:
    """Change a file of the corpus."""
    return lambda folder, _: _holding(folder.path / name, change((folder.path / name).read_bytes()))


@contextmanager
def _without(path: Path) -> Iterator[None]:
    away = path.rename(path.with_name(f"{path.name}.away"))
    try:
        yield
    finally:
        away.rename(path)


@contextmanager
def _file_at(path: Path, content: bytes = b"") -> Iterator[None]:
    path.write_bytes(content)
    try:
        yield
    finally:
        path.unlink()


@contextmanager
def _small_disk() -> Iterator[None]:
    with patch.object(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000)):
        yield


@contextmanager
def _run_at(run: Path, undisturbed: Path, damage: str = "") -> Iterator[None]:
    """Copy a finished run and, with ``damage``, cut this file in both of its checkpoints."""
    shutil.copytree(undisturbed, run)
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


MISTAKES: dict[str, tuple[Mistake, tuple[str, ...], str]] = {
    "a wrong key": (_nothing, ("--set", "training.updatse=3"), "nearest: updates"),
    "a wrong value": (_nothing, ("--set", "training.clip=-1"), "training.clip: "),
    "a contradiction": (_nothing, ("--set", "model.embeddings.tie=all"), "needs one vocabulary"),
    "a missing corpus": (lambda folder, _: _without(folder.path / "test.target"), (), "test.target: "),
    "one line missing": (_text("test.target", lambda text: text[: text[:-1].rindex(b"\n") + 1]), (), "has 5"),
    "a last line that is not UTF-8": (_text("test.source", lambda text: text[:-1] + b"\xff\n"), (), "not UTF-8"),
    "a vocabulary larger than the text": (
        _nothing,
        ("--set", "tokenizer={type: bpe, vocabulary: 5000}"),
        "tokenizer.vocabulary",
    ),
    "a filter that drops every pair": (
        _nothing,
        ("--set", "tokenizer.type=character", "--set", "data.filter.max_pieces=1"),
        "all pairs were dropped",
    ),
    "missing gold links": (
        _nothing,
        ("--set", "evaluation.gold={source: {folder}/test.source, target: {folder}/test.target, links: {folder}/none}"),
        "no such file",
    ),
    "gold links beyond the end of a sentence": (
        lambda folder, _: _file_at(folder.path / "gold", b"0-0\n" * 5 + b"0-99\n"),
        ("--set", "evaluation.gold={source: {folder}/test.source, target: {folder}/test.target, links: {folder}/gold}"),
        "gold:6: 0-99",
    ),
    "a cache that cannot be made": (
        lambda folder, _: _file_at(folder.path / "in-the-way"),
        ("--set", "data.cache={folder}/in-the-way/cache"),
        "data.cache: ",
    ),
    "a file in place of the run directory": (lambda _, run: _file_at(run), (), "is a file"),
    "a disk too small": (lambda *_: _small_disk(), ("--set", "training.average=100"), "MB are free"),
    "a run that exists already": (lambda folder, run: _run_at(run, folder.undisturbed()), (), "holds a run"),
    "a run that another process trains": (
        lambda _, run: _trained_by_another(run),
        ("--overwrite",),
        "another nmt-train",
    ),
    "nothing to resume": (_nothing, ("--resume",), "there is no run to resume"),
    "a run with another seed": (
        lambda folder, run: _run_at(run, folder.undisturbed()),
        ("--resume", "--set", "seed=2"),
        "seed was 1 and is now 2",
    ),
    "a damaged run": (
        lambda folder, run: _run_at(run, folder.undisturbed(), "training.safetensors"),
        ("--resume",),
        "training.safetensors: not a whole safetensors file",
    ),
    "a missing device": (_nothing, ("--set", "device=cuda:99"), "'cuda:99' was asked for"),
    "too little memory for a pair": (
        lambda *_: faulty(cramped(0, NO_MEMORY[0])),
        (),
        "out of memory with a single pair",
    ),
}
"""How each mistake is made, the options of the dry run, and a part of its message."""


def dry_runs(folder: TrialFolder, times: int) -> Result:
    """Make a mistake that would end training after hours: ``nmt-train --dry-run`` finds it and leaves no file."""
    folder.undisturbed()
    tally, run = Tally("mistake that a dry run must find"), folder.fresh("dry")
    for number in range(times):
        name = list(MISTAKES)[number % len(MISTAKES)]
        mistake, options, message = MISTAKES[name]
        with mistake(folder, run):
            before = _names(folder.path)
            code, err = folder.dry_run(run.name, *(option.replace("{folder}", str(folder.path)) for option in options))
            left = _names(folder.path) ^ before
        problems = [] if code == 2 and message in err and "Traceback" not in err else [f"{name}: {code}: {err[-300:]}"]
        tally.add(problems + ([f"{name}: it left {sorted(left)}"] if left else []))
    return tally.result()


def _names(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))
