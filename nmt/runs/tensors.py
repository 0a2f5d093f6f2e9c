"""Tensors by name, and safetensors files. PyTorch is imported when tensors are loaded or saved."""

import json
import sys
from collections.abc import Iterable, Mapping
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
TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "U8": "uint8"}
"""The types of numbers that are read, and their names in PyTorch."""


def inspect(path: Path) -> tuple[int, Mapping[str, str]]:
    """Read the header of a safetensors file; return the bytes of all tensors, and its metadata. Raises CheckpointError
    if the file is malformed, or shorter or longer than the header says."""
    require_regular_file(path, sys.maxsize)
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            header = int.from_bytes(file.read(8), "little")
        if header > LARGEST_HEADER:
            raise CheckpointError(f"{path}: not a safetensors file of weights: a header of {header:,} bytes")
        with safe_open(path, framework="np") as opened:  # "pt" accepts no path that is not UTF-8
            return size - 8 - header, opened.metadata() or {}
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
    """Load a safetensors file, each tensor straight into its memory. Raises CheckpointError if the file is missing or
    malformed, or has tensors of other TYPES."""
    inspect(path)
    import torch  # noqa: PLC0415

    tensors: dict[str, Tensor] = {}
    try:
        with path.open("rb") as file:  # not memory-mapped: a mapped file keeps its disk space after it is deleted
            start = 8 + int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(start - 8))
            header.pop("__metadata__", None)
            for name, entry in header.items():
                if entry["dtype"] not in TYPES:
                    raise ValueError(f"tensor {name} holds {entry['dtype']}; must be one of {', '.join(TYPES)}")
                first, end = entry["data_offsets"]
                data = torch.empty(end - first, dtype=torch.uint8)
                file.seek(start + first)
                if file.readinto(data.numpy().data) < len(data):
                    raise ValueError(f"tensor {name} is cut off")
                tensors[name] = data.view(getattr(torch, TYPES[entry["dtype"]])).view(entry["shape"])
        return tensors
    except (OSError, ValueError, TypeError, RuntimeError) as error:  # the last two are those of a shape
        raise CheckpointError(f"{path}: not a whole safetensors file ({error})") from None


def save_tensors(tensors: "Mapping[str, Tensor]", path: Path) -> None:
    """Write a safetensors file."""
    from safetensors.torch import save_file  # noqa: PLC0415

    save_file(dict(tensors), path)
