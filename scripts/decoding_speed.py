"""How fast the runs of an experiment translate a test set; kept in a file beside them, so that it is measured once."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from machine import commit, machine
from nmt.data.lines import read_lines
from nmt.errors import DataError
from nmt.experiments.plan import Plan, Run
from nmt.files import digest, read_json, write_json
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import load_run
from nmt.translation.options import SearchOptions
from nmt.translation.translator import Translator
from nmt.translation.windows import WINDOW

WARM_UP = 50
"""Lines translated before the clock starts: the first ones allocate memory and choose kernels."""
CPU = torch.device("cpu")


@dataclass(frozen=True)
class DecodingSpeed:
    """One measurement, and what it holds for."""

    sentences: int
    seconds: float
    """Processor time of the process. Other programs lengthen it less than the time on the clock."""
    beam_size: int
    machine: str
    commit: str
    date: str
    weights_sha256: str
    source_sha256: str

    @property
    def rate(self) -> float:
        """Sentences a second."""
        return self.sentences / self.seconds


def file_of(plan: Plan) -> Path:
    """The file of all measurements, by the labels of the runs."""
    return plan.output / "decoding_speed.json"


def known_speeds(plan: Plan, runs: Sequence[Run], test: str) -> dict[str, DecodingSpeed]:
    """The measurements of these runs, by label, that are of their present weights and of this test set."""
    file = file_of(plan)
    kept = read_json(file) if file.exists() else {}
    try:
        speeds = {label: DecodingSpeed(**values) for label, values in kept.items()}
    except (AttributeError, TypeError) as error:
        raise DataError(f"{file}: not the measurements of --decoding-speed; delete it to measure again") from error
    present = {run.label: _origin(plan, run, test) for run in runs}
    return {
        label: speed
        for label, speed in speeds.items()
        if present.get(label) == (speed.weights_sha256, speed.source_sha256)
    }


def measure_missing(plan: Plan, runs: Sequence[Run], test: str) -> None:
    """Measure the runs that have no measurement; the file is written after each."""
    speeds = known_speeds(plan, runs, test)
    for run in runs:
        if run.label not in speeds:
            speeds[run.label] = _measure(plan, run, test)
            write_json(file_of(plan), {label: asdict(speed) for label, speed in speeds.items()})


def _origin(plan: Plan, run: Run, test: str) -> tuple[str, str]:
    weights = RunDirectory(run.path).checkpoints / "best" / "model.safetensors"
    return digest(weights), digest(Path(plan.tests[test].source))


def _measure(plan: Plan, run: Run, test: str) -> DecodingSpeed:
    """Translate the test set as training does at its end, in fp32, by one thread of the CPU."""
    loaded = load_run(run.path, CPU)
    translator, options = Translator.of(loaded, CPU, torch.float32), SearchOptions.from_config(loaded.config.decoding)
    lines = list(read_lines(plan.tests[test].source))
    with _one_thread():
        list(translator.stream(lines[:WARM_UP], options, first_window=WINDOW))
        started = time.process_time()
        list(translator.stream(lines, options, first_window=WINDOW))
        seconds = time.process_time() - started
    date, origin = f"{datetime.now(UTC):%Y-%m-%d}", _origin(plan, run, test)
    return DecodingSpeed(len(lines), seconds, options.beam_size, machine(), commit(), date, *origin)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
