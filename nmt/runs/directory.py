"""The run directory: safetensors, JSON, YAML and SentencePiece models; nothing that executes.

RUN/config.yaml  manifest.json  data_report.json  language_id.json  metrics.jsonl
RUN/tokenizer/{source,target}.model
RUN/checkpoints/{last,best}/model.safetensors        last: also training.safetensors and training.json
RUN/checkpoints/previous                             the ``last`` before this one
RUN/checkpoints/*/sha256.json                        of the files beside it
RUN/test.hypotheses.txt  test.scores.json            of the test set, when training has finished
"""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from nmt import fast
from nmt.config import Config, dump_config, load_run_config, schema
from nmt.data import language_id
from nmt.data.tokenizer import Tokenizers
from nmt.errors import CheckpointError, ConfigError, FileError, NmtError, tried
from nmt.foundation.files import (
    CHECKSUMS,
    LARGEST_JSON,
    digest,
    read_json,
    refuse_links_outside,
    require_regular_file,
    sync,
    write_checksums,
    write_json,
    write_text,
)
from nmt.model import Seq2Seq, TeacherForced, build_model
from nmt.runs.tensors import count_numbers, load_tensors, metadata, refuse_other_tensors, unshared

UPDATE = "update"
"""What of its header says how many updates were made."""
LOCK = ".lock"
"""A file that is locked where directories cannot be."""
CHECKPOINT = re.compile(r"best|last|previous|update-[0-9]+")
"""What a checkpoint may be called."""
LARGEST_METRICS, MOST_DROPPED = 1 << 30, 1_000_000
"""Bytes, and lines that were written since the last checkpoint, in a run that may come from a stranger."""


@dataclass(frozen=True)
class TrainingCheckpoint:
    """What training needs beside the weights to go on as if it had never stopped."""

    tensors: Mapping[str, Tensor]
    """Optimizer moments and random generator states."""
    state: Mapping[str, Any]
    """Counters and scores: JSON."""


class RunDirectory:
    """The files of one run, by name."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.tokenizer = self.path / "tokenizer"
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.tensorboard = self.path / "tensorboard"
        self.data_report = self.path / "data_report.json"
        self.manifest = self.path / "manifest.json"
        self.language_id = self.path / language_id.FILE_NAME
        self.test_hypotheses = self.path / "test.hypotheses.txt"
        self.test_scores = self.path / "test.scores.json"

    @property
    def exists(self) -> bool:
        """Whether something was ever trained here."""
        return self.config.exists() or self.checkpoints.exists()

    @property
    def foreign(self) -> list[str]:
        """Names of what lies in the directory and belongs to no run."""
        if not self.path.is_dir():
            return []
        known = {part.name for part in self._parts} | {LOCK, "lost+found"}
        known |= {f".{name}.new" for name in known}  # what a crash in the middle of writing leaves
        return sorted(path.name for path in self.path.iterdir() if path.name not in known)

    def create(
        self, config: Config, tokenizers: Tokenizers, report: Mapping[str, Any], manifest: Mapping[str, Any]
    ) -> None:
        """Write everything that stands before the first update."""
        self.tokenizer.mkdir(parents=True, exist_ok=True)
        write_text(self.config, dump_config(config))
        tokenizers.save(self.tokenizer)
        write_json(self.data_report, report)
        write_json(self.manifest, manifest)
        sync(self.path.absolute().parent)

    def remove(self) -> None:
        """Delete what a run consists of, and nothing else that may lie in the folder."""
        for part in self._parts:
            if part.is_dir():
                shutil.rmtree(part, ignore_errors=True)
            else:
                part.unlink(missing_ok=True)

    @contextmanager
    def locked(self, say: Callable[[str], None]) -> Iterator[None]:
        """Nobody else trains here meanwhile. Raises ConfigError if somebody does; where the file system has no locks,
        that is said.

        The operating system lets go when the process ends, however it ends; a network file system may take its time.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                _lock(self.path, stack)
            except BlockingIOError:
                raise ConfigError(
                    f"output: another nmt-train is at work in {self.path}; let it finish, stop it, or name another "
                    "--output"
                ) from None
            except OSError as error:
                say(f"{self.path}: cannot be locked ({error.strerror}); take care that nobody else trains there")
            yield

    def refuse_links(self) -> None:
        """Raise CheckpointError if something that training writes or deletes lies, by a link, outside of the run."""
        if self.path.exists():
            kept = self.checkpoints.iterdir() if self.checkpoints.is_dir() else ()
            refuse_links_outside(self.path, [*self._parts, *kept])

    @property
    def _parts(self) -> tuple[Path, ...]:
        """What a run consists of."""
        files = (self.config, self.metrics, self.data_report, self.manifest, self.language_id)
        results = (self.test_hypotheses, self.test_scores)
        return (self.checkpoints, self.tokenizer, self.tensorboard, *files, *results)

    def save(
        self, name: str, model: Mapping[str, Tensor], training: TrainingCheckpoint | None = None, *, update: int = 0
    ) -> None:
        """Write a checkpoint aside, then put it in the place of the one before; that of ``last`` becomes ``previous``.

        ``update``: how many were made.

        Raises CheckpointError if it cannot be written; the one before is then still there.
        """
        folder = self._place(name)
        aside, before = folder.with_name(f".{name}.new"), self._before(name)
        try:
            shutil.rmtree(aside, ignore_errors=True)
            if not self.checkpoints.exists():
                self.checkpoints.mkdir()  # alone: a run that has vanished must not come back in parts
                sync(self.path)
            aside.mkdir()
            save_file(unshared(model), aside / "model.safetensors", {UPDATE: str(update)})
            if training is not None:
                save_file(dict(training.tensors), aside / "training.safetensors")
                write_json(aside / "training.json", training.state)
            for file in aside.glob("*.safetensors"):
                file.chmod(aside.stat().st_mode & 0o666)  # they come readable by their owner alone
                sync(file)
            write_checksums(aside)  # the last file: with it the folder is on the disk, too
            oldest = folder.with_name(f".{name}.oldest")
            shutil.rmtree(oldest, ignore_errors=True)
            if folder.exists():  # else a crash has left the one before as the only one
                if before.exists():
                    before.rename(oldest)
                folder.rename(before)
            aside.rename(folder)
            sync(self.checkpoints)
            for useless in (oldest,) if name == "last" else (oldest, before):
                shutil.rmtree(useless, ignore_errors=True)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{folder}: cannot be written: {error}") from None

    def has(self, name: str) -> bool:
        """Whether there is such a checkpoint."""
        return self._folder(name).exists()

    def resumable(self, say: Callable[[str], None]) -> str:
        """The newest checkpoint that training can go on from: ``last``, or ``previous`` if that is damaged, which is
        then said. Raises CheckpointError if there is none."""
        there = [name for name in ("last", "previous") if self._place(name).exists()]
        unsealed = [name for name in there if not (self._place(name) / CHECKSUMS).exists()]
        problems: list[str] = []
        for name in sorted(there, key=lambda name: name in unsealed):  # what can be verified is preferred
            try:
                self.weights(name)
                self.training(name)
            except FileError as error:
                problems += error.problems
                continue
            if name in unsealed:
                say(f"{self._place(name) / CHECKSUMS}: missing; whether the files beside it are whole is not known")
            elif name == "previous":
                problems += [f"{self._place(other) / CHECKSUMS}: missing" for other in unsealed]
                problems += [] if "last" in there else [f"{self._place('last')}: missing"]
            for problem in problems:
                say(f"{problem}; going on from {self._place(name)}{', which is older' if name == 'previous' else ''}")
            return name
        if not problems:
            raise CheckpointError(f"{self.checkpoints / 'last'}: missing, nothing to resume from")
        raise CheckpointError(*problems, "put one of them back as it was, or begin anew with --overwrite")

    def fall_back(self) -> None:
        """Put ``previous`` in the place of ``last``, which is damaged or gone: the next save must not replace it."""
        last, aside = self.checkpoints / "last", self.checkpoints / ".last.old"
        shutil.rmtree(aside, ignore_errors=True)
        if last.exists():
            last.rename(aside)
        (self.checkpoints / "previous").rename(last)
        sync(self.checkpoints)

    def delete(self, name: str) -> None:
        """Remove a checkpoint."""
        shutil.rmtree(self._place(name), ignore_errors=True)

    def keep(self, names: Set[str]) -> None:
        """Remove every checkpoint ``update-N`` but these, and what a crash in the middle of ``save`` has left."""
        for folder in self.checkpoints.iterdir():
            left = re.fullmatch(r"\.([a-z0-9-]+)\.(new|old|oldest)", folder.name)
            # an old one may be the only one of its name
            useless = left and (left[2] != "old" or (self.checkpoints / left[1]).exists())
            if useless or (folder.name.startswith("update-") and folder.name not in names):
                shutil.rmtree(folder, ignore_errors=True)

    def weights(self, name: str) -> dict[str, Tensor]:
        """The weights of a checkpoint, on the CPU. Raises CheckpointError."""
        return load_tensors(self._whole(name, "model.safetensors"))

    def training(self, name: str) -> TrainingCheckpoint:
        """What training resumes from. Raises CheckpointError."""
        tensors, state = (self._whole(name, file) for file in ("training.safetensors", "training.json"))
        return TrainingCheckpoint(load_tensors(tensors), read_json(state))

    def update(self, name: str) -> int:
        """How many updates were made when a checkpoint was written; 0 if it does not say. Raises CheckpointError."""
        written = metadata(self._whole(name, "model.safetensors")).get(UPDATE, "0")
        return int(written) if written.isdecimal() and len(written) < 20 else 0

    def _whole(self, name: str, file: str) -> Path:
        """A file of a checkpoint, which is as it was written if there are checksums. Raises CheckpointError if not."""
        path = self._folder(name) / file
        sums = path.with_name(CHECKSUMS)
        refuse_links_outside(self.path, [path, sums])
        if path.suffix == ".safetensors":
            count_numbers(path)  # what is not as long as its header says need not be read to the end
        else:
            require_regular_file(path, LARGEST_JSON)
        if sums.exists():
            expected = read_json(sums)
            if not isinstance(expected, dict) or expected.get(file) != digest(path):
                raise CheckpointError(f"{path}: damaged: it is not what was written ({CHECKSUMS} beside it)")
        return path

    def _before(self, name: str) -> Path:
        """Where ``save`` puts the checkpoint that it replaces."""
        return self.checkpoints / "previous" if name == "last" else self.checkpoints / f".{name}.old"

    def _place(self, name: str) -> Path:
        """Where a checkpoint is put. Raises CheckpointError for a name that could lead elsewhere."""
        if not CHECKPOINT.fullmatch(name):
            raise CheckpointError(f"{self.checkpoints}: no checkpoint is called {name!r}; best, last or update-N is")
        return self.checkpoints / name

    def _folder(self, name: str) -> Path:
        """Where a checkpoint lies; after a crash between the two renames of ``save``, still the one before."""
        folder, before = self._place(name), self._before(name)
        return before if before.exists() and not folder.exists() else folder

    def cut_metrics(self, step: int, validated: int) -> None:
        """Drop the last lines of ``metrics.jsonl``, which training writes again when it goes on from this step, the
        last validation being that of ``validated``: those of later steps, and what was said of the finished run."""
        if not self.metrics.exists():
            return
        require_regular_file(self.metrics, LARGEST_METRICS)
        last, dropped = {"train": step, "validation": validated}, 0
        with self.metrics.open("r+b") as file:
            end = file.seek(0, os.SEEK_END)
            with mmap(file.fileno(), 0, access=ACCESS_READ) if end else nullcontext(b"") as text:
                while end:
                    start = text.rfind(b"\n", 0, end - 1) + 1
                    if end - start < LARGEST_JSON and _stays(text[start:end], last):
                        break
                    end, dropped = start, dropped + 1
                    if dropped > MOST_DROPPED:
                        raise CheckpointError(f"{self.metrics}: the end of it is not what a training writes")
            file.truncate(end)
            os.fsync(file.fileno())


def _lock(folder: Path, stack: ExitStack) -> None:
    """Lock a folder until the stack ends; or a file in it, for network file systems lock no folders. Raises OSError."""
    for path, flags in ((folder, os.O_RDONLY), (folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)):
        descriptor = os.open(path, flags)
        stack.callback(os.close, descriptor)
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:
            problem = error
    raise problem


def _stays(line: bytes, last: Mapping[str, int]) -> bool:
    try:
        record = json.loads(line)
        return line.endswith(b"\n") and bool(record["step"] <= last[record["split"]])
    except (ValueError, KeyError, TypeError, RecursionError):
        return False  # a line cut short by a crash


@dataclass(frozen=True)
class LoadedRun:
    """A trained run, ready to translate."""

    config: Config
    tokenizers: Tokenizers
    model: Seq2Seq

    @property
    def network(self) -> TeacherForced:
        """The model for forced decoding, with the kernels of the configuration."""
        return fast.training(self.model, self.config.kernels)


def load_run(
    path: str | Path, device: torch.device, checkpoint: str = "best", kernels: schema.Kernels | None = None
) -> LoadedRun:
    """Load the model of a run directory, with other ``kernels`` than its configuration says if they are given.

    A run may come from a stranger: nothing in it is executed, nothing outside of it is opened.
    Raises CheckpointError naming the file that is missing, does not fit or is not to be trusted.
    """
    run = RunDirectory(path)
    if not run.path.is_dir():
        raise CheckpointError(f"{run.path}: no such run directory{tried(run.path)}; nmt-train makes one")
    if not run.config.exists():
        raise CheckpointError(f"{run.config}: missing; {run.path} is not a run directory of nmt-train")
    folder = run._folder(checkpoint)
    weights_file = folder / "model.safetensors"
    models = (run.tokenizer / f"{side}.model" for side in ("source", "target"))
    refuse_links_outside(run.path, [*models, weights_file, folder / CHECKSUMS, run.manifest])
    try:
        config = load_run_config(run.path)
        tokenizers = Tokenizers.load(run.tokenizer)
    except NmtError as error:
        raise CheckpointError(*error.problems) from None
    if checkpoint == "best" and not run.has("best"):
        raise CheckpointError(f"{folder}: missing; a run has it after its first validation")
    _refuse_other_tokenizers(run, tokenizers)
    config = config.model_copy(update={"kernels": kernels or config.kernels})
    sizes = tokenizers.source.size, tokenizers.target.size
    _refuse_other_size(config, sizes, weights_file, run.config)
    weights = run.weights(checkpoint)
    model = build_model(config.model, *sizes)
    where = f"{run.checkpoints / checkpoint}"
    load_weights(model, weights, where)
    wrong = [name for name, tensor in unshared(model.state_dict()).items() if not tensor.isfinite().all()]
    if wrong:
        raise CheckpointError(*(f"{where}: tensor {name} holds values that are no finite numbers" for name in wrong))
    return LoadedRun(config, tokenizers, model.to(device).eval())


def _refuse_other_tokenizers(run: RunDirectory, tokenizers: Tokenizers) -> None:
    """Raise CheckpointError for tokenizers that are not those of the manifest; without one, nobody knows."""
    manifest = read_json(run.manifest) if run.manifest.exists() else {}
    known = manifest.get("tokenizer_sha256") if isinstance(manifest, dict) else None
    if known is not None and known != tokenizers.sha256:
        raise CheckpointError(f"{run.tokenizer}: damaged, or of another run: {run.manifest} has other checksums")


def _refuse_other_size(config: Config, sizes: tuple[int, int], weights: Path, where: Path) -> None:
    """Raise CheckpointError for a network and weights of very different sizes, before either takes time or memory."""
    with torch.device("meta"):  # sizes alone
        described = sum(parameter.numel() for parameter in build_model(config.model, *sizes).parameters())
    found = count_numbers(weights)
    if found > 2 * described or described > 2 * found:
        raise CheckpointError(f"{where}: describes a network of {described:,} numbers; {weights} holds {found:,}")


def load_weights(model: Seq2Seq, weights: Mapping[str, Tensor], where: str) -> None:
    """Copy weights into a model; a name or shape that differs raises CheckpointError, all of them at once."""
    shapes = {name: tensor.shape for name, tensor in unshared(model.state_dict()).items()}
    refuse_other_tensors(weights, shapes, where, "model")
    model.load_state_dict(dict(weights), strict=False)  # tied tensors stand in the file once
