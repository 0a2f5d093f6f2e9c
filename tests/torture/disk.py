"""Training, preparing and writing while the disk fails."""

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

import safetensors.torch
from safetensors import serialize_file

from nmt.cli.evaluate import main as nmt_evaluate
from nmt.cli.length_curve import main as nmt_length_curve
from nmt.cli.prepare import main as nmt_prepare
from nmt.cli.translate import main as nmt_translate
from nmt.training.log import GrowingFile
from tests.torture.comparison import crashed, differences, recovery_problems
from tests.torture.tally import Result, Tally
from tests.torture.trial_folder import TrialFolder, start, wait_for

OPERATIONS = {
    *("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod"),
    *("shutil.move", "shutil.rmtree"),
}
"""Audit events of operations that change the disk; so does an ``open`` for writing."""
ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO)


class FailingDisk:
    """Lets all operations that change a folder fail, from a certain one on, until the disk is repaired.

    A Python audit hook cannot be removed, so there is a single one, which is idle most of the time.
    """

    def __init__(self) -> None:
        self.folder = ""
        self.allowed = -1
        self.seen = 0
        self.error = 0
        sys.addaudithook(self._hook)

    @contextmanager
    def failing(self, folder: Path, allowed: int, error: int) -> Iterator[None]:
        """Let operations in ``folder`` fail with ``error`` after ``allowed`` of them; with -1, only count them."""
        self.folder, self.allowed, self.seen, self.error = str(folder), allowed, 0, error
        try:
            # operations without an audit event: writing tensors, appending lines, syncing
            with (
                self._watched(safetensors.torch, serialize_file, lambda _, path: path),
                self._watched(GrowingFile, GrowingFile.write, lambda file, _: file.path),
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
            if 0 <= self.allowed < self.seen:
                raise OSError(self.error, os.strerror(self.error), path)


def _for_writing(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


DISK = FailingDisk()


def failing_disk(folder: TrialFolder, times: int) -> Result:
    """Let the disk be full, read-only, over quota or broken from one operation on: the error names the file, the last
    checkpoint can be loaded, and training, resumed on the repaired disk, ends like the undisturbed run."""
    tally = Tally("disk full, over quota, read-only or broken from one operation on, then repaired")
    folder.undisturbed()
    run = folder.run("disk-count")
    with DISK.failing(run, -1, 0):
        folder.train(run.name)
    operations = DISK.seen
    for number in range(times):
        allowed = number * operations // times
        run = folder.fresh(f"disk-{number}")
        error = ERRORS[number % len(ERRORS)]
        with DISK.failing(run, allowed, error):
            code, err = folder.train(run.name)
        problems = []
        if code == 0:
            problems.append(f"operation {allowed}: {os.strerror(error)}: not noticed")
        elif code != 2 or crashed(err) or str(run) not in err:
            problems.append(f"operation {allowed}: ended with {code}: {err[-200:]}")
        tally.add(problems + recovery_problems(folder, run, err))
        shutil.rmtree(run, ignore_errors=True)
    return tally.result(f"a training run has {operations} operations that change the disk")


def failing_cache(folder: TrialFolder, times: int) -> Result:
    """Let the disk of the cache fail in the same ways during a preparation: the error names it, and on the repaired
    disk the preparation succeeds."""
    tally = Tally("disk of the cache full, over quota, read-only or broken from one operation on, then repaired")

    def prepare(number: int, allowed: int, error: int) -> tuple[int, str]:
        cache, report = folder.path / f"failing-cache-{number}", str(folder.path / "report")
        options = ["--config", str(folder.config), "--set", f"data.cache={cache}", "--json", report]
        err = io.StringIO()
        with DISK.failing(cache, allowed, error), redirect_stderr(err), redirect_stdout(io.StringIO()):
            code = nmt_prepare(options)
        return code, err.getvalue()

    prepare(0, -1, 0)
    operations, report = DISK.seen, (folder.path / "report").read_bytes()
    for number in range(1, times + 1):
        allowed, error = (number - 1) * operations // times, ERRORS[number % len(ERRORS)]
        code, err = prepare(number, allowed, error)
        explained = code == 2 and f"failing-cache-{number}" in err and "Traceback" not in err
        problems = [] if explained else [f"operation {allowed}: ended with {code}: {err[-200:]}"]
        code, err = prepare(number, -1, 0)
        if code or (folder.path / "report").read_bytes() != report:
            problems.append(f"operation {allowed}: not prepared afterwards: {err[-200:]}")
        tally.add(problems)
    return tally.result(f"a preparation has {operations} operations that change the disk")


def limited_file_size(folder: TrialFolder, times: int) -> Result:
    """Limit the size of files, so that a write fails in the middle; without the limit, training is resumed."""
    tally, generator = Tally("file size limit reached in the middle of a write, then lifted"), random.Random(5)
    sizes = sorted(path.stat().st_size for path in folder.undisturbed().rglob("*") if path.is_file())
    for number in range(times):
        limit = generator.choice(sizes) * generator.randint(30, 90) // 100  # less than at least one file needs
        run = folder.fresh(f"limit-{number}")
        process = start(
            "nmt-train",
            *folder.arguments(run.name),
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
        _, err = process.communicate()
        problems = []
        if process.returncode != 2 or crashed(err):
            problems.append(f"limit {limit}: ended with {process.returncode}: {err[-200:]}")
        tally.add(problems + recovery_problems(folder, run, err))
    return tally.result()


def limited_output(folder: TrialFolder, times: int) -> Result:
    """Limit the size of files that nmt-translate, nmt-evaluate and nmt-length-curve write: the error names one, what
    was written is the beginning of the right content, and without the limit all files are complete."""
    tally = Tally("file size limit while translations, scores and figures are written, then lifted")
    undisturbed, generator, outputs = folder.undisturbed(), random.Random(16), folder.fresh("outputs")
    outputs.mkdir()
    source, reference = (str(folder.path / f"test.{side}") for side in ("source", "target"))
    text = ["--source", source, "--reference", reference]
    files = [word for name in ("output", "alignments", "attention") for word in (f"--{name}", str(outputs / name))]
    system = f"undisturbed={undisturbed / 'test.hypotheses.txt'}"
    commands: list[tuple[Callable[[list[str]], int], list[str]]] = [
        (nmt_translate, ["--model", str(undisturbed), "--input", source, *files]),
        (nmt_evaluate, ["--model", str(undisturbed), *text, "--json", str(outputs / "scores")]),
        (nmt_length_curve, [*text, "--system", system, "--output", str(outputs / "curve")]),
    ]
    for number in range(times):
        command, options = commands[number % len(commands)]
        code, err, complete = _written(outputs, command, options)
        problems = [f"{options}: ended with {code}: {err[-200:]}"] if code else []
        limit = generator.choice(sorted(map(len, complete.values()))) * generator.randint(5, 95) // 100
        code, err, part = _written(outputs, command, options, limit)
        if code != 2 or str(outputs) not in err or "Traceback" in err:
            problems.append(f"limit {limit}: ended with {code}: {err[-200:]}")
        problems += [
            f"{name}: not the beginning of it" for name in part if not complete.get(name, b"").startswith(part[name])
        ]
        if _written(outputs, command, options) != (0, ANY, complete):
            problems.append(f"limit {limit}: without it, {sorted(complete)} differ")
        tally.add(problems)
    return tally.result()


def _written(
    folder: Path, command: Callable[[list[str]], int], options: list[str], limit: int = resource.RLIM_INFINITY
) -> tuple[int, str, dict[str, bytes]]:
    """Execute a command with a limit on the size of files; return its exit code, standard error and the files that it
    left in ``folder``."""
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


def vanishing_run(folder: TrialFolder, times: int) -> Result:
    """Rename the run directory during training: training ends with an error that names it; once it is back, training is
    resumed."""
    tally, generator = Tally("run directory renamed during training, then renamed back"), random.Random(6)
    folder.undisturbed()
    for number in range(times):
        run = folder.fresh(f"vanished-{number}")
        process = folder.start(run.name)
        wait_for(process, "update ")
        time.sleep(generator.uniform(0, 0.1))
        away = run.rename(f"{run}-away")
        _, err = process.communicate()
        explained = process.returncode == 2 and str(run) in err and not crashed(err)
        shutil.rmtree(run, ignore_errors=True)
        away.rename(run)
        problems = [] if explained else [f"ended with {process.returncode}: {err[-200:]}"]
        tally.add(problems + recovery_problems(folder, run, err))
    return tally.result()


def damaged_checkpoint(folder: TrialFolder, times: int) -> Result:
    """Flip a bit in a file of ``last``, or cut the file: the damage is noticed, and training resumes from
    ``previous``."""
    tally, generator, undisturbed = Tally("damaged checkpoint, resumed"), random.Random(7), folder.undisturbed()
    begun = folder.run("damaged-base")
    process = folder.start(begun.name)
    wait_for(process, f"update {folder.values['training']['updates'] // 2}/")
    process.send_signal(signal.SIGINT)
    process.communicate()
    for number in range(times):
        run = Path(shutil.copytree(begun, folder.run(f"damaged-{number}")))
        file = generator.choice(sorted((run / "checkpoints" / "last").iterdir()))
        content = bytearray(file.read_bytes())
        place = generator.randrange(len(content))
        if generator.random() < 0.5:
            content[place] ^= 1 << generator.randrange(8)
        else:
            del content[place:]
        file.write_bytes(content)
        code, err = folder.train(run.name)
        noticed = "resuming from" in err
        problems = [] if code == 0 and noticed else [f"{file.name} damaged at {place}: ended with {code}: {err[-200:]}"]
        tally.add(problems + ([] if code else differences(undisturbed, run)))
        shutil.rmtree(run)
    return tally.result()
