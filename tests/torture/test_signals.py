"""Training is killed or stopped at any moment, and resumed: it ends like a run that nothing disturbed."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.torture.training import NOTHING, Training, start, wait_for

pytestmark = pytest.mark.slow(seconds=15)


def test_killed_at_any_moment(training: Training, generator: random.Random) -> None:
    """Each time, training resumes from the last checkpoint, which is never older than the time before."""
    saved = NOTHING
    for _ in range(4):
        stale = unfinished(training.run)
        process = training.start()
        kind = generator.choice(["while it starts", "at an update", "while a checkpoint is written"])
        if kind == "while it starts":
            time.sleep(generator.uniform(0, 4))
        elif line := wait_for(process, "resumed after", "update "):
            assert saved == NOTHING or line == f"resumed after update {saved}"
            time.sleep(generator.uniform(0, 0.4))
            while kind != "at an update" and process.poll() is None and not unfinished(training.run) - stale:
                pass
        process.kill()
        process.communicate()
        before, saved = saved, training.saved()
        assert saved >= before
    training.recovers()


def unfinished(run: Path) -> set[int]:
    """The inodes of checkpoints that are not complete."""
    found = set()
    for path in (run / "checkpoints").glob(".*.new"):
        with suppress(FileNotFoundError):  # it was completed meanwhile
            found.add(path.stat().st_ino)
    return found


def test_stopped_twice(training: Training, generator: random.Random) -> None:
    """Training ends immediately and loses no checkpoint."""
    process = training.start()
    assert wait_for(process, f"update {2 * generator.randint(1, 20)}/")
    before, begun = training.saved(), time.monotonic()
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.005)
    process.communicate()
    assert time.monotonic() - begun < 5
    assert process.returncode in (-signal.SIGINT, 130)
    assert training.saved() >= before
    training.recovers()


def begin(training: Training) -> "subprocess.Popen[str]":
    """Begin or resume a run with torchrun."""
    command = str(Path(sys.executable).with_name("nmt-train"))
    options = ["--standalone", "--nproc-per-node", "2", "--no-python"]
    return start("torchrun", *options, command, *training.arguments())


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two ranks that nothing disturbed: its numbers are not those of one process."""
    training = Training(corpus, tmp_path_factory.mktemp("ranks") / "run")
    process = begin(training)
    _, err = process.communicate()
    assert process.returncode == 0, err
    return training.run


def test_a_rank_is_killed(training: Training, undisturbed: Path, generator: random.Random) -> None:
    """The other one ends, too, and names the reason; the run resumes from the last checkpoint."""
    training.undisturbed = undisturbed
    process = begin(training)
    assert wait_for(process, "update ")
    time.sleep(generator.uniform(0, 0.5))
    ranks = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(generator.choice(ranks)), signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode != 0 and "another process of the run has ended" in err, err
    saved = training.saved()
    process = begin(training)
    _, err = process.communicate()
    assert process.returncode == 0 and (saved == NOTHING or f"resumed after update {saved}\n" in err), err
    training.ended_undisturbed()
