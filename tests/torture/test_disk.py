"""Training, preparing and writing while the disk fails."""

import errno
import io
import os
import random
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import safetensors.torch
from safetensors import serialize_file

from nmt.cli.evaluate import main as nmt_evaluate
from nmt.cli.length_curve import main as nmt_length_curve
from nmt.cli.prepare import main as nmt_prepare
from nmt.cli.translate import main as nmt_translate
from tests.comparison import snapshot
from tests.torture.training import Training, start

pytestmark = pytest.mark.slow(seconds=5)
OPERATIONS = {
    *("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod"),
    *("shutil.move", "shutil.rmtree"),
}
"""Audit events of operations that change the disk; so does an ``open`` for writing."""
ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO)
with_any_error = pytest.mark.parametrize("error", ERRORS, ids=lambda error: errno.errorcode[error])


class FailingDisk:
    """Lets all operations that change a folder fail, from a certain one on, until the disk is repaired.

    A Python audit hook cannot be removed, so there is a single one, which is idle most of the time.
    """

    def __init__(self) -> None:
        self.folder = ""
        self.allowed = self.seen = self.error = 0
        sys.addaudithook(self._hook)

    @contextmanager
    def failing(self, folder: Path, allowed: int = sys.maxsize, error: int = 0) -> Iterator[None]:
        """Let operations in ``folder`` fail with ``error`` after ``allowed`` of them."""
        self.folder, self.allowed, self.seen, self.error = str(folder), allowed, 0, error
        try:
            # operations without an audit event: writing tensors, syncing
            with (
                self._watched(safetensors.torch, serialize_file, lambda _, path: path),
                self._watched(os, os.fsync, lambda number: Path(f"/proc/self/fd/{number}").readlink()),
            ):
                yield
        finally:
            self.folder = ""

    def _watched(
        self, owner: object, function: Callable[..., Any], path: Callable[..., Any]
    ) -> AbstractContextManager[Any]:
        """Count the calls of a function of ``owner`` as operations; ``path`` gets their file from the arguments."""

        def counted(*arguments: Any, **options: Any) -> Any:
            self._count(path(*arguments))
            return function(*arguments, **options)

        return patch.object(owner, function.__name__, counted)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder and (event in OPERATIONS or (event == "open" and _for_writing(arguments))):
            self._count(arguments[0])

    def _count(self, where: Any) -> None:
        path = os.fsdecode(where) if isinstance(where, str | bytes | os.PathLike) else ""
        if self.folder and path.startswith(self.folder):
            self.seen += 1
            if self.seen > self.allowed:
                raise OSError(self.error, os.strerror(self.error), path)


def _for_writing(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


DISK = FailingDisk()


@pytest.fixture(scope="module")
def operations(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> int:
    """The number of operations of a training run that change the disk."""
    training = Training(corpus, tmp_path_factory.mktemp("counted") / "run")
    with DISK.failing(training.run):
        training.call()
    assert DISK.seen > 1000
    return DISK.seen


@with_any_error
def test_training_on_a_disk_that_fails(
    training: Training, operations: int, generator: random.Random, error: int
) -> None:
    """The error names the file, the last checkpoint can be loaded, and the run resumes on the repaired disk."""
    with DISK.failing(training.run, generator.randrange(operations), error):
        code, err = training.call()
    assert code == 2 and str(training.run) in err, err
    training.recovers(err)


@with_any_error
def test_preparing_on_a_disk_that_fails(corpus: Path, tmp_path: Path, generator: random.Random, error: int) -> None:
    """The error names the cache; on the repaired disk the preparation succeeds."""

    def prepared(cache: Path, allowed: int = sys.maxsize) -> tuple[int, str, dict[str, bytes]]:
        options = ["--config", str(corpus / "config.yaml"), "--set", f"data.cache={cache}"]
        with DISK.failing(cache, allowed, error):
            code, err, _ = called(nmt_prepare, options, tmp_path / "nothing")
        return code, err, {path.name: path.read_bytes() for path in cache.glob("corpus-*/*")}

    code, _, report = prepared(tmp_path / "whole")
    assert code == 0 and report and DISK.seen > 20
    code, err, _ = prepared(tmp_path / "cache", generator.randrange(DISK.seen))
    assert code == 2 and str(tmp_path / "cache") in err, err
    code, err, found = prepared(tmp_path / "cache")
    assert code == 0 and found == report, err


def called(main: Callable[[list[str]], int], options: list[str], folder: Path) -> tuple[int, str, dict[str, bytes]]:
    """Execute a command; return its exit code, standard error, and the files that it leaves in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with redirect_stderr(io.StringIO()) as err, redirect_stdout(io.StringIO()):
        code = main(options)
    return code, err.getvalue(), snapshot(folder)


# --- a limit on the size of files, so that a write fails in the middle ------------------------------------------------


def limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def test_training_with_a_limit_on_the_size_of_files(training: Training, generator: random.Random) -> None:
    sizes = sorted(map(len, snapshot(training.undisturbed).values()))
    size = generator.choice(sizes) * generator.randint(30, 90) // 100  # less than at least one file needs
    process = start("nmt-train", *training.arguments(), preexec_fn=partial(limit, size))
    _, err = process.communicate()
    assert process.returncode == 2, err
    training.recovers(err)


TEXT = "--source {corpus}/test.low --reference {corpus}/test.up"
SYSTEM = "undisturbed={corpus}/undisturbed/test.hypotheses.txt"
TRANSLATING = "--model {corpus}/undisturbed --input {corpus}/test.low"


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (nmt_translate, f"{TRANSLATING} --output out/text --alignments out/alignments --attention out/attention"),
        (nmt_evaluate, f"--model {{corpus}}/undisturbed {TEXT} --json out/scores"),
        (nmt_length_curve, f"{TEXT} --system {SYSTEM} --output out/curve"),
    ],
    ids=["translate", "evaluate", "length-curve"],
)
def test_writing_with_a_limit_on_the_size_of_files(
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    generator: random.Random,
    command: Callable[[list[str]], int],
    options: str,
) -> None:
    """The error names a file; what was written is the beginning of the right content."""
    monkeypatch.chdir(tmp_path)
    words = options.format(corpus=corpus).split()
    code, err, complete = called(command, words, Path("out"))
    assert code == 0, err
    usual, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit(generator.choice(sorted(map(len, complete.values()))) * generator.randint(5, 95) // 100)
    try:
        code, err, part = called(command, words, Path("out"))
    finally:
        limit(usual)
    assert code == 2 and "out/" in err, err
    contents = {name.removesuffix(".partial"): part[name] for name in part if not name.endswith(".partial.json")}
    assert all(complete[name].startswith(content) for name, content in contents.items())
