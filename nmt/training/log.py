"""The log of a run: metrics.jsonl, samples.jsonl, TensorBoard, and messages."""

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
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
from nmt.training.world import ONE_PROCESS, World

NOWHERE = Path(os.devnull)
AVERAGE, TEST = "average", "test"
"""Splits whose TensorBoard records have a file of their own, so that results that are made again replace older ones."""


class Log:
    """Writes measurements to ``metrics.jsonl`` and TensorBoard, and messages to the user.

    After a resume, TensorBoard discards earlier records from step ``purge`` on, and those of the test set; those of the
    average of checkpoints as well, unless ``keep_average``. Only one process of ``world`` writes. All methods raise
    CheckpointError if a file cannot be written.
    """

    def __init__(
        self,
        run: RunDirectory,
        say: Callable[[str], None],
        purge: int | None = None,
        keep_average: bool = False,
        world: World = ONE_PROCESS,
    ) -> None:
        self.say = say if world.writes else lambda _: None
        self._metrics = GrowingFile(run.metrics if world.writes else None)
        self._run, self._writes = run, world.writes
        self._samples: GrowingFile | None = None
        self._results: dict[str, _EventFile] = {}
        try:
            self._board = _EventFile(run.tensorboard if world.writes else None, purge)
        except BaseException:
            self._metrics.close()
            raise
        if world.writes:
            for split in (TEST,) if keep_average else (AVERAGE, TEST):
                for file in run.tensorboard.glob(f"*.{split}"):
                    file.unlink(missing_ok=True)

    def record(self, step: int, split: str, **values: Any) -> None:
        """Write one line of metrics.jsonl, and its numbers as TensorBoard scalars ``split/name``.

        JSON has no infinity and no NaN: they become null.
        """
        for name, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                values[name] = None
        self._metrics.write(_line({"step": step, "split": split, **values}))
        self.scalars(step, split, values, split)

    def scalars(self, step: int, group: str, values: Mapping[str, Any], split: str = "") -> None:
        """Write the numbers among the values to TensorBoard, as ``group/name``; ``split``: whose results they are."""
        for name, value in values.items():
            if isinstance(value, int | float) and math.isfinite(value):
                self._board_of(split).add(step, summary=summary.scalar(f"{group}/{name}", value))

    def samples(self, step: int, lines: Sequence[Mapping[str, str]]) -> None:
        """Write one line of samples.jsonl: source, reference and hypothesis of some sentences."""
        if self._samples is None:
            self._samples = GrowingFile(self._run.samples if self._writes else None)
        self._samples.write(_line({"step": step, "lines": lines}))

    def hyperparameters(self, values: Mapping[str, float | str | bool], metrics: Mapping[str, float]) -> None:
        """Tell TensorBoard's table of runs what a run was made with, and which of its scalars to show."""
        for part in summary.hparams(dict(values), dict(metrics)):
            self._board_of(TEST).add(0, summary=part)

    def text(self, step: int, name: str, markdown: str) -> None:
        """Write a text to TensorBoard."""
        self._board.add(step, summary=summary.text(name, markdown))

    def image(self, step: int, name: str, pixels: npt.NDArray[np.uint8]) -> None:
        """Write an image, (height, width, 3), to TensorBoard."""
        self._board.add(step, summary=summary.image(name, pixels, dataformats="HWC"))

    def sync(self) -> None:
        """Sync metrics.jsonl and samples.jsonl to disk, so that no checkpoint outlives the lines before it."""
        for file in (self._metrics, self._samples):
            if file is not None:
                file.sync()

    def close(self) -> None:
        """Close the files."""
        self._metrics.close()
        for board in (self._board, *self._results.values()):
            board.close()
        if self._samples is not None:
            self._samples.close()

    def _board_of(self, split: str) -> "_EventFile":
        """The event file of the records of a split."""
        if split not in (AVERAGE, TEST):
            return self._board
        if split not in self._results:
            self._results[split] = _EventFile(self._run.tensorboard if self._writes else None, None, f".{split}")
        return self._results[split]


def _line(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode()


class GrowingFile:
    """A file to which data is appended without buffering; without a path, data is discarded."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._file = (path or NOWHERE).open("ab")

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


class _EventFile(GrowingFile):
    """A TensorBoard event file. PyTorch's SummaryWriter writes in another thread, where errors are lost."""

    def __init__(self, folder: Path | None, purge: int | None, ending: str = "") -> None:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a directory in the order of their names
        super().__init__(folder and folder / f"events.out.tfevents.{time.time():.6f}.{os.getpid()}{ending}")
        self._records = RecordWriter(self)
        try:
            self.add(0, file_version="brain.Event:2")
            if purge is not None:
                self.add(purge, session_log=SessionLog(status=SessionLog.START))
        except BaseException:
            self.close()
            raise

    def add(self, step: int, **what: Any) -> None:
        self._records.write(Event(wall_time=time.time(), step=step, **what).SerializeToString())
