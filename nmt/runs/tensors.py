"""Tensors by name, and safetensors files. PyTorch is imported when tensors are loaded or saved."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open

from nmt.errors import CheckpointError
from nmt.files import require_regular_file

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MOST_PROBLEMS = 50
"""Problems that are reported; weights with more belong to something else."""
LARGEST_HEADER = 1 << 20
"""Bytes of the header of an untrusted file; safetensors itself accepts a hundred times as many."""


@dataclass(frozen=True)
class Contents:
    """The summary of a safetensors file, known without reading its tensors."""

    size: int
    """Bytes of all tensors."""
    metadata: Mapping[str, str]


def inspect(path: Path) -> Contents:
    """Read the header of a safetensors file. Raises CheckpointError if the file is malformed, or shorter or longer than
    the header says."""
    require_regular_file(path, sys.maxsize)
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            header = int.from_bytes(file.read(8), "little")
        if header > LARGEST_HEADER:
            raise CheckpointError(f"{path}: not a safetensors file of weights: a header of {header:,} bytes")
        with safe_open(path, framework="np") as opened:  # "pt" accepts no path that is not UTF-8
            return Contents(size - 8 - header, opened.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: not a whole safetensors file ({error}; it has {size:,} bytes)") from None


def refuse_other_tensors(
    found: "Mapping[str, Tensor]", shapes: "Mapping[str, torch.Size]", where: str, owner: str
) -> None:
    """Raise CheckpointError that lists every tensor that is missing, superfluous, of another shape or not of floats."""
    problems = [f"{where}: tensor {name} is missing" for name in shapes.keys() - found.keys()]
    problems += [f"{where}: tensor {name} belongs to no part of the {owner}" for name in found.keys() - shapes.keys()]
    for name in shapes.keys() & found.keys():
        shape, kind = found[name].shape, found[name].dtype
        if shape != shapes[name]:
            problems.append(f"{where}: tensor {name} has shape {tuple(shape)}, the {owner} {tuple(shapes[name])}")
        if not kind.is_floating_point:
            problems.append(f"{where}: tensor {name} holds {kind}, not floating-point numbers")
    if problems:
        raise CheckpointError(*sorted(problems)[:MOST_PROBLEMS])


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
    """Load a safetensors file. Raises CheckpointError if it is missing or malformed."""
    if not path.is_file():
        raise CheckpointError(f"{path}: missing")
    from safetensors.torch import load  # noqa: PLC0415

    try:
        # not memory-mapped, because a mapped file keeps its disk space after it is deleted
        return load(path.read_bytes())
    except (OSError, SafetensorError, ValueError, LookupError) as error:  # LookupError: a type that PyTorch lacks
        raise CheckpointError(f"{path}: not a whole safetensors file ({error})") from None


def save_tensors(tensors: "Mapping[str, Tensor]", path: Path) -> None:
    """Write a safetensors file."""
    from safetensors.torch import save_file  # noqa: PLC0415

    save_file(dict(tensors), path)
