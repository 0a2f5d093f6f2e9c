"""The run directory: safetensors, JSON, YAML and SentencePiece models; nothing that executes.

RUN/config.yaml  manifest.json  data_report.json  metrics.jsonl
RUN/tokenizer/{source,target}.model
RUN/checkpoints/{last,best}/model.safetensors        last: also training.safetensors and training.json
RUN/checkpoints/previous                             the ``last`` before this one
RUN/checkpoints/*/sha256.json                        of the files beside it
RUN/test.hypotheses.txt  test.scores.json            of the test set, when training has finished
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt.config import Config, dump_config, load_config, schema
from nmt.errors import CheckpointError, ConfigError, NmtError
from nmt.model import Seq2Seq, build_model
from nmt.tokenizer import Tokenizers

CHECKPOINT = re.compile(r"best|last|previous|update-[0-9]+")
"""What a checkpoint may be called."""
CHECKSUMS = "sha256.json"


@dataclass(frozen=True)
class TrainingCheckpoint:
    """What training needs beside the weights to go on as if it had never stopped."""

    tensors: Mapping[str, Tensor]
    """Optimiser moments and random generator states."""
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
        self.test_hypotheses = self.path / "test.hypotheses.txt"
        self.test_scores = self.path / "test.scores.json"

    @property
    def exists(self) -> bool:
        """Whether something was ever trained here."""
        return self.config.exists() or self.checkpoints.exists()

    def create(
        self, config: Config, tokenizers: Tokenizers, report: Mapping[str, Any], manifest: Mapping[str, Any]
    ) -> None:
        """Write everything that stands before the first update."""
        self.tokenizer.mkdir(parents=True, exist_ok=True)
        write_text(self.config, dump_config(config))
        tokenizers.save(self.tokenizer)
        write_json(self.data_report, report)
        write_json(self.manifest, manifest)

    def remove(self) -> None:
        """Delete what a run consists of, and nothing else that may lie in the folder."""
        for part in (self.checkpoints, self.tokenizer, self.tensorboard):
            shutil.rmtree(part, ignore_errors=True)
        made = (self.config, self.metrics, self.data_report, self.manifest, self.test_hypotheses, self.test_scores)
        for part in made:
            part.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else trains here meanwhile. Raises ConfigError if somebody does.

        The operating system lets go when the process ends, however it ends.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ConfigError(
                f"output: another nmt-train is at work in {self.path}; let it finish, stop it, or name another --output"
            ) from None
        except OSError:  # a file system without locks
            pass
        try:
            yield
        finally:
            os.close(descriptor)

    def save(self, name: str, model: Mapping[str, Tensor], training: TrainingCheckpoint | None = None) -> None:
        """Write a checkpoint aside, then put it in the place of the one before; that of ``last`` becomes ``previous``.

        Raises CheckpointError if it cannot be written; the one before is then still there.
        """
        folder = self._place(name)
        aside, before = folder.with_name(f".{name}.new"), self._before(name)
        try:
            shutil.rmtree(aside, ignore_errors=True)
            self.checkpoints.mkdir(exist_ok=True)  # alone: a run that has vanished must not come back in parts
            aside.mkdir()
            save_file(unshared(model), aside / "model.safetensors")
            if training is not None:
                save_file(dict(training.tensors), aside / "training.safetensors")
                write_json(aside / "training.json", training.state)
            write_json(aside / CHECKSUMS, {file.name: digest(file) for file in sorted(aside.iterdir())})
            for file in aside.iterdir():
                sync(file)
            sync(aside)
            if folder.exists():  # else a crash has left the one before as the only one
                shutil.rmtree(before, ignore_errors=True)
                folder.rename(before)
            aside.rename(folder)
            sync(self.checkpoints)
            if name != "last":
                shutil.rmtree(before, ignore_errors=True)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{folder}: cannot be written: {error}") from None

    def has(self, name: str) -> bool:
        """Whether there is such a checkpoint."""
        return self._folder(name).exists()

    def resumable(self, say: Callable[[str], None]) -> str:
        """The newest checkpoint that training can go on from: ``last``, or ``previous`` if that is damaged, which is
        then said. Raises CheckpointError if there is none."""
        problems: list[str] = []
        for name in ("last", "previous"):
            if not self._place(name).exists():
                continue
            try:
                self.weights(name)
                self.training(name)
            except CheckpointError as error:
                problems += error.problems
                continue
            for problem in problems:
                say(f"{problem}; going on from {self.checkpoints / name}, which is older")
            return name
        raise CheckpointError(*(problems or [f"{self.checkpoints / 'last'}: missing, nothing to resume from"]))

    def fall_back(self) -> None:
        """Put ``previous`` in the place of ``last``, which is damaged or gone: the next save must not replace it."""
        shutil.rmtree(self.checkpoints / "last", ignore_errors=True)
        (self.checkpoints / "previous").rename(self.checkpoints / "last")
        sync(self.checkpoints)

    def delete(self, name: str) -> None:
        """Remove a checkpoint."""
        shutil.rmtree(self._place(name), ignore_errors=True)

    def weights(self, name: str) -> dict[str, Tensor]:
        """The weights of a checkpoint, on the CPU. Raises CheckpointError."""
        return load_tensors(self._whole(name, "model.safetensors"))

    def training(self, name: str) -> TrainingCheckpoint:
        """What training resumes from. Raises CheckpointError."""
        tensors, state = (self._whole(name, file) for file in ("training.safetensors", "training.json"))
        return TrainingCheckpoint(load_tensors(tensors), read_json(state))

    def _whole(self, name: str, file: str) -> Path:
        """A file of a checkpoint, which is as it was written if there are checksums. Raises CheckpointError if not."""
        path = self._folder(name) / file
        sums = path.with_name(CHECKSUMS)
        if path.is_file() and sums.exists():
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

    def cut_metrics(self, step: int) -> None:
        """Drop the lines of ``metrics.jsonl`` that training writes again when it goes on from this step: those of
        later steps, and what was said of the finished run."""
        if not self.metrics.exists():
            return
        kept = [
            line for line in self.metrics.read_text("utf-8", "replace").splitlines(keepends=True) if _stays(line, step)
        ]
        write_text(self.metrics, "".join(kept))


def _stays(line: str, step: int) -> bool:
    try:
        record = json.loads(line)
        return bool(record["step"] <= step and record["split"] in ("train", "validation"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return False  # a line cut short by a crash


@dataclass(frozen=True)
class LoadedRun:
    """A trained run, ready to translate."""

    config: Config
    tokenizers: Tokenizers
    model: Seq2Seq


def load_run(
    path: str | Path, device: torch.device, checkpoint: str = "best", kernels: schema.Kernels | None = None
) -> LoadedRun:
    """Load the model of a run directory, with other ``kernels`` than its configuration says if they are given.

    A run may come from a stranger: nothing in it is executed, nothing outside of it is opened.
    Raises CheckpointError naming the file that is missing, does not fit or is not to be trusted.
    """
    run = RunDirectory(path)
    if not run.path.is_dir():
        raise CheckpointError(f"{run.path}: no such run directory; nmt-train makes one")
    if not run.config.is_file():
        raise CheckpointError(f"{run.config}: missing; {run.path} is not a run directory of nmt-train")
    _refuse_links_outside(run, checkpoint)
    try:
        config = load_config(run.config)
        tokenizers = Tokenizers.load(run.tokenizer)
    except NmtError as error:
        raise CheckpointError(*error.problems) from None
    config = config.model_copy(update={"kernels": kernels or config.kernels})
    sizes = tokenizers.source.size, tokenizers.target.size
    weights = run.weights(checkpoint)
    _refuse_gigantic(config, sizes, weights, run.config)
    model = build_model(config.model, *sizes, fused=config.kernels == "auto")
    where = f"{run.checkpoints / checkpoint}"
    load_weights(model, weights, where)
    wrong = [name for name, tensor in weights.items() if not tensor.isfinite().all()]
    if wrong:
        raise CheckpointError(*(f"{where}: tensor {name} holds values that are no finite numbers" for name in wrong))
    return LoadedRun(config, tokenizers, model.to(device).eval())


def _refuse_links_outside(run: RunDirectory, checkpoint: str) -> None:
    """Raise CheckpointError if a file that is loaded lies outside of the run, by a symbolic link."""
    folder = run._folder(checkpoint)
    files = [run.config, *(run.tokenizer / f"{side}.model" for side in ("source", "target"))]
    files += [folder / name for name in ("model.safetensors", CHECKSUMS)]
    home = run.path.resolve()
    outside = [
        f"{file}: leads out of the run, to {real}" for file in files if home not in (real := file.resolve()).parents
    ]
    if outside:
        raise CheckpointError(
            *outside, "a run directory needs no other file; copy in what it links to, if you trust it"
        )


def _refuse_gigantic(config: Config, sizes: tuple[int, int], weights: Mapping[str, Tensor], where: Path) -> None:
    """Raise CheckpointError for a network that would take far more memory than its weights: it is not theirs."""
    with torch.device("meta"):  # sizes alone
        described = sum(parameter.numel() for parameter in build_model(config.model, *sizes, fused=False).parameters())
    found = sum(tensor.numel() for tensor in weights.values())
    if described > 2 * found:
        raise CheckpointError(f"{where}: describes a network of {described:,} numbers; its weights are {found:,}")


def load_weights(model: Seq2Seq, weights: Mapping[str, Tensor], where: str) -> None:
    """Copy weights into a model; a name or shape that differs raises CheckpointError, all of them at once."""
    shapes = {name: tensor.shape for name, tensor in unshared(model.state_dict()).items()}
    refuse_other_tensors(weights, shapes, where, "model")
    model.load_state_dict(dict(weights), strict=False)  # tied tensors stand in the file once


def refuse_other_tensors(found: Mapping[str, Tensor], shapes: Mapping[str, torch.Size], where: str, owner: str) -> None:
    """Raise CheckpointError, with every problem, unless there are tensors of numbers of just these names and shapes."""
    problems = [f"{where}: tensor {name} is missing" for name in shapes.keys() - found.keys()]
    problems += [f"{where}: tensor {name} belongs to no part of the {owner}" for name in found.keys() - shapes.keys()]
    for name in shapes.keys() & found.keys():
        shape, kind = found[name].shape, found[name].dtype
        if shape != shapes[name]:
            problems.append(f"{where}: tensor {name} has shape {tuple(shape)}, the {owner} {tuple(shapes[name])}")
        if not kind.is_floating_point:
            problems.append(f"{where}: tensor {name} holds {kind}, not floating-point numbers")
    if problems:
        raise CheckpointError(*sorted(problems))


def unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor once, under the first of its names: tied parameters share their memory."""
    seen: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        if tensor.data_ptr() not in seen or not tensor.numel():
            seen.add(tensor.data_ptr())
            result[name] = tensor.contiguous()
    return result


def average(weights: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several checkpoints, tensor by tensor."""
    total: dict[str, Tensor] = {}
    count = 0
    for count, each in enumerate(weights, 1):
        for name, tensor in each.items():
            total[name] = total[name] + tensor.double() if count > 1 else tensor.double()
    return {name: (tensor / count).float() for name, tensor in total.items()}


def load_tensors(path: Path) -> dict[str, Tensor]:
    """A safetensors file. Raises CheckpointError if it is missing, cut short or something else."""
    if not path.is_file():
        raise CheckpointError(f"{path}: missing")
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path}: not a whole safetensors file ({error})") from None
    return tensors


def read_json(path: Path) -> Any:
    """A JSON file. Raises CheckpointError."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from None


def write_json(path: Path, value: Any) -> None:
    """A JSON file, aside and then in place."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """A UTF-8 file with ``\\n`` line ends, aside and then in place."""
    aside = path.with_name(f".{path.name}.new")
    aside.write_text(text, "utf-8", newline="\n")
    sync(aside)
    aside.replace(path)


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Have the operating system put a file, or the names in a folder, on the disk before going on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
