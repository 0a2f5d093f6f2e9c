"""Training, preparing and writing while the disk does its worst."""

import errno
import io
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import ANY, patch

from nmt.cli.evaluate import main as nmt_evaluate
from nmt.cli.length_curve import main as nmt_length_curve
from nmt.cli.prepare import main as nmt_prepare
from nmt.cli.translate import main as nmt_translate
from nmt.runs import checkpoints as checkpoint
from nmt.training import log
from tests.torture.work import Result, Trials, Work, differences, mended, start, wait_for

WRITES = {
    *("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod"),
    *("shutil.move", "shutil.rmtree"),
}
"""Audit events of operations that change the disk; an ``open`` does, too, if it is for writing."""
ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO)


class FailingDisk:
    """From one operation on the disk on, all in a folder fail, until it is mended.

    A Python audit hook cannot be taken away again: there is one, and it does nothing most of the time.
    """

    def __init__(self) -> None:
        self.folder = ""
        self.left = -1
        self.seen = 0
        self.error = 0
        sys.addaudithook(self._hook)

    @contextmanager
    def failing(self, folder: Path, after: int, error: int) -> Iterator[None]:
        """``after`` so many operations; -1: never, they are counted."""
        self.folder, self.left, self.seen, self.error = str(folder), after, 0, error
        try:
            # what no audit event tells of: weights, appended lines, syncing
            with (
                self._watched(checkpoint, "save_file", lambda _, path, *more: path),
                self._watched(log.GrowingFile, "write", lambda file, _: file.path),
                self._watched(os, "fsync", lambda number: Path(f"/proc/self/fd/{number}").readlink()),
            ):
                yield
        finally:
            self.folder = ""

    def _watched(self, owner: Any, name: str, path: Callable[..., Any]) -> AbstractContextManager[Any]:
        """A function that is an operation on the disk, while this is entered; ``path`` says where, by its arguments."""
        function = getattr(owner, name)

        def counted(*arguments: Any) -> Any:
            self._count(path(*arguments))
            return function(*arguments)

        return patch.object(owner, name, counted)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder and (event in WRITES or (event == "open" and _for_writing(arguments))):
            self._count(arguments[0])

    def _count(self, where: Any) -> None:
        path = os.fsdecode(where) if isinstance(where, str | bytes | os.PathLike) else ""
        if self.folder and path.startswith(self.folder):
            self.seen += 1
            if 0 <= self.left < self.seen:
                raise OSError(self.error, os.strerror(self.error), path)


def _for_writing(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


DISK = FailingDisk()


def failing_disk(work: Work, times: int) -> Result:
    """The disk is full, read-only, out of quota or broken from some operation on: the error names the file, what was
    saved can be loaded; and mended, training goes on to the same end."""
    calm, trials = work.calm(), Trials("disk full, over quota, read-only or broken from an operation on, then mended")
    run = work.run("disk-count")
    with DISK.failing(run, -1, 0):
        work.train(run.name)
    operations = DISK.seen
    for number in range(times):
        after = number * operations // times
        run = work.fresh(f"disk-{number}")
        error = ERRORS[number % len(ERRORS)]
        with DISK.failing(run, after, error):
            code, err = work.train(run.name)
        problems = []
        if code == 0:
            problems.append(f"operation {after}: {os.strerror(error)}: nobody noticed")
        elif code != 2 or "Traceback" in err or str(run) not in err:
            problems.append(f"operation {after}: ended with {code}: {err[-200:]}")
        trials.add(problems + mended(work, run, err, calm))
        shutil.rmtree(run, ignore_errors=True)
    return trials.result(f"a training has {operations} operations that change the disk")


def failing_cache(work: Work, times: int) -> Result:
    """The disk of the cache fails in the same ways while a corpus is prepared: said, and mended it is prepared."""
    trials = Trials("disk of the cache full, over quota, read-only or broken from an operation on, then mended")

    def prepare(number: int, after: int, error: int) -> tuple[int, str]:
        cache = work.folder / f"failing-cache-{number}"
        options = ["--config", str(work.config), "--set", f"data.cache={cache}", "--json", str(work.folder / "report")]
        err = io.StringIO()
        with DISK.failing(cache, after, error), redirect_stderr(err), redirect_stdout(io.StringIO()):
            code = nmt_prepare(options)
        return code, err.getvalue()

    prepare(0, -1, 0)
    operations, report = DISK.seen, (work.folder / "report").read_bytes()
    for number in range(1, times + 1):
        after, error = (number - 1) * operations // times, ERRORS[number % len(ERRORS)]
        code, err = prepare(number, after, error)
        named = code == 2 and f"failing-cache-{number}" in err and "Traceback" not in err
        problems = [] if named else [f"operation {after}: ended with {code}: {err[-200:]}"]
        code, err = prepare(number, -1, 0)
        if code or (work.folder / "report").read_bytes() != report:
            problems.append(f"operation {after}: not prepared afterwards: {err[-200:]}")
        trials.add(problems)
    return trials.result(f"a preparation has {operations} operations that change the disk")


def small_files(work: Work, times: int) -> Result:
    """Files may not grow beyond a limit: writing breaks off in the middle of one."""
    calm, trials = work.calm(), Trials("a file cannot grow in the middle of a write, then can")
    sizes = sorted(path.stat().st_size for path in calm.rglob("*") if path.is_file())
    chance = random.Random(5)
    for number in range(times):
        limit = chance.choice(sizes) * chance.randint(30, 90) // 100  # of one file at least not all can be written
        run = work.fresh(f"limit-{number}")
        process = start(
            "nmt-train",
            *work.arguments(run.name),
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
        _, err = process.communicate()
        problems = []
        if process.returncode != 2 or "Traceback" in err:
            problems.append(f"limit {limit}: ended with {process.returncode}: {err[-200:]}")
        trials.add(problems + mended(work, run, err, calm))
    return trials.result()


def failing_output(work: Work, times: int) -> Result:
    """The files that nmt-translate, nmt-evaluate and nmt-length-curve write cannot grow beyond a limit: the error names
    one, no line of it is made up, and without the limit all are as ever."""
    calm, chance = work.calm(), random.Random(16)
    trials = Trials("translations, scores and figures that cannot be written to the end, then can")
    folder = work.fresh("outputs")
    folder.mkdir()
    names = {side: str(work.folder / f"test.{side}") for side in ("source", "target")}
    text = ["--source", names["source"], "--reference", names["target"]]
    files = {option: str(folder / option[2:]) for option in ("--output", "--alignments", "--attention")}
    commands = [
        (
            nmt_translate,
            ["--model", str(calm), "--input", names["source"], *(word for each in files.items() for word in each)],
        ),
        (nmt_evaluate, ["--model", str(calm), *text, "--json", str(folder / "scores")]),
        (
            nmt_length_curve,
            [*text, "--system", f"calm={calm / 'test.hypotheses.txt'}", "--output", str(folder / "curve")],
        ),
    ]
    for number in range(times):
        command, options = commands[number % len(commands)]
        code, err, whole = _written(folder, command, options)
        sizes = sorted(map(len, whole.values()))
        limit = chance.choice(sizes) * chance.randint(5, 95) // 100
        problems = [f"{options}: ended with {code}: {err[-200:]}"] if code else []
        code, err, part = _written(folder, command, options, limit)
        if code != 2 or str(folder) not in err or "Traceback" in err:
            problems.append(f"limit {limit}: ended with {code}: {err[-200:]}")
        problems += [
            f"{name}: not the beginning of it" for name in part if not whole.get(name, b"").startswith(part[name])
        ]
        if _written(folder, command, options) != (0, ANY, whole):
            problems.append(f"limit {limit}: without it {sorted(whole)} are others")
        trials.add(problems)
    return trials.result()


def _written(
    folder: Path, command: Callable[[list[str]], int], options: list[str], limit: int = resource.RLIM_INFINITY
) -> tuple[int, str, dict[str, bytes]]:
    """Exit code, standard error, and what is in the folder afterwards; no file could grow beyond the limit."""
    shutil.rmtree(folder)
    folder.mkdir()
    err, before = io.StringIO(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with redirect_stderr(err), redirect_stdout(io.StringIO()):
            code = command(options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    return code, err.getvalue(), {path.name: path.read_bytes() for path in folder.iterdir()}


def vanished(work: Work, times: int) -> Result:
    """The run directory is taken away under a training: it ends with an error that names it; given back, it goes on."""
    calm, trials, chance = work.calm(), Trials("the run directory vanishes, then comes back"), random.Random(6)
    for number in range(times):
        run = work.fresh(f"vanished-{number}")
        process = work.start(run.name)
        assert process.stderr is not None
        wait_for(process.stderr, "update ")
        time.sleep(chance.uniform(0, 0.1))
        gone = run.rename(f"{run}-gone")
        _, err = process.communicate()
        named = process.returncode == 2 and str(run) in err and "Traceback" not in err
        shutil.rmtree(run, ignore_errors=True)
        gone.rename(run)
        problems = [] if named else [f"ended with {process.returncode}: {err[-200:]}"]
        trials.add(problems + mended(work, run, err, calm))
    return trials.result()


def damaged(work: Work, times: int) -> Result:
    """A bit of ``last`` changes, or a file of it is cut: it is noticed, and training goes on from the one before."""
    calm, trials, chance = work.calm(), Trials("a damaged checkpoint, resumed"), random.Random(7)
    work_name = "damaged-base"
    process = work.start(work_name)
    assert process.stderr is not None
    wait_for(process.stderr, f"update {work.values['training']['updates'] // 2}/")
    process.send_signal(signal.SIGINT)
    process.communicate()
    for number in range(times):
        run = work.run(f"damaged-{number}")
        shutil.copytree(work.run(work_name), run)
        file = chance.choice(sorted((run / "checkpoints" / "last").iterdir()))
        content = bytearray(file.read_bytes())
        place = chance.randrange(len(content))
        if chance.random() < 0.5:
            content[place] ^= 1 << chance.randrange(8)
        else:
            del content[place:]
        file.write_bytes(content)
        code, err = work.train(run.name)
        said = "resuming from" in err
        problems = [] if code == 0 and said else [f"{file.name} damaged at {place}: ended with {code}: {err[-200:]}"]
        trials.add(problems + ([] if code else differences(calm, run)))
        shutil.rmtree(run)
    return trials.result()
