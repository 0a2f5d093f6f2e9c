"""Checkpoints: written whole, verified when read, one generation of ``last`` in reserve; tensors by name, and their
safetensors files. PyTorch is imported when tensors are loaded or saved."""

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from safetensors import SafetensorError, safe_open

from nmt.errors import FileError, NmtError
from nmt.files import LARGEST_JSON, digest, read_json, refuse_links_outside, require_regular_file, sync, write_json

if TYPE_CHECKING:
    from torch import Tensor, nn

CHECKSUMS = "sha256.json"
"""File with the checksums of a folder."""
TRIES = 10
"""Readings of a checkpoint that training replaces before each has ended."""
Item = TypeVar("Item")


@dataclass(frozen=True)
class TrainingCheckpoint:
    """The state beside the weights that training needs to resume exactly."""

    tensors: "Mapping[str, Tensor]"
    """Optimizer moments and random generator states."""
    state: Mapping[str, Any]
    """Counters and scores: JSON."""


class Checkpoints:
    """The checkpoints of a run, by name."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"

    def save(self, name: str, model: "Mapping[str, Tensor]", training: TrainingCheckpoint | None = None) -> None:
        """Write a checkpoint beside its predecessor and then replace that; the predecessor of ``last`` becomes
        ``previous``. It has weights, checksums and, for training to continue, moments and counters.

        Raises FileError if it cannot be written; its predecessor is then intact.
        """
        from safetensors.torch import save_file  # noqa: PLC0415

        folder = self.checkpoints / name
        aside, before = folder.with_name(f".{name}.new"), self._before(name)
        try:
            shutil.rmtree(aside, ignore_errors=True)
            if not self.checkpoints.exists():
                self.checkpoints.mkdir()  # without parents: a run that has vanished must not come back in parts
                sync(self.path)
            aside.mkdir()
            save_file(unshared(model), aside / "model.safetensors")
            if training is not None:
                save_file(dict(training.tensors), aside / "training.safetensors")
                write_json(aside / "training.json", training.state)
            for file in aside.glob("*.safetensors"):
                file.chmod(aside.stat().st_mode & 0o666)  # safetensors makes them readable only by their owner
                sync(file)
            sums = {file.name: digest(file) for file in sorted(aside.iterdir())}
            write_json(aside / CHECKSUMS, sums)  # the last file; writing it syncs the directory, too
            if folder.exists():  # otherwise a crash has left the predecessor as the only one
                shutil.rmtree(before, ignore_errors=True)
                folder.rename(before)
            aside.rename(folder)
            sync(self.checkpoints)
            if name != "last":
                shutil.rmtree(before, ignore_errors=True)
        except (OSError, SafetensorError) as error:
            raise FileError(f"{folder}: cannot be written: {error}") from None

    def has(self, name: str) -> bool:
        """Whether a checkpoint exists."""
        return self.folder(name).exists()

    def resumable(self, say: Callable[[str], None]) -> str:
        """The newest checkpoint from which training can resume: ``last``, or ``previous`` with a message if ``last`` is
        damaged. Raises FileError if there is none."""
        problems: list[str] = []
        for name in ("last", "previous"):
            seal = self.checkpoints / name / CHECKSUMS
            if not seal.exists():  # nor may the rest of a checkpoint that was being deleted be trusted
                problems.append(f"{seal if seal.parent.exists() else seal.parent}: missing")
                continue
            try:
                self.weights(name)
                self.training(name)
            except FileError as error:
                problems += error.problems
                continue
            for problem in problems:
                say(f"{problem}; resuming from {self.checkpoints / name}, which is older")
            return name
        raise FileError(*problems, "restore one of them, or start again with --overwrite")

    def fall_back(self) -> None:
        """Replace ``last``, damaged or missing, by ``previous``, which the next save would otherwise delete."""
        self.delete("last")
        (self.checkpoints / "previous").rename(self.checkpoints / "last")
        sync(self.checkpoints)

    def delete(self, name: str) -> None:
        """Remove a checkpoint."""
        shutil.rmtree(self.checkpoints / name, ignore_errors=True)

    def keep(self, names: Set[str]) -> None:
        """Remove every checkpoint ``update-N`` except these, and those that a crash in :meth:`save` left unfinished."""
        for folder in self.checkpoints.iterdir():
            if folder.name.endswith(".new") or (folder.name.startswith("update-") and folder.name not in names):
                shutil.rmtree(folder, ignore_errors=True)

    def weights(self, name: str) -> "dict[str, Tensor]":
        """The weights of a checkpoint, on the CPU. Raises FileError."""
        return self.whole(name, lambda: load_tensors(self._verified(name, "model.safetensors")))

    def training(self, name: str) -> TrainingCheckpoint:
        """The state from which training resumes. Raises FileError."""

        def read() -> TrainingCheckpoint:
            tensors, state = (self._verified(name, file) for file in ("training.safetensors", "training.json"))
            return TrainingCheckpoint(load_tensors(tensors), read_json(state))

        return self.whole(name, read)

    def parameters(self, name: str) -> int:
        """The number of parameters of a checkpoint, all in fp32. Raises FileError."""
        return self.whole(name, lambda: inspect(self.folder(name) / "model.safetensors")[0] // 4)

    def whole(self, name: str, read: Callable[[], Item]) -> Item:
        """Read files of one checkpoint, and again if training has replaced it meanwhile: no reading mixes two.

        Raises what ``read`` raises, and FileError if the checkpoint is replaced each time.
        """
        for _ in range(TRIES):
            before = _fingerprint(self.folder(name))
            try:
                found = read()
            except (NmtError, OSError):
                if _fingerprint(self.folder(name)) == before:
                    raise
            else:
                if _fingerprint(self.folder(name)) == before:
                    return found
        raise FileError(f"{self.folder(name)}: changed while loading; wait until training has finished")

    def folder(self, name: str) -> Path:
        """The directory of a checkpoint; after a crash between the two renames of :meth:`save`, its predecessor's."""
        folder, before = self.checkpoints / name, self._before(name)
        return before if before.exists() and not folder.exists() else folder

    def _verified(self, name: str, file: str) -> Path:
        """A file of a checkpoint, compared with its checksum if there is one. Raises FileError."""
        path = self.folder(name) / file
        sums = path.with_name(CHECKSUMS)
        refuse_links_outside(self.path, [path, sums])
        if path.suffix == ".safetensors":
            inspect(path)  # before the whole of a crafted file is read for its checksum
        else:
            require_regular_file(path, LARGEST_JSON)
        if sums.exists():
            expected = read_json(sums)
            if not isinstance(expected, dict) or expected.get(file) != digest(path):
                raise FileError(f"{path}: damaged: it does not match its checksum in {CHECKSUMS}")
        return path

    def _before(self, name: str) -> Path:
        """The directory to which :meth:`save` moves the checkpoint that it replaces."""
        return self.checkpoints / "previous" if name == "last" else self.checkpoints / f".{name}.old"


# --- tensors by name, and safetensors files ---------------------------------------------------------------------------

LARGEST_HEADER = 1 << 20
"""Bytes of the header of an untrusted file; safetensors itself accepts a hundred times as many."""


def inspect(path: Path) -> tuple[int, Mapping[str, str]]:
    """Read the header of a safetensors file; return the bytes of all tensors, and its metadata. Raises FileError
    if the file is malformed, or shorter or longer than the header says."""
    require_regular_file(path, sys.maxsize)
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            header = int.from_bytes(file.read(8), "little")
        if header > LARGEST_HEADER:
            raise FileError(f"{path}: not a safetensors file of weights: a header of {header:,} bytes")
        with safe_open(path, framework="np") as opened:  # "pt" accepts no path that is not UTF-8
            return size - 8 - header, opened.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise FileError(f"{path}: not a whole safetensors file ({error}; it has {size:,} bytes)") from None


def load_weights(model: "nn.Module", weights: "dict[str, Tensor]", where: str) -> None:
    """Move weights into a model, out of ``weights``: none is in memory twice. Raises FileError that lists every
    tensor that is missing, superfluous, of another shape or not of floats."""
    own = unshared(model.state_dict())
    problems = [f"{where}: tensor {name} is missing" for name in own.keys() - weights.keys()]
    problems += [f"{where}: tensor {name} belongs to no part of the model" for name in weights.keys() - own.keys()]
    for name in own.keys() & weights.keys():
        shape, kind = weights[name].shape, weights[name].dtype
        if shape != own[name].shape:
            problems.append(f"{where}: tensor {name} has shape {tuple(shape)}, the model {tuple(own[name].shape)}")
        if not kind.is_floating_point:
            problems.append(f"{where}: tensor {name} holds {kind}, not floating-point numbers")
    if problems:
        raise FileError(*sorted(problems)[:50])  # weights with more belong to something else
    places = model.state_dict()
    for name in own:  # tied tensors are in the file once
        places[name].copy_(weights.pop(name))


def _fingerprint(path: Path) -> tuple[int, ...] | None:
    """A value that changes with the content of a file or directory; None if there is none."""
    with suppress(OSError):
        found = path.stat()
        return found.st_size, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns
    return None


def unshared(tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """Tensors without repetition: of tied parameters, which share memory, only the first name."""
    seen: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        if tensor.data_ptr() not in seen or not tensor.numel():
            seen.add(tensor.data_ptr())
            result[name] = tensor.contiguous()
    return result


def average(weights: "Iterable[Mapping[str, Tensor]]") -> "dict[str, Tensor]":
    """The mean of several checkpoints, tensor by tensor."""
    total: dict[str, Tensor] = {}
    count = 0
    for count, each in enumerate(weights, 1):
        for name, tensor in each.items():
            total[name] = total[name] + tensor.double() if count > 1 else tensor.double()
    return {name: (tensor / count).float() for name, tensor in total.items()}


def load_tensors(path: Path) -> "dict[str, Tensor]":
    """Load a safetensors file. Raises FileError if the file is missing or malformed."""
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
        tensors = {}
        for name in names:  # opened for each, so that no more than one is in memory twice
            with safe_open(path, framework="pt") as file:
                tensors[name] = file.get_tensor(name).clone()  # a mapped file keeps its disk space when it is deleted
        return tensors
    except (OSError, ValueError, TypeError, RuntimeError, SafetensorError) as error:
        raise FileError(f"{path}: not a whole safetensors file ({error})") from None
