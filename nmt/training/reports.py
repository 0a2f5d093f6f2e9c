"""The output of training: the log of a run, progress, and the description of the run before it."""

import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]
from torch.utils.tensorboard import summary as scalars

from nmt.config.schema import Training
from nmt.cores import cores, time_limit
from nmt.data.dataset import PreparedData
from nmt.device import format_of
from nmt.errors import FileError
from nmt.evaluation.metrics import METRICS
from nmt.files import sync, writing
from nmt.messages import Detail, Say, Step, duration, silent
from nmt.model import Seq2Seq
from nmt.runs.directory import RunDirectory
from nmt.training.progress import Extent, Progress, Update, ValidationResult
from nmt.training.world import Machine


class Log:
    """Writes measurements to ``metrics.jsonl`` and TensorBoard, and says how training goes.

    After a resume, TensorBoard discards earlier records from step ``purge`` on. Only one process ``writes``.
    All methods raise FileError if a file cannot be written.
    """

    def __init__(self, run: RunDirectory, say: Say, purge: int | None = None, *, writes: bool = True) -> None:
        self.run, self.say = run, say if writes else silent
        if writes:
            run.tensorboard.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a directory in the order of their names
        events = run.tensorboard / f"events.out.tfevents.{time.time():.6f}.{os.getpid()}"
        self._metrics, self._samples, self._events = (
            GrowingFile(path if writes else Path(os.devnull)) for path in (run.metrics, run.samples, events)
        )
        self._heading = True  # the next row of the table of validations needs one
        self._metrics.write(b"")  # a run has this file from the start
        self._records = RecordWriter(self._events)  # PyTorch's own writes in another thread, where errors are lost
        self._event(0, file_version="brain.Event:2")
        if purge is not None:
            self._event(purge, session_log=SessionLog(status=SessionLog.START))

    def record(self, step: int, split: str, **values: Any) -> None:
        """Write one line of metrics.jsonl, infinity and NaN as null, and its numbers as TensorBoard scalars."""
        for name, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                values[name] = None
        self._metrics.write(_line({"step": step, "split": split, **values}))
        for name, value in values.items():
            if isinstance(value, int | float):
                self._event(step, summary=scalars.scalar(f"{split}/{name}", value))

    def update(self, progress: Progress, made: Update, training: Training, bar: Step) -> None:
        """Show an update, which ``progress`` counts; at the end of a window, record all of its updates."""
        window = progress.window
        bar.note(f"loss {window.mean:.2f}, {window.rate:,.0f} tokens/s")
        bar.advance()
        if progress.update % training.log_every and not progress.complete(training):
            return
        self.record(
            progress.update,
            "train",
            loss=window.mean,
            perplexity=math.exp(min(window.mean, 700)),
            target_tokens_per_second=window.rate,
            seconds=progress.seconds,
            learning_rate=made.learning_rate,
            gradient_norm=made.gradient_norm,
            epoch=progress.epoch,
            skipped=progress.skipped,
            halved=progress.halved,
        )
        place = f"update {progress.update}/{training.updates}  epoch {progress.epoch}"
        self.say(Detail(f"{place}  loss {window.mean:.3f}  {window.rate:,.0f} target tokens/s"))

    def validation(self, progress: Progress, result: ValidationResult, training: Training, *, best: bool) -> None:
        """Record a validation, and say it as a row of a table; say if it ends training early, and why."""
        scores = {**result.scores, **result.by_tag}
        self.record(progress.update, "validation", **scores, seconds=result.seconds, best=best)
        read = progress.position.epoch + progress.position.batch / progress.position.of
        cells = [("update", 9, f"{progress.update:,}"), ("epochs", 7, f"{read:.2f}")]
        for name, value in result.scores.items():
            metric = METRICS[name]
            cells.append((metric.label, max(len(metric.label), 5) + 1, metric.format(value)))
        cells += [(name, len(name) + 1, f"{value:.2f}") for name, value in result.by_tag.items()]
        cells.append(("time", 8, duration(result.seconds)))
        if self._heading:
            self.say(" ".join(["validation", *(name.rjust(width) for name, width, _ in cells)]))
            self._heading = False
        row = " ".join(["validation", *(text.rjust(width) for _, width, text in cells)])
        self.say(f"{row}  best" if best else row)
        if progress.finished(training) and not progress.complete(training) and progress.best is not None:
            name = METRICS[training.validation.metric].label
            why = f"the validation {name} has not improved in {number_of(progress.waited, 'validation')}"
            kept = f"the best is that of update {progress.best.update}"
            after = f"stopped early after update {progress.update}"
            self.say(f"{after}: {why} (training.validation.patience); {kept}")

    def samples(self, step: int, lines: Sequence[Mapping[str, str]]) -> None:
        """Write one line of samples.jsonl: source, reference and hypothesis of some sentences."""
        self._samples.write(_line({"step": step, "lines": lines}))

    def sync(self) -> None:
        """Sync metrics.jsonl and samples.jsonl to disk, so that no checkpoint outlives the lines before it."""
        self._metrics.sync()
        self._samples.sync()

    def _event(self, step: int, **what: Any) -> None:
        self._records.write(Event(wall_time=time.time(), step=step, **what).SerializeToString())


def _line(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode()


class GrowingFile:
    """A file to which data is appended at once, so that a run that is killed leaves all that was written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, data: bytes) -> None:
        """Append data. Raises FileError."""
        with writing(self.path, FileError), self.path.open("ab") as file:
            file.write(data)

    def sync(self) -> None:
        """Sync the file, if it exists, to disk. Raises FileError."""
        with writing(self.path, FileError):
            if self.path.exists():
                sync(self.path)


def number_of(count: int, noun: str) -> str:
    """A count and its noun: ``1 validation``, ``2 validations``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


# --- before the first update ------------------------------------------------------------------------------------------


def summary(
    training: Training, prepared: PreparedData, model: Seq2Seq, machine: Machine, extent: Extent
) -> Iterator[str]:
    """Describe data, vocabulary, model, machine and length of a run, a line each."""
    tokenizers, pairs, device = prepared.tokenizers, len(prepared.train), machine.device
    parameters = sum(parameter.numel() for parameter in model.parameters())
    tested = f"{len(prepared.test_pairs):,} in the test set" if prepared.test_pairs else "no test set"
    yield (
        f"data: {pairs:,} training pairs; an epoch has {extent.tokens:,} target tokens; "
        f"{len(prepared.validation_pairs):,} pairs for validation, {tested}"
    )
    shared = " (one for both)" if tokenizers.source is tokenizers.target else ""
    yield f"vocabulary: {tokenizers.source.size:,} source and {tokenizers.target.size:,} target pieces{shared}"
    processes = f", {machine.world.size} processes" if machine.world.size > 1 else ""
    yield f"model: {parameters:,} parameters, {format_of(machine.precision)} on {device}{processes}"
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _threads()
    yield f"machine: {name}, {'fused' if machine.kernels == 'auto' else 'plain'} kernels"
    yield (
        f"training: {training.updates:,} updates, {extent.epochs(training.updates):,.1f} epochs, "
        f"{extent.batches:,} batches an epoch; validation every {training.validation.every:,} updates"
    )


def _threads() -> str:
    count, limit = torch.get_num_threads(), time_limit()
    threads = f"{number_of(count, 'thread')} on {number_of(cores(), 'core')}"
    return threads if limit is None else f"{threads} (limited to the time of {limit:g})"
