"""What training writes down: metrics.jsonl, TensorBoard, and a line of progress."""

import json
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]
from torch.utils.tensorboard import summary

from nmt.errors import CheckpointError
from nmt.runs.directory import RunDirectory


class Log:
    """Three places that are told the same.

    Args:
        run: whose ``metrics.jsonl`` and ``tensorboard/`` are appended to.
        say: takes lines meant for a person.
        purge: after a resume, the step from which on TensorBoard forgets what it was told before.

    Everything raises CheckpointError where it cannot be written.
    """

    def __init__(self, run: RunDirectory, say: Callable[[str], None], purge: int | None = None) -> None:
        self.say = say
        self._metrics = GrowingFile(run.metrics)
        try:
            self._board = _EventFile(run.tensorboard, purge)
        except BaseException:
            self._metrics.close()
            raise

    def record(self, step: int, split: str, **values: Any) -> None:
        """One line of metrics.jsonl; numbers become TensorBoard scalars ``split/name``.

        JSON has no infinity and no NaN: such a number is null.
        """
        values = {name: None if _no_number(value) else value for name, value in values.items()}
        record = {"step": step, "split": split, **values}
        self._metrics.write((json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode())
        for name, value in values.items():
            if isinstance(value, int | float):
                self._board.add(step, summary=summary.scalar(f"{split}/{name}", value))

    def text(self, step: int, name: str, markdown: str) -> None:
        """A text for TensorBoard."""
        self._board.add(step, summary=summary.text(name, markdown))

    def image(self, step: int, name: str, pixels: npt.NDArray[np.uint8]) -> None:
        """An image for TensorBoard, (height, width, 3)."""
        self._board.add(step, summary=summary.image(name, pixels, dataformats="HWC"))

    def sync(self) -> None:
        """Have metrics.jsonl on the disk before going on: a checkpoint must not outlive the lines before it."""
        self._metrics.sync()

    def close(self) -> None:
        """Close the files; nothing is pending."""
        self._metrics.close()
        self._board.close()


class GrowingFile:
    """A file that is appended to, at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab")

    def write(self, data: bytes) -> None:
        """Append; nothing is held back."""
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise CheckpointError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def sync(self) -> None:
        """Have the operating system put it on the disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise CheckpointError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def close(self) -> None:
        """Say nothing of what goes wrong now: it has been said."""
        with suppress(OSError):
            self._file.close()


class _EventFile:
    """What TensorBoard reads. PyTorch's SummaryWriter writes it from another thread, where errors get lost."""

    def __init__(self, folder: Path, purge: int | None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a folder in the order of their names
        self._file = GrowingFile(folder / f"events.out.tfevents.{time.time():.6f}.{os.getpid()}")
        self._records = RecordWriter(self._file)
        try:
            self.add(0, file_version="brain.Event:2")
            if purge is not None:
                self.add(purge, session_log=SessionLog(status=SessionLog.START))
        except BaseException:
            self._file.close()
            raise

    def add(self, step: int, **what: Any) -> None:
        self._records.write(Event(wall_time=time.time(), step=step, **what).SerializeToString())

    def close(self) -> None:
        self._file.close()


def _no_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def duration(seconds: float) -> str:
    """Seconds as a person says them: ``45s``, ``12m 05s``, ``3h 20m``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"
