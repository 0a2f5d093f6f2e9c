"""Load run directories that strangers crafted."""

import json
import os
import resource
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from nmt.errors import NmtError
from nmt.files import CHECKSUMS, digest
from nmt.runs.loading import load_run
from tests.torture.attacks import ATTACKS, ON_CHECKSUMS, WEIGHTS
from tests.torture.tally import Result, Tally
from tests.torture.trial_folder import TrialFolder

SECONDS, MEGABYTES = 1.0, 150.0
"""Most core time and additional memory of a refusal."""


def crafted_runs(folder: TrialFolder, times: int, attacks: Sequence[str] = tuple(ATTACKS)) -> Result:
    """Load crafted runs: each is refused with an error, quickly and with little memory, and nothing is executed."""
    undisturbed, tally = folder.undisturbed(), Tally("crafted run from a stranger")
    slowest, largest = 0.0, 0.0
    torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
    load_run(undisturbed, torch.device("cpu"))  # imports are not part of a refusal
    for number in range(times):
        name = attacks[number % len(attacks)]
        with tempfile.TemporaryDirectory(dir=folder.path) as scratch:
            run = Path(shutil.copytree(undisturbed, Path(scratch) / "run"))
            ATTACKS[name](run)
            if name not in ON_CHECKSUMS:
                _reseal(run)
            problem, seconds, megabytes = _refusal(run)
            slowest, largest = max(slowest, seconds), max(largest, megabytes)
            executed = {path.name for path in Path(scratch).iterdir()} - {"run", "elsewhere.safetensors"}
            problems = [problem] if problem else []
            if executed or (run / "executed").exists():
                problems.append(f"it was executed: {sorted(executed)}")
            if seconds > SECONDS or megabytes > MEGABYTES:
                problems.append(f"refused after {seconds:.1f} s with {megabytes:.0f} MB")
            tally.add([f"{name}: {each}" for each in problems])
    return tally.result(f"at most {slowest:.2f} s of a core and {largest:.0f} MB for a refusal")


def _reseal(run: Path) -> None:
    """Make all checksums of a run fit its files, as an attacker would."""
    reseal((run / WEIGHTS).parent)
    if (run / "manifest.json").is_symlink():
        return
    manifest = json.loads((run / "manifest.json").read_text("utf-8"))
    models = filter(_small, (run / "tokenizer").iterdir())
    manifest["tokenizer_sha256"] |= {path.stem: digest(path) for path in models}
    (run / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def reseal(checkpoint: Path) -> None:
    """Make the checksums of a checkpoint fit its files, as an attacker would."""
    sums = checkpoint / CHECKSUMS
    if sums.is_file():
        files = (path for path in checkpoint.iterdir() if path != sums and _small(path))
        sums.write_text(json.dumps({path.name: digest(path) for path in files}), "utf-8")


def _small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size < 1 << 30


def _refusal(run: Path) -> tuple[str, float, float]:
    """Load a run in a process of its own; return what is wrong with the refusal, or "", its seconds of core time and
    its megabytes of additional memory."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        answer: dict[str, Any] = {"problem": "it was not refused"}
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.process_time()
        try:
            load_run(run, torch.device("cpu"))
        except NmtError:
            answer["problem"] = ""
        except BaseException as error:  # reported to the parent process
            answer["problem"] = f"{type(error).__name__}: {error}"
        answer["seconds"] = time.process_time() - begun
        answer["megabytes"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], 60 * SECONDS)  # the machine may be busy
    os.kill(child, signal.SIGKILL)  # if it has not ended
    with os.fdopen(reader) as pipe:
        text = pipe.read() if ready else ""
    os.waitpid(child, 0)
    answer = json.loads(text) if text else {"problem": "it crashed or hung", "seconds": 0.0, "megabytes": 0.0}
    return str(answer["problem"]), float(answer["seconds"]), float(answer["megabytes"])
