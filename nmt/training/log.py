"""The log of a run: metrics.jsonl, samples.jsonl, TensorBoard, and messages."""

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]
from torch.utils.tensorboard import summary

from nmt.errors import CheckpointError
from nmt.messages import Say
from nmt.runs.directory import RunDirectory
from nmt.training.world import ONE_PROCESS, World


class Log:
    """Writes measurements to ``metrics.jsonl`` and TensorBoard, and messages to the user.

    After a resume, TensorBoard discards earlier records from step ``purge`` on. Only one process of ``world`` writes.
    All methods raise CheckpointError if a file cannot be written.
    """

    def __init__(self, run: RunDirectory, say: Say, purge: int | None = None, world: World = ONE_PROCESS) -> None:
        self.say = say if world.writes else lambda _: None
        self._run, self._writes = run, world.writes
        self._samples: GrowingFile | None = None
        if world.writes:
            run.tensorboard.mkdir(parents=True, exist_ok=True)
        self._metrics = GrowingFile(run.metrics if world.writes else None)
        # TensorBoard reads the files of a directory in the order of their names
        events = run.tensorboard / f"events.out.tfevents.{time.time():.6f}.{os.getpid()}"
        self._events = GrowingFile(events if world.writes else None)
        self._records = RecordWriter(self._events)  # PyTorch's own writes in another thread, where errors are lost
        self._event(0, file_version="brain.Event:2")
        if purge is not None:
            self._event(purge, session_log=SessionLog(status=SessionLog.START))

    def record(self, step: int, split: str, **values: Any) -> None:
        """Write one line of metrics.jsonl, and its numbers as TensorBoard scalars ``split/name``.

        JSON has no infinity and no NaN: they become null.
        """
        for name, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                values[name] = None
        self._metrics.write(_line({"step": step, "split": split, **values}))
        self.scalars(step, split, values)

    def scalars(self, step: int, group: str, values: Mapping[str, Any]) -> None:
        """Write the numbers among the values to TensorBoard, as ``group/name``."""
        for name, value in values.items():
            if isinstance(value, int | float) and math.isfinite(value):
                self._event(step, summary=summary.scalar(f"{group}/{name}", value))

    def samples(self, step: int, lines: Sequence[Mapping[str, str]]) -> None:
        """Write one line of samples.jsonl: source, reference and hypothesis of some sentences."""
        if self._samples is None:
            self._samples = GrowingFile(self._run.samples if self._writes else None)
        self._samples.write(_line({"step": step, "lines": lines}))

    def image(self, step: int, name: str, pixels: npt.NDArray[np.uint8]) -> None:
        """Write an image, (height, width, 3), to TensorBoard."""
        self._event(step, summary=summary.image(name, pixels, dataformats="HWC"))

    def sync(self) -> None:
        """Sync metrics.jsonl and samples.jsonl to disk, so that no checkpoint outlives the lines before it."""
        for file in (self._metrics, self._samples):
            if file is not None:
                file.sync()

    def close(self) -> None:
        """Close the files."""
        for file in (self._metrics, self._events, self._samples):
            if file is not None:
                file.close()

    def _event(self, step: int, **what: Any) -> None:
        self._records.write(Event(wall_time=time.time(), step=step, **what).SerializeToString())


def _line(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode()


class GrowingFile:
    """A file to which data is appended without buffering; without a path, data is discarded."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._file = (path or Path(os.devnull)).open("ab")

    def write(self, data: bytes) -> None:
        """Append and flush."""
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise CheckpointError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def sync(self) -> None:
        """Sync the file to disk."""
        if self.path is None:
            return
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise CheckpointError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def close(self) -> None:
        """Close the file and ignore errors, which an earlier write has reported."""
        with suppress(OSError):
            self._file.close()
